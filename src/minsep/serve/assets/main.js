/* From the numbers of a task to the answer: reads the form, follows the estimates, shows them. */
import * as answer from "./answer.js";
import * as api from "./api.js";
import { byId, copy } from "./dom.js";
import * as form from "./form.js";
import { duration, parsed } from "./numbers.js";
import * as plots from "./plots.js";
import * as runs from "./runs.js";

const PAUSE = 250;
let state = null;
let under = null;
let pause = null;

const speak = (text) => { byId("spoken").textContent = text; };

function numbersOf(texts) {
  const numbers = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, parsed(text)]));
  return { ...numbers, model_size: numbers.model_size || null };
}

/** The mechanism that is shown: the answer, or the best so far. */
function bestOf({ answer: found, candidates }) {
  return found ? found.chosen : answer.ranked(candidates)[0];
}

function changed() {
  clearTimeout(pause);
  under?.abort();
  document.body.classList.add("stale");
  byId("under-way").classList.remove("done");
  pause = setTimeout(() => { form.keepAddress(); explore(false); }, PAUSE);
}

async function explore(patient) {
  under?.abort();
  const here = new AbortController();
  under = here;
  const texts = form.read();
  const found = new Map();
  const next = { inputs: numbersOf(texts), candidates: [], epsilons: [], answer: null, best: null, done: false, asked: null };
  let began = false;
  byId("question").hidden = true;
  byId("under-way").classList.remove("done");
  byId("progress").removeAttribute("value");
  byId("progress-words").textContent = "starting";
  const tell = (message) => {
    if (here.signal.aborted) return;
    if (!began && message.kind !== "problem") {
      began = true;
      byId("problem").textContent = form.showProblems({});
      byId("certify").disabled = false;
    }
    if (message.kind === "candidate") {
      found.set([message.scheme, message.bands, message.min_sep, message.shrink].join(), message);
      next.candidates = [...found.values()];
    } else if (message.kind === "answer") next.answer = message;
    else if (message.kind === "epsilon") next.epsilons.push(message);
    else if (message.kind === "progress") progress(message);
    else if (message.kind === "question") ask(message);
    else if (message.kind === "problem") problem(message, began);
    else if (message.kind === "end") next.done = true;
    next.best = bestOf(next) ?? null;
    if (next.best || next.done) show(next);
    if (message.kind === "answer") {
      byId("progress-words").textContent = `Estimated in ${duration(message.seconds)}.`;
      speak(message.statement);
    }
  };
  try {
    await api.estimate(texts, patient, here.signal, tell);
  } catch (error) {
    if (error.name !== "AbortError") byId("problem").textContent = "The server does not answer: start minsep serve again, and open the link that it prints.";
  }
  if (!here.signal.aborted) {
    byId("under-way").classList.add("done");
    if (!next.answer && !byId("progress-words").textContent.startsWith("Estimated")) byId("progress-words").textContent = "";
  }
}

function show(next) {
  state = next;
  document.body.classList.remove("stale");
  answer.show(state);
  plots.draw(state);
}

function progress({ detail, done, total }) {
  if (total) byId("progress").value = done / total;
  byId("progress-words").textContent = detail;
}

function ask({ detail }) {
  byId("question").hidden = false;
  byId("question-words").textContent = detail;
  speak(detail);
}

function problem({ problems }, began) {
  const rest = form.showProblems(problems);
  byId("problem").textContent = rest;
  byId("certify").disabled = true;
  const count = Object.keys(problems).length;
  byId("kind").textContent = "Not a plan yet";
  byId("kind").className = "chip bad";
  byId("sentence").textContent = count > 1 ? `${count} numbers need a change` : began || rest ? "This cannot be planned" : "One number needs a change";
  byId("remark").textContent = "";
  speak(Object.values(problems).join(" "));
}

/** Ask a question in a dialog. */
function asks(words) {
  const dialog = byId("ask");
  byId("ask-words").textContent = words;
  dialog.showModal();
  return new Promise((answered) => {
    byId("ask-yes").onclick = () => { dialog.close(); answered(true); };
    byId("ask-no").onclick = () => { dialog.close(); answered(false); };
    dialog.oncancel = () => answered(false);
  });
}

async function certify() {
  const button = byId("certify");
  button.disabled = true;
  const { ok, data } = await runs.certify(form.read(), asks);
  if (!ok && data.problems) problem(data, false);
  else button.disabled = false;
}

const { data: description } = await api.form();
byId("version").textContent = description.version;
answer.build(description);
form.build(description, changed);
form.readAddress();
plots.build(description, { onEpsilon: (epsilon) => form.set("epsilon", Number(epsilon.toPrecision(3))) });
byId("certify").addEventListener("click", certify);
byId("go-on").addEventListener("click", () => explore(true));
byId("copy-link").addEventListener("click", (event) => copy(location.origin + location.pathname + form.address(), event.target));
for (const choice of document.querySelectorAll("[name=quantity]")) choice.addEventListener("change", () => state && plots.draw(state));
runs.build(description, speak);
explore(false);
