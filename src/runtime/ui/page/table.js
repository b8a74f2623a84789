// A table that may be long: only the rows that can be seen are in the document. A column sorts by a click.

import { $, element, soon } from "./common.js";

const ROW = 30;
const MORE = 10; // rows above and below those that can be seen

export class Table {
  // The names of its elements; columns of { id, title, of, cell, isNumber, down }; and the column that sorts at first.
  // `draw` is called when another column is to sort: whoever has the objects arranges them.
  constructor(names, columns, sort, draw) {
    Object.assign(this, { names, columns, draw, order: [], rows: new Map() });
    this.spaces = [0, 1].map(() => {
      const line = element("tr", "", { ariaHidden: "true" });
      line.append(element("td", "", { colSpan: columns.length, className: "space" }));
      return line;
    });
    this.sort = { column: columns.find(({ id }) => id === sort), up: true };
    this.drawRows = this.drawRows.bind(this);
    this.drawAnew = this.drawAnew.bind(this);
    $(names.box).addEventListener("scroll", () => soon(this.drawRows));
    this.drawHead();
  }

  drawHead() {
    $(this.names.head).replaceChildren(...this.columns.map((column) => {
      const cell = element("th", "", { scope: "col", className: column.isNumber ? "number" : "" });
      const is = this.sort.column === column;
      cell.setAttribute("aria-sort", is ? (this.sort.up ? "ascending" : "descending") : "none");
      const button = element("button", column.title + (is ? (this.sort.up ? " ▲" : " ▼") : ""), { type: "button" });
      button.onclick = () => {
        this.sort = { column, up: is ? !this.sort.up : !column.down };
        this.drawHead();
        this.draw();
        $(this.names.head).children[this.columns.indexOf(column)].firstChild.focus();
      };
      cell.append(button);
      return cell;
    }));
  }

  // Each object has an `id`, by which those are sorted that are alike.
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

  // What rows say has changed, though no object has.
  drawAnew() {
    this.rows.clear();
    this.drawRows();
  }

  drawRows() {
    const [box, body] = [$(this.names.box), $(this.names.body)];
    const { order } = this;
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - MORE);
    const last = Math.min(order.length, first + Math.ceil(box.clientHeight / ROW) + 2 * MORE);
    const focused = document.activeElement;
    const link = body.contains(focused) ? focused.getAttribute("href") : null;
    // A changed object is another one, so the row of one that is known is as it was.
    const before = this.rows;
    this.rows = new Map(order.slice(first, last).map((object) => [object, before.get(object) ?? this.row(object)]));
    const lines = new Set([...this.space(first, 0), ...this.rows.values(), ...this.space(order.length - last, 1)]);
    for (const line of [...body.children]) if (!lines.has(line)) line.remove();
    let next = body.firstChild;
    for (const line of lines) {
      if (line === next) next = next.nextSibling;
      else body.insertBefore(line, next);
    }
    if (link && !focused.isConnected) body.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true });
  }

  // Stands for rows that are not in the document.
  space(rows, place) {
    const line = this.spaces[place];
    line.firstChild.style.height = `${rows * ROW}px`;
    return rows > 0 ? [line] : [];
  }

  row(object) {
    const line = element("tr");
    for (const { of, cell, isNumber } of this.columns) {
      const made = element("td", "", { className: isNumber ? "number" : "" });
      const shown = cell ? cell(object) : of(object);
      made.append(...(Array.isArray(shown) ? shown : [shown]));
      line.append(made);
    }
    return line;
  }
}
