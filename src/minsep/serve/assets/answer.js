/* The answer in a sentence, its numbers, and the ranking. */
import { byId, element, prose, table } from "./dom.js";
import { bytes, digits, whole } from "./numbers.js";

const SHOWN = 8;
const EMPTY = ["Privacy", "Noise multiplier", "Error", "Against the best baseline"].map((name) => [name, "–", ""]);

let spec;

export function build(description) {
  spec = description;
  numbers(EMPTY);
}

export const ranked = (candidates) => [...candidates].sort((left, right) => left.error - right.error);

const words = (scheme) => spec.schemes.find(({ kind }) => kind === scheme)?.words ?? scheme;
const capital = (name) => (name.startsWith("b-") ? name : name[0].toUpperCase() + name.slice(1));

/** The task in a line: the numbers that stand in the form. */
export function about({ examples, batch_size, iterations }) {
  const shown = (value, text) => (Number.isFinite(value) ? text(value) : "–");
  byId("about").textContent = `${shown(examples, whole)} examples, batches of ${shown(batch_size, (size) => digits(size, 6))}, ${shown(iterations, whole)} iterations`;
}

export function show(state) {
  const { answer, candidates, inputs, done } = state;
  const best = state.best;
  const privacy = `(${digits(inputs.epsilon)}, ${digits(inputs.delta, 3)})-DP`;
  byId("kind").textContent = answer ? "Estimate" : "Estimating";
  byId("kind").className = answer ? "chip" : "chip busy";
  if (!best) {
    byId("sentence").replaceChildren(done ? "There is no answer" : "Estimating the first mechanisms");
    byId("remark").textContent = "";
    numbers(EMPTY);
    return;
  }
  const noise = `noise multiplier ${digits(best.noise_multiplier)}`;
  byId("sentence").replaceChildren(
    ...prose(answer ? `${capital(words(best.scheme))} with ${noise} should be about ${privacy}.` : `So far, ${words(best.scheme)} has the lowest error at ${privacy}.`),
  );
  const baseline = ranked(candidates).find((one) => spec.schemes.some(({ kind, baseline }) => baseline && kind === one.scheme) && one.shrink === 1 && one.is_banded);
  const gain = baseline && baseline.name !== best.name ? 1 - best.error / baseline.error : null;
  const remark = answer ? answer.statement.replace(/^.*?Do not train (by|with) it\./s, "An estimate, not a guarantee: do not train with it.") : "Estimates arrive as they are computed.";
  byId("remark").replaceChildren(...prose(`The mechanism: ${best.name}. ${remark}`));
  const memory = best.noise_bytes * (inputs.model_size || 0);
  numbers([
    ["Privacy", `ε = ${digits(inputs.epsilon)}`, `δ = ${digits(inputs.delta, 3)}`],
    ["Noise multiplier", digits(best.noise_multiplier), "standard deviation / clip norm"],
    ["Error", digits(best.error), `root mean square, ${answer ? answer.workload : "so far"}`],
    gain === null ? ["Against the best baseline", "–", "it is the best baseline"] : ["Against the best baseline", `${gain >= 0 ? "−" : "+"}${digits(100 * Math.abs(gain), 3)} %`, baseline.name],
    ...(inputs.model_size ? [["Memory for noise", memory ? bytes(memory) : "none", best.is_banded ? `${whole(best.bands)} band${best.bands > 1 ? "s" : ""}` : best.noise_bytes ? "in buffers" : "rows are drawn again"]] : []),
  ]);
  byId("brief").replaceChildren(
    answer ? "Estimate: " : "So far: ", "noise ", element("b", {}, digits(best.noise_multiplier)), ", error ", element("b", {}, digits(best.error)), ". See the answer",
  );
  ranking(state);
}

function numbers(tiles) {
  byId("numbers").replaceChildren(
    ...tiles.map(([name, value, remark]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, element("span", { class: "value" }, value), element("span", { class: "remark" }, ...prose(remark))))),
  );
}

function row(one, least, recommended) {
  return [
    [element("span", { class: `swatch ${one.scheme}` }), ...prose(one.name), ...(one === recommended ? [" ", element("span", { class: "chip good" }, "recommended")] : [])],
    one.is_banded ? whole(one.bands) : "dense", whole(one.min_sep), digits(one.noise_multiplier), digits(one.error), digits(one.error / least, 4), one.exact ? "computed" : "estimate",
  ];
}

function ranking({ candidates, best, answer }) {
  const byError = ranked(candidates);
  const least = byError[0].error;
  const recommended = answer ? byError.find(({ name }) => name === best.name) : null;
  const all = recommended ? [recommended, ...byError.filter((one) => one !== recommended)] : byError;
  const first = all.slice(0, SHOWN);
  for (const one of all) if (!first.some(({ scheme }) => scheme === one.scheme)) first.push(one);
  const headings = ["mechanism", "bands", "separation", "noise multiplier", "error", "relative to the lowest", "how it is known"];
  const marked = (list) => list.map((one) => (one.name === best.name ? "chosen" : ""));
  const rest = all.filter((one) => !first.includes(one));
  const skipped = answer ? answer.table.filter((one) => one.skipped) : [];
  const open = [...byId("ranking-table").querySelectorAll("details")].map((one) => one.open);
  const details = [
    rest.length ? element("details", { open: open[0] }, element("summary", {}, `${rest.length} more`), table(headings, rest.map((one) => row(one, least)), { caption: "The other mechanisms" })) : null,
    skipped.length ? element("details", { open: open[1] }, element("summary", {}, `${skipped.length} skipped, with reasons`), table(["mechanism", "reason"], skipped.map((one) => [one.name, one.skipped]), { words: true, caption: "Skipped" })) : null,
  ];
  byId("ranking-table").replaceChildren(
    table(headings, first.map((one) => row(one, least, recommended)), { caption: "Mechanisms, the recommended one first", classes: marked(first) }),
    ...details.filter(Boolean),
  );
  const why = !recommended ? "" : recommended.error > least
    ? " The recommended one is tied with the lowest error, as estimates cannot tell errors within 1 % apart, and is the cheapest of them to certify."
    : " The recommended one has the lowest error.";
  byId("ranking-words").textContent = `${all.length} mechanisms at the same privacy, by error, with the best of each scheme.${why} The error is the root mean square ${answer ? `of ${answer.workload} ` : ""}for clip norm 1.`;
}
