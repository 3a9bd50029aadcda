// Elements. A text is only ever put in as a text, so that nothing in a payload becomes markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, listeners (`onclick: f`) and children: elements, texts, lists of them; nothing where a child is null.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Sets a text where it is another one.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

export function toggle(element, name, on) {
  if (element.classList.contains(name) !== on) element.classList.toggle(name, on);
}

// Terms with their values; what is null or undefined is left out.
export function facts(entries) {
  return entries
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value)));
}

// A table with columns `[heading, class]` and rows of cells.
export function table(columns, rows, empty) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const cell = (tag, content, place) => h(tag, { class: columns[place][1] }, content);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, columns.map(([heading], place) => cell("th", heading, place)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((content, place) => cell("td", content, place))))),
    ),
  );
}
