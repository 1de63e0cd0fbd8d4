/* The answer in a sentence, its numbers, and the ranking. */
import { byId, element, prose, table } from "./dom.js";
import { bytes, digits, whole } from "./numbers.js";

const SHOWN = 8;

let spec;

export function build(description) {
  spec = description;
}

export const ranked = (candidates) => [...candidates].sort((left, right) => left.error - right.error);

const capital = (name) => (name.startsWith("b-") ? name : name[0].toUpperCase() + name.slice(1));

export function show(state) {
  const { answer, candidates, inputs, done } = state;
  const best = state.best;
  const privacy = `(${digits(inputs.epsilon)}, ${digits(inputs.delta, 3)})-DP`;
  byId("about").textContent = `${whole(inputs.examples)} examples, batches of ${digits(inputs.batch_size, 6)}, ${whole(inputs.iterations)} iterations`;
  byId("kind").textContent = answer ? "Estimate" : "Estimating";
  byId("kind").className = answer ? "chip" : "chip busy";
  if (!best) {
    byId("sentence").replaceChildren(done ? "There is no answer" : "Estimating the first mechanisms");
    byId("remark").textContent = "";
    byId("numbers").replaceChildren();
    return;
  }
  const noise = `noise multiplier ${digits(best.noise_multiplier)}`;
  byId("sentence").replaceChildren(
    ...prose(answer ? `${capital(best.name)}, with ${noise}, should be about ${privacy}.` : `So far, ${best.name} has the least error at ${privacy}.`),
  );
  const baseline = ranked(candidates).find((one) => spec.schemes.some(({ kind, baseline }) => baseline && kind === one.scheme) && one.shrink === 1);
  const gain = baseline && baseline.name !== best.name ? 1 - best.error / baseline.error : null;
  byId("remark").replaceChildren(...prose(answer ? answer.statement.replace(/^.*?Do not train with it\./s, "An estimate, not a guarantee: do not train by it.") : "Estimates arrive as they are computed."));
  const memory = (best.bands - 1) * (inputs.model_size || 0) * 4;
  const numbers = [
    ["Privacy", `ε = ${digits(inputs.epsilon)}`, `δ = ${digits(inputs.delta, 3)}`],
    ["Noise multiplier", digits(best.noise_multiplier), "standard deviation / clip norm"],
    ["Error", digits(best.error), `root mean square, ${answer ? answer.workload : "so far"}`],
    ...(gain === null ? [] : [["Against the best baseline", `${gain >= 0 ? "−" : "+"}${digits(100 * Math.abs(gain), 3)} %`, baseline.name]]),
    ...(inputs.model_size ? [["Memory for noise", memory ? bytes(memory) : "none", `${whole(best.bands)} band${best.bands > 1 ? "s" : ""}`]] : []),
  ];
  byId("numbers").replaceChildren(
    ...numbers.map(([name, value, remark]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, element("span", { class: "value" }, value), element("span", { class: "remark" }, ...prose(remark))))),
  );
  byId("brief").replaceChildren(
    answer ? "Estimate: " : "So far: ", "noise ", element("b", {}, digits(best.noise_multiplier)), ", error ", element("b", {}, digits(best.error)), ". See the answer",
  );
  ranking(state);
}

function row(one, least) {
  return [
    [element("span", { class: `swatch ${one.scheme}` }), ...prose(one.name)],
    whole(one.bands), whole(one.min_sep), digits(one.noise_multiplier), digits(one.error), digits(one.error / least, 4), one.exact ? "computed" : "estimate",
  ];
}

function ranking({ candidates, best, answer }) {
  const all = ranked(candidates);
  const first = all.slice(0, SHOWN);
  for (const one of all) if (!first.some(({ scheme }) => scheme === one.scheme)) first.push(one);
  const headings = ["mechanism", "bands", "separation", "noise multiplier", "error", "relative to the best", "how it is known"];
  const marked = (list) => list.map((one) => (one.name === best.name ? "chosen" : ""));
  const rest = all.filter((one) => !first.includes(one));
  const skipped = answer ? answer.table.filter((one) => one.skipped) : [];
  const open = [...byId("ranking-table").querySelectorAll("details")].map((one) => one.open);
  const details = [
    rest.length ? element("details", { open: open[0] }, element("summary", {}, `${rest.length} more`), table(headings, rest.map((one) => row(one, all[0].error)), { caption: "The other mechanisms" })) : null,
    skipped.length ? element("details", { open: open[1] }, element("summary", {}, `${skipped.length} skipped, with reasons`), table(["mechanism", "reason"], skipped.map((one) => [one.name, one.skipped]), { words: true, caption: "Skipped" })) : null,
  ];
  byId("ranking-table").replaceChildren(
    table(headings, first.map((one) => row(one, all[0].error)), { caption: "Mechanisms, the best first", classes: marked(first) }),
    ...details.filter(Boolean),
  );
  byId("ranking-words").textContent = `${all.length} mechanisms at the same privacy, the best first, and the best of each scheme. The error is the root mean square ${answer ? `of ${answer.workload} ` : ""}for clip norm 1.`;
}
