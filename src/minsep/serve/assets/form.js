/* The form: fields with sliders, presets, and the address that holds them. */
import { byId, element } from "./dom.js";
import { STEPS, digits, parsed, position, typed, valueAt, whole } from "./numbers.js";

let spec;
let needed;
let changed = () => {};
let seen = "";

export function build(description, onChange) {
  spec = description;
  needed = spec.fields.filter((field) => field.needed).map(({ name }) => name);
  changed = onChange;
  for (const field of spec.fields) {
    byId(field.more ? "more-fields" : "fields").append(
      field.name === "schemes" ? schemesField(field) : field.choices ? choiceField(field) : numberField(field),
    );
  }
  const preset = byId("preset");
  preset.append(element("option", { value: "" }, "Your own numbers"));
  spec.presets.forEach((one, place) => preset.append(element("option", { value: place }, one.name)));
  preset.addEventListener("change", () => {
    if (preset.value !== "") { write(spec.presets[Number(preset.value)].values); touched(); }
  });
  byId("task").addEventListener("submit", (event) => { event.preventDefault(); touched(); });
  addEventListener("popstate", () => {
    if (location.search === seen) return; // only the place on the page changed
    readAddress();
    changed();
  });
}

function shell(field, control, below) {
  return element(
    "div",
    { class: "field", id: `field-${field.name}` },
    element("div", { class: "row" }, element("label", { for: field.name }, field.label), control),
    below,
    element("p", { class: "help", id: `${field.name}-help` }, element("span", {}, field.help), element("span", { class: "derived", id: `${field.name}-derived` })),
    element("p", { class: "problem", id: `${field.name}-problem` }),
  );
}

function numberField(field) {
  const input = element("input", {
    id: field.name, name: field.name, type: "text", inputmode: "decimal", spellcheck: "false", maxlength: "40",
    "aria-describedby": `${field.name}-problem ${field.name}-help`,
    placeholder: field.default === "" ? "none" : false,
  });
  const slider = element("input", {
    id: `${field.name}-slider`, type: "range", min: "0", max: String(STEPS), step: "1",
    "aria-label": `${field.label}, slider`,
  });
  input.addEventListener("input", () => { follow(field); touched(); });
  slider.addEventListener("input", () => {
    input.value = typed(valueAt(Number(slider.value), field.slider));
    speak(field);
    touched();
  });
  return shell(field, input, slider);
}

function choiceField(field) {
  const select = element("select", { id: field.name, name: field.name, "aria-describedby": `${field.name}-help` });
  for (const choice of field.choices) select.append(element("option", { value: choice }, choice.replace("-", " ")));
  select.addEventListener("change", touched);
  return shell(field, null, select);
}

function schemesField(field) {
  const boxes = spec.schemes.map(({ kind, words }) =>
    element("label", {}, element("input", { type: "checkbox", name: "scheme", value: kind, checked: true, onchange: touched }), words),
  );
  return element(
    "fieldset", { class: "field checks", id: "field-schemes", "aria-describedby": "schemes-problem" },
    element("legend", {}, field.label), ...boxes,
    element("p", { class: "problem", id: "schemes-problem" }),
  );
}

/** Put the slider where the field is. */
function follow(field) {
  const value = parsed(byId(field.name).value);
  const slider = byId(`${field.name}-slider`);
  slider.classList.toggle("unset", !Number.isFinite(value));
  if (Number.isFinite(value)) slider.value = String(position(value, field.slider));
  speak(field);
}

function speak(field) {
  const slider = byId(`${field.name}-slider`);
  const text = byId(field.name).value;
  slider.classList.toggle("unset", text.trim() === "");
  slider.setAttribute("aria-valuetext", text.trim() === "" ? "not set" : text);
}

/** What is typed, by field; empty fields are left out. */
export function read() {
  const texts = {};
  for (const field of spec.fields) {
    if (field.name === "schemes") {
      const kinds = [...document.querySelectorAll("[name=scheme]:checked")].map((box) => box.value);
      if (kinds.length < spec.schemes.length) texts.schemes = kinds.join(",");
      continue;
    }
    const text = byId(field.name).value.trim();
    if (text !== "" || needed.includes(field.name)) texts[field.name] = text;
  }
  return texts;
}

/** Fill in the form; what is not given has its default. */
export function write(values) {
  for (const field of spec.fields) {
    const text = values[field.name] ?? field.default;
    if (field.name === "schemes") {
      const kinds = text === "" ? null : text.split(",");
      for (const box of document.querySelectorAll("[name=scheme]")) box.checked = kinds === null || kinds.includes(box.value);
      continue;
    }
    byId(field.name).value = text;
    if (field.slider) follow(field);
  }
}

export function set(name, value) {
  byId(name).value = typed(value);
  follow(spec.fields.find((field) => field.name === name));
  touched();
}

export function readAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.search));
  seen = location.search;
  write(given);
  about();
}

/** The address of the plan in the form. */
export function address() {
  const texts = read();
  const changes = Object.entries(texts).filter(
    ([name, text]) => needed.includes(name) || text !== spec.fields.find((field) => field.name === name).default,
  );
  return `?${new URLSearchParams(changes)}`;
}

/** Put the plan into the address bar: once it rests, as browsers refuse very many changes. */
export function keepAddress() {
  history.replaceState(null, "", address() + location.hash);
  seen = location.search;
}

function touched() {
  about();
  changed();
}

/** What follows from the numbers, and which preset they are. */
function about() {
  const texts = read();
  const [examples, batch, steps, delta] = ["examples", "batch_size", "iterations", "delta"].map((name) => parsed(texts[name] ?? ""));
  const epochs = (steps * batch) / examples;
  byId("iterations-derived").textContent = Number.isFinite(epochs) && epochs > 0
    ? `${digits(epochs, 3)} ${epochs === 1 ? "epoch" : "epochs"} of ${whole(Math.max(1, Math.round(examples / batch)))} batches.` : "";
  byId("delta-derived").textContent = Number.isFinite(delta * examples) && delta * examples > 0.999
    ? "This is one over the number of examples, or more: too much." : "";
  const more = spec.fields.filter((field) => field.more && (texts[field.name] ?? field.default) !== field.default);
  byId("more-summary").textContent = more.length ? `More options (${more.length} set)` : "More options";
  const known = Object.fromEntries(Object.entries(texts).filter(([name, text]) => text !== spec.fields.find((field) => field.name === name).default));
  const alike = spec.presets.findIndex(({ values }) => {
    const own = Object.fromEntries(Object.entries(values).filter(([name, text]) => text !== spec.fields.find((field) => field.name === name).default));
    return Object.keys(own).length === Object.keys(known).length && Object.entries(own).every(([name, text]) => known[name] === text);
  });
  byId("preset").value = alike < 0 ? "" : String(alike);
  byId("preset-help").textContent = alike < 0 ? "" : spec.presets[alike].words;
}

/** Show what is wrong beside its field; sentences about no field are returned. */
export function showProblems(problems) {
  const rest = { ...problems };
  for (const field of spec.fields) {
    const sentence = rest[field.name] ?? "";
    delete rest[field.name];
    byId(`${field.name}-problem`).textContent = sentence;
    byId(field.name)?.setAttribute("aria-invalid", String(sentence !== ""));
    if (sentence && field.more) byId("more").open = true;
  }
  return Object.values(rest).join(" ");
}
