/* Runs: certify, follow, cancel, take away, and compare two. */
import * as api from "./api.js";
import { byId, copy, element, prose, table } from "./dom.js";
import { digits, duration, whole } from "./numbers.js";

const BUSY = ["queued", "running"];
const CHIP = { certified: "good", "not certified": "bad", failed: "bad", running: "busy", queued: "busy" };
const LABELS = {
  "certificate.json": "Download the certificate", "report.html": "Report", "statement.html": "Statement", "statement.md": "Download the statement as Markdown",
};
let fields = [];
let known = [];
let shown = new Map();
let chosen = [];
let timer = null;
let onlyDifferences = false;
let newest = null;
let spoken = () => {};
let failures = 0;
let asks = async () => true;

export function build(description, speak, ask) {
  fields = description.fields;
  spoken = speak;
  asks = ask;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  refresh();
}

export async function certify(inputs, ask) {
  let answer = await api.certify(inputs, false);
  if (!answer.ok && answer.data.question && (await ask(answer.data.question))) answer = await api.certify(inputs, true);
  if (answer.ok) {
    newest = answer.data.id;
    await refresh();
    byId(`run-${newest}`)?.scrollIntoView({ block: "nearest", behavior: "smooth" });
    spoken("The certificate is queued.");
  }
  return answer;
}

export async function refresh() {
  clearTimeout(timer);
  let answer = null;
  try { answer = await api.runs(); } catch { /* The server may be down for a moment. */ }
  failures = answer?.ok ? 0 : failures + 1;
  byId("runs-words").textContent = failures > 1
    ? "The server does not answer: start minsep serve again, and open the link that it prints."
    : "Certified plans are kept here. Choose two to see them side by side.";
  if (answer?.ok) {
    for (const run of answer.data) {
      const before = known.find(({ id }) => id === run.id);
      if (before && BUSY.includes(before.state) && !BUSY.includes(run.state)) spoken(`The run is ${run.state}.`);
    }
    known = answer.data;
    render();
  }
  const soon = known.some(({ state }) => BUSY.includes(state));
  if (!document.hidden) timer = setTimeout(refresh, failures ? 5000 : soon ? 1000 : 8000);
}

function render() {
  byId("runs-count").textContent = known.length ? `(${known.length})` : "";
  const list = byId("runs-list");
  const kept = new Map();
  known.forEach((run) => {
    const { progress, ...fixed } = run;
    const text = JSON.stringify(fixed);
    let card = shown.get(run.id);
    if (card?.text !== text) {
      const had = card?.node.contains(document.activeElement);
      const node = runCard(run);
      if (card) card.node.replaceWith(node);
      if (had) node.querySelector("button, a, input")?.focus();
      card = { node, text };
    }
    follow(card.node, run);
    kept.set(run.id, card);
  });
  for (const [id, { node }] of shown) if (!kept.has(id)) node.remove();
  shown = kept;
  let place = list.firstChild;
  for (const { node } of kept.values()) {
    if (node === place) place = place.nextSibling;
    else list.insertBefore(node, place);
  }
  if (!known.length) list.replaceChildren(element("p", { class: "quiet" }, "There is none yet."));
  else list.querySelector(":scope > p")?.remove();
  chosen = chosen.filter((id) => known.some((run) => run.id === id));
  current();
  compare();
}

const title = ({ texts }) =>
  `(${texts.epsilon}, ${texts.delta})-DP for ${whole(texts.examples)} examples, batches of ${texts.batch_size}, ${whole(texts.iterations)} iterations`;

function runCard(run) {
  const busy = BUSY.includes(run.state);
  const head = element(
    "div", { class: "head" },
    element("span", { class: `chip ${CHIP[run.state] ?? ""}` }, run.state === "certified" ? "✓ certified" : run.state),
    element("h3", {}, ...prose(title(run))),
    element("span", { class: "quiet" }, new Date(run.created).toLocaleString(), run.seconds ? `, in ${duration(run.seconds)}` : ""),
    run.result.statement ? element("label", { class: "compare" }, element("input", { type: "checkbox", checked: chosen.includes(run.id), value: run.id, onchange: choose, "aria-label": `Compare ${title(run)}` }), "Compare") : null,
  );
  const parts = [head];
  if (busy) {
    parts.push(element("div", { class: "under-way" }, element("progress", { max: "1", "aria-label": "Progress of the certificate" }), element("p", { class: "quiet" })));
    parts.push(element("div", { class: "actions" }, element("button", { type: "button", onclick: () => act(api.cancel, run) }, "Cancel")));
  } else {
    if (run.problem) parts.push(element("p", { class: "problem" }, run.problem));
    if (run.result.statement) parts.push(element("p", {}, ...prose(run.result.statement)));
    const links = Object.keys(LABELS).filter((name) => run.files.includes(name)).map((name) =>
      name.endsWith(".html")
        ? element("a", { class: "button", href: `/runs/${run.id}/${name}`, target: "_blank", rel: "noopener" }, LABELS[name])
        : element("a", { class: "button", href: `/runs/${run.id}/${name}`, download: name }, LABELS[name]));
    parts.push(element(
      "div", { class: "actions" }, ...links,
      element("a", { class: "button", href: `?${new URLSearchParams(run.texts)}` }, "Explore it"),
      element("button", { type: "button", onclick: () => remove(run) }, "Delete"),
    ));
    if (run.result.statement) parts.push(repeat(run));
  }
  return element("article", { class: "run", id: `run-${run.id}`, "aria-label": title(run) }, ...parts);
}

function repeat(run) {
  const block = (name, text, file) => {
    const button = element("button", { type: "button", class: "small" }, `Copy the ${name}`);
    button.addEventListener("click", () => copy(text, button));
    const take = run.files.includes(file) ? element("a", { class: "button small", href: `/runs/${run.id}/${file}`, download: file }, "Download") : null;
    return [element("pre", { tabindex: "0", role: "group", "aria-label": `${name} of ${title(run)}` }, text.trimEnd()), element("div", { class: "actions" }, button, take)];
  };
  return element("details", { open: run.id === newest }, element("summary", {}, "Repeat it"), ...block("command", run.command, "plan.sh"), ...block("Python", run.python, "plan.py"));
}

function follow(card, { progress }) {
  const bar = card.querySelector("progress");
  if (!bar) return;
  if (progress.share === null || progress.share === undefined) bar.removeAttribute("value");
  else bar.value = progress.share;
  const left = progress.left ? `; ${progress.left}` : "";
  card.querySelector(".under-way p").textContent = `${progress.detail ?? "starting"}${left}`;
}

async function act(how, run) {
  await how(run.id);
  await refresh();
}

/** Delete a run; what is certified only after a question. */
async function remove(run) {
  const words = `Delete the certified run ${title(run)}, with its certificate? This cannot be undone.`;
  if (run.state === "certified" && !(await asks(words, { yes: "Delete it", no: "Keep it", final: true }))) return;
  await act(api.remove, run);
  byId("runs").focus();
}

/** What was certified last, beside the answer. */
function current() {
  const run = known.find(({ id }) => id === newest);
  byId("current").replaceChildren(...(run
    ? [element("p", { class: "quiet" }, `The certificate: ${run.state}. `, element("a", { href: `#run-${run.id}` }, "See the run"))]
    : []));
}

function choose(event) {
  const { value, checked } = event.target;
  chosen = chosen.filter((id) => id !== value);
  if (checked) chosen = [...chosen, value].slice(-2);
  for (const box of document.querySelectorAll(".compare input")) box.checked = chosen.includes(box.value);
  compare();
}

function compare() {
  const [left, right] = chosen.map((id) => known.find((run) => run.id === id));
  const place = byId("comparison");
  if (!left || !right) { place.replaceChildren(); return; }
  const results = ({ result }) => ({
    mechanism: result.chosen.name, "noise multiplier": digits(result.noise_multiplier, 5), error: digits(result.error, 5),
    "best baseline": `${result.baseline.name}: ${digits(result.baseline.error)}`, certified: result.certified ? "yes" : "no",
  });
  const rows = [
    ...fields.map(({ name, label }) => [label, left.texts[name] ?? "default", right.texts[name] ?? "default"]).filter((row) => row[1] !== "default" || row[2] !== "default"),
    ...Object.keys(results(left)).map((name) => [name, results(left)[name], results(right)[name]]),
  ];
  const kept = onlyDifferences ? rows.filter(([, one, other]) => one !== other) : rows;
  const box = element("input", { type: "checkbox", checked: onlyDifferences, onchange: () => { onlyDifferences = box.checked; compare(); place.querySelector("input").focus(); } });
  place.replaceChildren(
    element("h3", {}, "Side by side"),
    element("label", {}, box, " Only what differs"),
    table(["", new Date(left.created).toLocaleString(), new Date(right.created).toLocaleString(), "difference"],
      kept.map(([name, one, other]) => [name, one, other, difference(one, other)]),
      { words: true, caption: "Two plans side by side", classes: kept.map(([, one, other]) => (one === other ? "same" : "differs")) }),
  );
}

function difference(one, other) {
  if (one === other) return "the same";
  const [left, right] = [one, other].map((text) => Number(String(text).replace(/,/g, "")));
  return Number.isFinite(left) && Number.isFinite(right) && left !== 0 ? `× ${digits(right / left, 3)}` : "differs";
}
