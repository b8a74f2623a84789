// Elements, numbers, drawing and copying: small parts that all other scripts use.

export const $ = (id) => document.getElementById(id);
export const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
// Intl takes 20 ms to start, so numbers are grouped by hand.
export const say = (count) => (count == null ? "–" : String(count).replace(/\B(?=(\d{3})+$)/g, ","));
export const count = (number, noun, plural = `${noun}s`) => `${say(number)} ${number === 1 ? noun : plural}`;

// An element with children: texts or elements.
export function box(name, children, more = {}) {
  const made = element(name, "", more);
  made.append(...children);
  return made;
}

export function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function linkTo(namespace, name, text) {
  return element("a", text ?? name, { href: `#${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` });
}

// Replaces an element's text only if it differs, so that a selection and a screen reader stay where they are.
export function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// ---- drawing: at most once a frame

let drawing = new Set();

export function soon(draw) {
  if (drawing.size === 0) {
    requestAnimationFrame(() => {
      const all = drawing;
      drawing = new Set();
      for (const each of all) each();
    });
  }
  drawing.add(draw);
}

// ---- copying

// A command with a button that copies it.
export function command(text, label = "Copy") {
  const code = element("code", text);
  return box("span", [code, copyButton(text, code, label)], { className: "command" });
}

// Copies a text. Browsers have a clipboard for HTTPS and localhost only; elsewhere the text in `shown` is selected.
export function copyButton(text, shown, label = "Copy", words = `Copy: ${text}`) {
  const button = element("button", label, { type: "button", title: words, ariaLabel: words });
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = label), 2_000);
    } catch {
      getSelection().selectAllChildren(shown);
    }
  };
  return button;
}

// ---- small tables, whose rows become cards on a narrow screen

// `columns` are { title, cell, isNumber, className }; `cell` makes a text or an element of a row.
// A column without any text is left out.
export function smallTable(label, all, rows, more = () => null) {
  const cells = rows.map((row) => all.map((column) => cellOf(column, row)));
  const isUsed = all.map((_, place) => cells.some((line) => !line[place].classList.contains("empty")));
  const columns = all.filter((_, place) => isUsed[place]);
  const head = box("tr", columns.map(({ title, isNumber }) => element("th", title, { scope: "col", className: isNumber ? "number" : "" })));
  const lines = rows.flatMap((row, place) => {
    const line = box("tr", cells[place].filter((_, column) => isUsed[column]));
    const below = more(row);
    return below ? [line, box("tr", [box("td", [below], { colSpan: columns.length })], { className: "below" })] : [line];
  });
  const table = box("table", [box("thead", [head]), box("tbody", lines)], { className: "stack" });
  withRoles(table);
  return box("div", [table], { className: "scroll", tabIndex: 0, role: "region", ariaLabel: label });
}

function cellOf({ title, cell, isNumber, className }, row) {
  const shown = cell(row);
  const made = box("td", [shown ?? ""].flat(), { className: [isNumber && "number", className].filter(Boolean).join(" ") });
  made.dataset.label = title;
  made.classList.toggle("empty", made.textContent === "");
  return made;
}

// A table that is laid out otherwise loses its roles; these keep them.
const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TH: "columnheader", TD: "cell" };

export function withRoles(part) {
  for (const each of [part, ...part.querySelectorAll("*")]) if (ROLES[each.nodeName]) each.setAttribute("role", ROLES[each.nodeName]);
}
