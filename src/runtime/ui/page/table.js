// A table that may be long: only the visible rows are in the document. It scrolls with the page, and its rows become cards
// on a narrow screen (page.css); all rows have the height that the style sheet gives as --row. A click on a title sorts.

import { $, box, element, soon, withRoles } from "./common.js";

const MORE = 10; // rows above and below the visible ones

export class Table {
  // `names` are the ids of its elements; `columns` are { id, title, of, cell, isNumber, down, className }; `sort` is the id of the
  // column that sorts first. `draw` is called when the order changes: its owner arranges the objects.
  constructor(names, columns, sort, draw) {
    Object.assign(this, { names, columns, draw, order: [], rows: new Map() });
    this.spaces = [0, 1].map(() => box("tr", [element("td", "", { colSpan: columns.length, className: "space" })], { ariaHidden: "true", className: "space" }));
    this.sort = { column: columns.find(({ id }) => id === sort), up: true };
    this.drawRows = this.drawRows.bind(this);
    for (const event of ["scroll", "resize"]) addEventListener(event, () => soon(this.drawRows), { passive: true });
    withRoles($(names.table));
    if (names.sort) this.offerSorts($(names.sort));
    this.drawHead();
  }

  sortBy(column, up) {
    this.sort = { column, up };
    this.drawHead();
    this.draw();
  }

  drawHead() {
    $(this.names.head).replaceChildren(...this.columns.map((column) => {
      const is = this.sort.column === column;
      const button = element("button", column.title + (is ? (this.sort.up ? " ▴" : " ▾") : ""), { type: "button" });
      button.onclick = () => {
        this.sortBy(column, is ? !this.sort.up : !column.down);
        $(this.names.head).children[this.columns.indexOf(column)].firstChild.focus();
      };
      const cell = box("th", [button], { scope: "col", className: classes(column) });
      cell.setAttribute("role", "columnheader");
      cell.setAttribute("aria-sort", is ? (this.sort.up ? "ascending" : "descending") : "none");
      return cell;
    }));
    if (this.names.sort) $(this.names.sort).value = this.sort.column.id;
  }

  // Cards have no titles to click.
  offerSorts(select) {
    select.append(...this.columns.map(({ id, title }) => element("option", `Sort: ${title}`, { value: id })));
    select.addEventListener("input", () => {
      const column = this.columns.find(({ id }) => id === select.value);
      this.sortBy(column, !column.down);
    });
  }

  // Each object has an `id`, which sorts equal objects.
  arrange(objects) {
    const { column: { of }, up } = this.sort;
    const sign = up ? 1 : -1;
    const keyed = objects.map((object) => [of(object), object.id, object]);
    keyed.sort((one, other) => {
      if (one[0] !== other[0]) return one[0] < other[0] ? -sign : sign;
      return one[1] < other[1] ? -1 : one[1] > other[1] ? 1 : 0;
    });
    this.order = keyed.map(([, , object]) => object);
    soon(this.drawRows);
  }

  drawRows() {
    const body = $(this.names.body);
    if (!body.isConnected || body.closest("[hidden]")) return;
    const { order } = this;
    const style = getComputedStyle(body);
    const height = Number.parseFloat(style.getPropertyValue("--row"));
    const above = Math.max(0, -body.getBoundingClientRect().top);
    const first = Math.min(order.length, Math.max(0, Math.floor(above / height) - MORE));
    const last = Math.min(order.length, first + Math.ceil(innerHeight / height) + 2 * MORE);
    const focused = document.activeElement;
    const link = body.contains(focused) ? focused.getAttribute("href") : null;
    // A changed object is another object, so the row of a known one is as it was.
    const before = this.rows;
    this.rows = new Map(order.slice(first, last).map((object) => [object, before.get(object) ?? this.row(object)]));
    const lines = new Set([...this.space(first, 0, height), ...this.rows.values(), ...this.space(order.length - last, 1, height)]);
    for (const line of [...body.children]) if (!lines.has(line)) line.remove();
    let next = body.firstChild;
    for (const line of lines) {
      if (line === next) next = next.nextSibling;
      else body.insertBefore(line, next);
    }
    if (link && !focused.isConnected) body.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true });
  }

  // Takes the place of rows that are not in the document.
  space(rows, place, height) {
    const line = this.spaces[place];
    line.firstChild.style.height = `${rows * height}px`;
    return rows > 0 ? [line] : [];
  }

  row(object) {
    const cells = this.columns.map((column) => {
      const shown = column.cell ? column.cell(object) : column.of(object);
      const cell = box("td", [shown].flat(), { className: classes(column) });
      cell.dataset.label = column.title;
      cell.classList.toggle("none", cell.textContent === "–");
      return cell;
    });
    const line = box("tr", cells, { className: this.names.rowClass?.(object) ?? "" });
    withRoles(line);
    return line;
  }
}

function classes({ id, isNumber }) {
  return isNumber ? `number of-${id}` : `of-${id}`;
}
