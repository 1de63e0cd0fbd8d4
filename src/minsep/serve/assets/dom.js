/* Small helpers to build elements. Text is always set as text: nothing that is typed or sent becomes markup. */
export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Text in which no line breaks within a name. */
export function prose(text) {
  const parts = String(text).split(/(b-min-sep|\([^()]*\)-DP)/);
  return parts.map((part, place) => (place % 2 ? element("span", { class: "whole" }, part) : part));
}

/** A table: the first column names its row, the others are numbers unless `words` is set. */
export function table(headings, rows, { words = false, caption = "", classes = [] } = {}) {
  const kind = words ? {} : { class: "number" };
  const head = headings.map((text, place) => element("th", { scope: "col", ...(place ? kind : {}) }, text));
  const body = rows.map((row, number) =>
    element(
      "tr",
      classes[number] ? { class: classes[number] } : {},
      ...row.map((cell, place) =>
        place ? element("td", kind, cell) : element("th", { scope: "row" }, ...(Array.isArray(cell) ? cell : [cell])),
      ),
    ),
  );
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption || headings[0] },
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)),
  );
}

export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}
