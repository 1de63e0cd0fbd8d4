/* From the numbers of a task to the answer: reads the form, follows the estimates, shows them. */
import * as answer from "./answer.js";
import * as api from "./api.js";
import { byId, copy } from "./dom.js";
import * as form from "./form.js";
import * as ledger from "./ledger.js";
import { duration, parsed } from "./numbers.js";
import * as plots from "./plots.js";
import * as runs from "./runs.js";

const PAUSE = 250;
const CALM = 2000; // between two answers that are not the last one
let state = null;
let under = null;
let pause = null;
let shownAt = -CALM;
let later = null;
let sending = false;

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
  clearTimeout(later);
  answer.about(numbersOf(form.read()));
  document.body.classList.add("stale");
  byId("certify").disabled = true;
  byId("under-way").classList.remove("done");
  pause = setTimeout(() => { form.keepAddress(); explore(false); }, PAUSE);
}

async function explore(patient) {
  under?.abort();
  clearTimeout(later);
  shownAt = -CALM;
  const here = new AbortController();
  under = here;
  const texts = form.read();
  const found = new Map();
  const next = { inputs: numbersOf(texts), candidates: [], epsilons: [], answer: null, best: null, done: false, refused: false };
  byId("question").hidden = true;
  byId("under-way").classList.remove("done");
  byId("progress").removeAttribute("value");
  byId("progress-words").textContent = "starting";
  const tell = (message) => {
    if (here.signal.aborted) return;
    if (message.kind === "accepted") {
      byId("problem").textContent = form.showProblems({});
      byId("certify").disabled = false;
    } else if (message.kind === "candidate") {
      found.set([message.scheme, message.matrix, message.bands, message.min_sep, message.shrink].join(), message);
      next.candidates = [...found.values()];
    } else if (message.kind === "answer") next.answer = message;
    else if (message.kind === "epsilon") next.epsilons.push(message);
    else if (message.kind === "progress") progress(message);
    else if (message.kind === "question") ask(message);
    else if (message.kind === "problem") { next.refused = true; problem(message); }
    else if (message.kind === "end") next.done = true;
    next.best = bestOf(next) ?? null;
    if (!next.refused && (next.best || next.done)) show(next, next.done || message.kind === "answer");
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

/** Show a state: at once if it is the first or the last one, else when what is shown has stood for a while. */
function show(next, last) {
  clearTimeout(later);
  const wait = last ? 0 : shownAt + CALM - performance.now();
  if (wait > 0) { later = setTimeout(() => show(next, true), wait); return; }
  shownAt = performance.now();
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

function problem({ problems }) {
  clearTimeout(later);
  const rest = form.showProblems(problems);
  byId("problem").textContent = rest;
  byId("certify").disabled = true;
  const count = Object.keys(problems).length;
  byId("kind").textContent = "Not a plan yet";
  byId("kind").className = "chip bad";
  byId("sentence").textContent = count > 1 ? `${count} numbers need a change` : rest ? "This cannot be planned" : "One number needs a change";
  byId("remark").textContent = "";
  speak(Object.values(problems).join(" "));
}

/** Ask a question in a dialog; what cannot be undone is not what the return key does. */
function asks(words, { yes = "Go on", no = "No", final = false } = {}) {
  const dialog = byId("ask");
  byId("ask-words").textContent = words;
  byId("ask-yes").textContent = yes;
  byId("ask-no").textContent = no;
  dialog.showModal();
  if (final) byId("ask-no").focus();
  return new Promise((answered) => {
    byId("ask-yes").onclick = () => { dialog.close(); answered(true); };
    byId("ask-no").onclick = () => { dialog.close(); answered(false); };
    dialog.oncancel = () => answered(false);
  });
}

async function certify() {
  if (sending) return;
  sending = true; // a button that is disabled would lose the focus
  try {
    const { ok, data } = await runs.certify(form.read(), asks);
    if (!ok && data.problems) {
      problem(data);
      document.querySelector("#task [aria-invalid=true]")?.focus();
    }
  } finally {
    sending = false;
  }
}

/** Take over numbers into the form, and go to what they give. */
function planWith(values) {
  for (const [name, value] of Object.entries(values)) form.set(name, value);
  byId("answer").focus();
  speak(`The plan has epsilon ${values.epsilon} and delta ${values.delta} now.`);
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
runs.build(description, speak, asks);
ledger.build(description, planWith);
answer.about(numbersOf(form.read()));
document.body.classList.remove("building");
explore(false);
