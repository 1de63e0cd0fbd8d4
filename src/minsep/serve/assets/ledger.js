/* The budget of the dataset: what its ledger lists, what is spent and left. The page only reads it. */
import * as api from "./api.js";
import { byId, element, prose, table } from "./dom.js";
import { digits, whole } from "./numbers.js";

const PLACES = 6; // none of these numbers may be rounded again
const PAUSE = 10_000;
let plan = () => {};
let shown = "";
let timer = null;

export function build(description, onPlan) {
  if (!description.ledger) return;
  plan = onPlan;
  byId("budget").hidden = false;
  byId("budget-link").hidden = false;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  let answer = null;
  try { answer = await api.ledger(); } catch { /* The runs say that the server does not answer. */ }
  if (answer?.ok) render(answer.data);
  if (!document.hidden) timer = setTimeout(refresh, PAUSE);
}

const point = ({ epsilon, delta }) => [`ε = ${digits(epsilon, PLACES)}`, `δ = ${digits(delta, PLACES)}`];

function render(ledger) {
  const text = JSON.stringify(ledger);
  if (text === shown) return;
  shown = text;
  byId("budget-problem").textContent = ledger.problem ?? "";
  byId("budget-words").textContent = ledger.problem ? "" : ledger.promise;
  if (ledger.problem) { byId("budget-content").replaceChildren(); return; }
  byId("budget-title").textContent = `The budget of ${ledger.dataset}`;
  const { spent, left, entries } = ledger;
  const size = ledger.num_examples === null ? "" : `, of ${whole(ledger.num_examples)} examples`;
  const tiles = [
    ["Total", ...point(ledger), `for each ${ledger.unit}${size}`],
    ["Spent", ...(spent ? point(spent) : ["nothing", ""]), `${whole(entries.length)} ${entries.length === 1 ? "entry" : "entries"}`],
    ["Left for one more run", ...(left.any_run ? point(left.any_run) : ["nothing", ""]), left.any_run ? "whatever else its certificate proves" : ""],
  ];
  byId("budget-content").replaceChildren(...[
    element("dl", { class: "numbers" }, ...tiles.map(([name, value, ...remarks]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, element("span", { class: "value" }, value), element("span", { class: "remark" }, remarks.filter(Boolean).join(", ")))))),
    element("progress", { max: "1", value: String(spent ? spent.epsilon / ledger.epsilon : 0), "aria-label": "Share of epsilon that is spent" }),
    element("p", {}, ...prose(left.statement)),
    ledger.unit === "user" ? element("p", {}, "This ledger protects users: say under More options how many examples a user has at most.") : null,
    element("div", { class: "actions" },
      left.any_run ? element("button", { type: "button", id: "plan-left", onclick: () => plan(values(ledger)) }, "Plan with what is left") : null,
      element("span", { class: "quiet" }, "The page only reads the ledger. To book a run: ", element("code", {}, `minsep ledger ${ledger.path} --add certificate.json`))),
    listed(entries),
    element("p", { class: "quiet hash" }, "Hash of the last line: ", element("code", {}, ledger.head)),
  ].filter(Boolean));
}

/** What a plan takes from the ledger. How many examples a user has, it does not say. */
function values({ left, num_examples, unit }) {
  return { ...left.any_run, ...(num_examples === null ? {} : { examples: num_examples }), ...(unit === "example" ? { user_bound: 1 } : {}) };
}

function listed(entries) {
  if (!entries.length) return element("p", { class: "quiet" }, "There are no entries yet.");
  const rows = entries.map(({ index, name, kind, date, alone: [epsilon, delta] }) => [`${index}: ${name}`, digits(epsilon, PLACES), digits(delta, PLACES), kind, date]);
  return table(["entry", "ε alone", "δ alone", "kind", "date"], rows, { caption: "Entries of the ledger" });
}
