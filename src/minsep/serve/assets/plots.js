/* The linked plots. Colours are those of the light theme; in the dark one they are replaced. */
import { byId, element, table } from "./dom.js";
import { curve, truePositives } from "./attacker.js";
import { bytes, digits, percent, whole } from "./numbers.js";

const INK = "#1c2430", QUIET = "#5a6473", GRID = "#dfe3e8", BLUE = "#2458c6", GREY = "#6b7280", GOLD = "#e0a100", BAND = "#d6e2f8", ORANGE = "#b4500f";
const FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const STAR = { symbol: "star", size: 14, color: GOLD, line: { width: 1, color: INK } };
const BYTES = 4;
const LEAST_TICKS = 3;
const night = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)");
const FIGURES = [
  ["epsilon", "Error against ε"],
  ["bands", "By the number of bands"],
  ["separation", "By bands and separation"],
  ["memory", "Memory for noise"],
  ["attacker", "What an attacker can learn"],
];
let spec;
let ready = null;
let waiting = null;
let last = null;

export function build(description, { onEpsilon }) {
  spec = description;
  for (const [name, title] of FIGURES) {
    byId("grid").append(element(
      "figure", { id: `figure-${name}` },
      element("h3", { id: `title-${name}` }, title),
      element("div", { class: "plot", id: `plot-${name}`, role: "img", "aria-labelledby": `title-${name}`, "aria-describedby": `caption-${name}` }),
      element("figcaption", { id: `caption-${name}` }),
      element("details", {}, element("summary", {}, "The numbers"), element("div", { id: `table-${name}` })),
    ));
  }
  // Plotly brings styles of maps along, which the policy forbids and nothing here needs: it looks whether they are there.
  for (const id of spec.foreign_styles) document.head.append(element("meta", { id }));
  byId("plot-epsilon").onEpsilon = onEpsilon;
  night.addEventListener("change", () => { if (last !== null) draw(last); });
}

/** Load Plotly once there is something to draw: its script is long, and the first answer should not wait for it. */
function loaded() {
  ready ??= new Promise((done, failed) => {
    document.head.append(element("script", { src: "/assets/plotly.min.js", onload: done, onerror: failed }));
  });
  return ready;
}

/** Draw soon; of several requests at once only the last is drawn. */
export function draw(state) {
  last = state;
  if (waiting !== null) return;
  waiting = setTimeout(async () => {
    await loaded();
    waiting = null;
    epsilonPlot(last);
    bandsPlot(last);
    separationPlot(last);
    memoryPlot(last);
    attackerPlot(last);
  }, 60);
}

function layout(x, y, more = {}) {
  const axis = { gridcolor: GRID, linecolor: QUIET, showline: true, zeroline: false, automargin: true, ticks: "outside", tickcolor: QUIET, tickfont: { color: QUIET } };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: FONT, size: 12.5, color: INK },
    margin: { l: 8, r: 12, t: 12, b: 8 }, hovermode: "closest", showlegend: true, dragmode: false,
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, xanchor: "left" },
    xaxis: { ...axis, showgrid: false, title: { text: x, standoff: 8 }, ...more.xaxis },
    yaxis: { ...axis, showline: false, ticks: "", title: { text: y, standoff: 10 }, ...more.yaxis },
    ...more.rest,
  };
}

function show(name, data, shape) {
  const plot = byId(`plot-${name}`);
  const text = JSON.stringify({ data, shape });
  const figure = JSON.parse(night.matches ? text.replace(/#[0-9a-f]{6}/g, (colour) => spec.night[colour] ?? colour) : text);
  figure.shape.dragmode = touch.matches ? false : "zoom";
  figure.shape.hoverlabel = { bgcolor: night.matches ? "#232b36" : "#ffffff", font: { color: figure.shape.font.color } };
  Plotly.react(plot, figure.data, figure.shape, { responsive: true, displayModeBar: false, displaylogo: false });
  if (plot.onEpsilon && !plot.listening) {
    plot.listening = true;
    plot.on("plotly_click", (event) => plot.onEpsilon(event.points[0].x));
  }
}

function tell(name, words, ...numbers) {
  byId(`caption-${name}`).textContent = words;
  byId(`table-${name}`).replaceChildren(...numbers);
}

const style = (scheme) => spec.styles[scheme] ?? [GREY, "circle"];
const words = (scheme) => spec.schemes.find(({ kind }) => kind === scheme)?.words ?? scheme;
const known = (one) => (one.exact ? "computed" : "estimate");

/** The best of those that share a key. */
function bestBy(candidates, key) {
  const best = new Map();
  for (const one of candidates) {
    const name = key(one);
    if (!best.has(name) || one.error < best.get(name).error) best.set(name, one);
  }
  return best;
}

/** Ticks of a logarithmic axis that read in order, as few as show the range. */
function logTicks(values) {
  const known = values.filter((value) => value > 0);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  if (!known.length) return [];
  const steps = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9]];
  for (const step of steps) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power += 1) {
      ticks.push(...step.map((one) => Number((one * 10 ** power).toPrecision(2))).filter((tick) => tick >= 0.95 * least && tick <= 1.05 * most));
    }
    if (ticks.length >= LEAST_TICKS || step === steps.at(-1)) return ticks;
  }
}

function epsilonPlot({ candidates, epsilons, best, inputs }) {
  const epsilon = inputs.epsilon;
  const dpSgd = candidates.find(({ scheme }) => scheme === "poisson");
  const lines = [];
  const add = (one, name, colour, symbol, dash) => {
    if (!one) return;
    const points = epsilons.filter((point) => point.scheme === one.scheme && point.matrix === one.matrix && point.bands === one.bands && point.min_sep === one.min_sep)
      .map((point) => [point.epsilon, point.error]);
    points.push([epsilon, one.error]);
    points.sort((left, right) => left[0] - right[0]);
    lines.push({ name, points });
    return { type: "scatter", mode: "lines+markers", x: points.map(([x]) => x), y: points.map(([, y]) => y), name,
      line: { color: colour, width: 2, dash }, marker: { color: colour, symbol, size: 7 }, hovertemplate: "ε = %{x:.3g}<br>error %{y:.4g}<extra>%{fullData.name}</extra>" };
  };
  const data = [
    add(dpSgd, "DP-SGD", GREY, "diamond", "solid"),
    best && best.scheme !== "poisson" ? add(best, best.name.split(", off")[0], style(best.scheme)[0], style(best.scheme)[1], "solid") : null,
    best ? { type: "scatter", mode: "markers", x: [epsilon], y: [best.error], name: "you are here", marker: STAR, hovertemplate: "ε = %{x:g}<br>error %{y:.4g}<extra>you are here</extra>" } : null,
  ].filter(Boolean);
  const ticks = [...new Set(lines.flatMap(({ points }) => points.map(([x]) => x)))].sort((left, right) => left - right);
  const heights = logTicks(lines.flatMap(({ points }) => points.map(([, y]) => y)));
  show("epsilon", data, layout("ε", "error", {
    xaxis: { type: "log", tickvals: ticks, ticktext: ticks.map((tick) => digits(tick, 2)) },
    yaxis: { type: "log", tickvals: heights, ticktext: heights.map((tick) => digits(tick, 3)) },
  }));
  const ratio = best && dpSgd ? dpSgd.error / best.error : null;
  tell("epsilon",
    best ? `You are at ε = ${digits(epsilon)}, with an error of ${digits(best.error)}${ratio > 1.005 ? `: DP-SGD has ${digits(100 * (ratio - 1), 2)} % more` : ""}. Estimates for the same mechanism at other budgets; click a point to go there.` : "",
    table(["mechanism", ...ticks.map((tick) => `ε = ${digits(tick, 2)}`)], lines.map(({ name, points }) => [name, ...ticks.map((tick) => digits(points.find(([x]) => x === tick)?.[1] ?? NaN))]), { caption: "Error by epsilon" }));
}

const quantityOf = () => document.querySelector("[name=quantity]:checked").value;
const NAMES = { error: "error", noise_multiplier: "noise multiplier" };

function bandsPlot({ candidates: all, best }) {
  const candidates = all.filter((one) => one.is_banded);
  const quantity = quantityOf();
  const data = [];
  const rows = [];
  for (const { kind } of spec.schemes) {
    for (const tuned of [false, true]) {
      const own = candidates.filter((one) => one.scheme === kind && (one.shrink !== 1) === tuned);
      const points = [...bestBy(own, (one) => one.bands).values()].sort((left, right) => left.bands - right.bands);
      if (!points.length) continue;
      const [colour, symbol] = style(kind);
      const name = words(kind) + (tuned ? ", tuned" : "");
      data.push({
        type: "scatter", mode: "lines+markers", x: points.map((one) => one.bands), y: points.map((one) => one[quantity]), name,
        line: { color: colour, width: 2, dash: tuned ? "dot" : "solid" }, marker: { color: colour, size: 7.5, symbol: symbol + (tuned ? "-open" : "") },
        customdata: points.map((one) => [one.name, one.noise_multiplier, one.error, known(one)]),
        hovertemplate: "%{customdata[0]}<br>noise multiplier %{customdata[1]:.4g}<br>error %{customdata[2]:.4g}<extra>%{customdata[3]}</extra>",
      });
      rows.push(...points.map((one) => [one.name, whole(one.bands), digits(one.noise_multiplier), digits(one.error)]));
    }
  }
  if (best && best.is_banded) data.push({ type: "scatter", mode: "markers", x: [best.bands], y: [best[quantity]], name: "you are here", marker: STAR, hovertemplate: "%{y:.4g}<extra>you are here</extra>" });
  const bands = [...new Set(candidates.map((one) => one.bands))].sort((left, right) => left - right);
  show("bands", data, layout("bands", NAMES[quantity], {
    xaxis: { type: "log", tickvals: bands, ticktext: bands.map(whole) }, yaxis: { rangemode: quantity === "error" ? "tozero" : "normal" },
  }));
  tell("bands", "Each scheme at its best separation. More bands cancel more of the noise, and need more of it; dotted lines are strategies tuned to the sampling.",
    table(["mechanism", "bands", "noise multiplier", "error"], rows, { caption: "Noise and error by bands" }));
}

/** A colour between three others, for a share from 0 to 1. */
function shade(share) {
  const stops = [[108, 152, 232], [179, 202, 243], [244, 244, 242]];
  const dark = [[47, 92, 181], [37, 63, 110], [29, 35, 44]];
  const [from, middle, to] = night.matches ? dark : stops;
  const [left, right, part] = share < 0.5 ? [from, middle, 2 * share] : [middle, to, 2 * share - 1];
  return `rgb(${left.map((value, place) => Math.round(value + part * (right[place] - value))).join(",")})`;
}

/* Bars of height 1 on top of each other instead of Plotly's heat map, which sets styles that the policy forbids. */
function separationPlot({ candidates, best }) {
  const quantity = quantityOf();
  const own = candidates.filter((one) => one.is_banded && one.bands > 1 && one.shrink === 1 && ["min-sep", "balls-in-bins"].includes(one.scheme));
  const bands = [...new Set(own.map((one) => one.bands))].sort((left, right) => left - right);
  const separations = [...new Set(own.map((one) => one.min_sep))].sort((left, right) => left - right);
  const cell = (separation, size) => own.find((one) => one.min_sep === separation && one.bands === size);
  const values = own.map((one) => one[quantity]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const share = (value) => (most > least ? Math.sqrt((value - least) / (most - least)) : 0);
  const data = separations.map((separation, row) => {
    const places = bands.map((size, place) => [place, cell(separation, size)]).filter(([, one]) => one);
    return {
      type: "bar", x: places.map(([place]) => place), y: places.map(() => 0.95), base: places.map(() => row - 0.475), width: 0.96, showlegend: false,
      marker: { color: places.map(([, one]) => shade(share(one[quantity]))) },
      text: places.map(([, one]) => digits(one[quantity], 3)), textposition: "inside", insidetextanchor: "middle", textangle: 0, textfont: { color: INK, size: 11 },
      customdata: places.map(([, one]) => [one.name, one.noise_multiplier, one.error, known(one)]),
      hovertemplate: "%{customdata[0]}<br>noise multiplier %{customdata[1]:.4g}<br>error %{customdata[2]:.4g}<extra>%{customdata[3]}</extra>",
    };
  });
  const place = best && best.is_banded ? [bands.indexOf(best.bands), separations.indexOf(best.min_sep)] : [-1, -1];
  const shapes = Math.min(...place) < 0 ? [] : [{ type: "rect", x0: place[0] - 0.48, x1: place[0] + 0.48, y0: place[1] - 0.475, y1: place[1] + 0.475, line: { color: GOLD, width: 3 } }];
  show("separation", data, layout("bands", "separation b", {
    xaxis: { tickvals: bands.map((_, index) => index), ticktext: bands.map(whole), showline: false, ticks: "" },
    yaxis: { tickvals: separations.map((_, index) => index), ticktext: separations.map(whole), showgrid: false },
    rest: { showlegend: false, barmode: "overlay", shapes },
  }));
  tell("separation",
    own.length
      ? `The ${NAMES[quantity]} of b-min-sep before tuning: the bluer, the less. Examples stay away for at least b iterations; the longest, b = ${whole(separations.at(-1))}, is an epoch.`
      : "Nothing here yet: b-min-sep and balls-in-bins are estimated last, or are not among the schemes to try.",
    table(["separation", ...bands.map((size) => `${whole(size)} bands`)], separations.map((separation) => [whole(separation), ...bands.map((size) => digits(cell(separation, size)?.[quantity] ?? NaN))]), { caption: "By bands and separation" }));
}

function memoryPlot({ candidates, best, inputs }) {
  const size = inputs.model_size || 1e6;
  const bands = [1, 2, 4, 8, 16, 32, 64, 128, 256].filter((one) => one <= Math.max(64, inputs.max_bands || 64));
  const needs = (count) => (count - 1) * size * BYTES;
  const shown = bands.slice(1);
  const model = size * BYTES;
  const data = [
    { type: "scatter", mode: "lines+markers", x: shown, y: shown.map((count) => needs(count)), name: "noise", line: { color: BLUE, width: 2 }, marker: { color: BLUE, size: 7 }, customdata: shown.map((count) => bytes(needs(count))), hovertemplate: "%{x} bands<br>%{customdata}<extra></extra>" },
    { type: "scatter", mode: "lines", x: [shown[0], shown.at(-1)], y: [model, model], name: "the model itself", line: { color: GREY, width: 2, dash: "dash" }, hovertemplate: `${bytes(model)}<extra>the model, in float32</extra>` },
  ];
  if (best && best.is_banded && best.bands > 1) data.push({ type: "scatter", mode: "markers", x: [best.bands], y: [needs(best.bands)], name: "you are here", marker: STAR, hovertemplate: `${bytes(needs(best.bands))}<extra>you are here</extra>` });
  const ticks = [];
  for (let tick = 2 ** Math.floor(Math.log2(model)); tick <= 2 * needs(shown.at(-1)); tick *= 4) ticks.push(tick);
  show("memory", data, layout("bands", "memory", {
    xaxis: { type: "log", tickvals: shown, ticktext: shown.map(whole) }, yaxis: { type: "log", tickvals: ticks, ticktext: ticks.map(bytes) },
  }));
  const kept = best && !best.is_banded ? `This strategy keeps ${best.noise_bytes ? `${bytes(best.noise_bytes * size)} of` : "no"} past noise` : null;
  const own = kept ?? (best ? (best.bands > 1 ? `${whole(best.bands)} bands keep ${bytes(needs(best.bands))} of past noise` : "One band keeps no past noise") : "Past noise that is kept");
  tell("memory", `${own}, for ${inputs.model_size ? "your model" : "a model"} of ${whole(size)} parameters in float32${inputs.model_size ? "" : ": give the model size for your own"}.`,
    table(["bands", "memory for noise"], bands.map((count) => [whole(count), count > 1 ? bytes(needs(count)) : "none"]), { caption: "Memory for noise" }));
}

function attackerPlot({ inputs }) {
  const { epsilon, delta } = inputs;
  if (!(epsilon > 0) || !(delta > 0)) return;
  const { shares, bound } = curve(epsilon, delta);
  const ends = [1e-4, 1];
  show("attacker", [
    { type: "scatter", mode: "lines", x: shares, y: shares, name: "guessing", line: { color: GREY, width: 2, dash: "dash" }, hovertemplate: "false positives %{x:.2%}<br>true positives %{y:.2%}<extra>guessing</extra>" },
    { type: "scatter", mode: "lines", x: shares, y: bound, name: "at most, for any attacker", fill: "tonexty", fillcolor: BAND, line: { color: ORANGE, width: 2.5 }, hovertemplate: "false positives %{x:.2%}<br>true positives at most %{y:.2%}<extra></extra>" },
  ], layout("false positives", "true positives", {
    xaxis: { type: "log", range: [Math.log10(ends[0]), 0.02], tickvals: [1e-4, 1e-3, 1e-2, 0.1, 1], ticktext: ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"] },
    yaxis: { type: "log", range: [-4, 0.05], tickvals: [1e-4, 1e-3, 1e-2, 0.1, 1], ticktext: ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"] },
  }));
  const at = (share) => percent(truePositives(share, epsilon, delta));
  tell("attacker", `A test that wrongly flags 1 % of the examples outside the data flags at most ${at(0.01)} of those in it. This holds for any attacker at (${digits(epsilon)}, ${digits(delta, 3)})-DP, whatever they know; the attacks that are known do far worse.`,
    table(["false positives", "true positives at most", "guessing"], [0.001, 0.01, 0.1].map((share) => [percent(share), at(share), percent(share)]), { caption: "True positives against false positives" }));
}
