// A table that sorts, filters, shows its lines in pages and is walked through with arrow keys.
//
// `columns`: {title, help, number, wide, value(row) for sorting, text(row), cell(row) → element
// (else text)}; `rowOf(row)`: its index among the profile's rows, or −1. Sorted by `sort` (a
// column's index) first, most first.

const kPageLines = 200;  // a browser lays out so many at once

class SortedTable {
  constructor({name, columns, rows, rowOf, sort, searched, descending = true}) {
    Object.assign(this, {columns, rows, rowOf, sort, descending});
    this.filterText = "";
    this.page = 0;
    this.lines = new Map();  // of rows that were shown
    this.body = el("tbody");
    this.heads = columns.map(
        (column, index) =>
            el("th", {scope: "col", class: column.number ? "number" : null},
               el("button", {
                 type: "button",
                 title: column.help ?? `Sort by ${column.title}`,
                 onclick: () => this.sortBy(index)
               },
                  column.title)));
    this.shown = el("span", {class: "muted", "aria-live": "polite"});
    this.turns = [
      el("button", {type: "button", onclick: () => this.turn(this.page - 1)}, "Previous"),
      el("button", {type: "button", onclick: () => this.turn(this.page + 1)}, "Next")
    ];
    this.search = el("input", {
      type: "search",
      placeholder: searched,
      "aria-label": searched,
      oninput: () => this.filter(this.search.value)
    });
    this.texts = rows.map(
        (row) => columns.filter((column) => !column.number)
                     .map((column) => column.text(row))
                     .join("\n")
                     .toLowerCase());
    this.element =
        el("div", {"data-view": name},
           el("div", {class: "toolbar"}, this.search, this.shown, this.turns),
           el("div", {class: "scroll"},
              el("table", {class: "rows"}, el("thead", {}, el("tr", {}, this.heads)), this.body)));
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("tr");
      if (line && !event.target.closest("button")) this.choose(line);
    });
    this.arrange();
  }

  line(index) {
    if (!this.lines.has(index)) {
      const row = this.rows[index];
      this.lines.set(
          index,
          el("tr", {tabindex: "-1", "data-row": this.rowOf(row)},
             this.columns.map(
                 (column) =>
                     el("td",
                        {class: column.number ? "number" :
                             column.wide      ? "wide" :
                                                null},
                        column.cell ? column.cell(row) : column.text(row)))));
    }
    return this.lines.get(index);
  }

  sortBy(column) {
    this.descending =
        column === this.sort ? !this.descending : Boolean(this.columns[column].number);
    this.sort = column;
    this.arrange();
  }
  filter(text) {
    this.filterText = text.toLowerCase();
    this.arrange();
  }
  arrange() {
    const value = this.columns[this.sort].value ?? this.columns[this.sort].text;
    const keys = this.rows.map(value);
    const sign = this.descending ? -1 : 1;
    const order = this.rows.map((_, index) => index)
                      .filter((index) => this.texts[index].includes(this.filterText));
    order.sort((a, b) => sign * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) || a - b);
    this.order = order;
    this.heads.forEach((head, index) => {
      if (index === this.sort)
        head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else
        head.removeAttribute("aria-sort");
      head.firstChild.textContent =
          this.columns[index].title + (index === this.sort ? (this.descending ? " ▼" : " ▲") : "");
    });
    this.turn(0);
  }
  turn(page) {
    const pages = Math.max(1, Math.ceil(this.order.length / kPageLines));
    this.page = Math.min(Math.max(page, 0), pages - 1);
    const first = this.page * kPageLines, indices = this.order.slice(first, first + kPageLines);
    const lines = indices.map((index) => this.line(index));
    lines.forEach((line, at) => {
      line.tabIndex = at === 0 ? 0 : -1;
    });
    this.body.replaceChildren(...lines);
    this.mark(selection.current);
    this.turns[0].hidden = this.turns[1].hidden = pages === 1;
    this.turns[0].disabled = this.page === 0;
    this.turns[1].disabled = this.page === pages - 1;
    const found = this.order.length === this.rows.length ?
        number(this.rows.length) :
        `${number(this.order.length)} of ${number(this.rows.length)}`;
    this.shown.textContent = pages === 1 ?
        `${found} shown` :
        `${number(first + 1)} to ${number(first + indices.length)} of ${found}`;
  }

  pressed(event) {
    const line = event.target.closest("tr");
    if (!line || event.target !== line) return;
    if (event.key === "Enter" || event.key === " ")
      this.choose(line);
    else if (event.key === "ArrowDown")
      this.focus(line.nextElementSibling ?? this.turned(this.page + 1, "firstElementChild"));
    else if (event.key === "ArrowUp")
      this.focus(line.previousElementSibling ?? this.turned(this.page - 1, "lastElementChild"));
    else if (event.key === "Home")
      this.focus(this.turned(0, "firstElementChild"));
    else if (event.key === "End")
      this.focus(this.turned(Math.floor((this.order.length - 1) / kPageLines), "lastElementChild"));
    else
      return;
    event.preventDefault();
  }
  // First or last line of a page; null if there is no such page.
  turned(page, which) {
    if (page < 0 || page * kPageLines >= this.order.length) return null;
    if (page !== this.page) this.turn(page);
    return this.body[which];
  }
  focus(line) {
    if (!line) return;
    this.makeFirst(line);
    line.focus();
  }
  // The line that the Tab key leads to.
  makeFirst(line) {
    for (const each of this.body.querySelectorAll('tr[tabindex="0"]')) each.tabIndex = -1;
    line.tabIndex = 0;
  }
  choose(line) {
    const row = Number(line.dataset.row);
    this.makeFirst(line);
    if (row >= 0) selection.row(row);
  }
  mark(selected) {
    for (const line of this.body.children) {
      if (selected.row !== undefined && Number(line.dataset.row) === selected.row)
        line.setAttribute("aria-selected", "true");
      else
        line.removeAttribute("aria-selected");
    }
  }
  show(selected) {
    this.mark(selected);
    if (selected.row === undefined || this.body.querySelector('tr[aria-selected="true"]')) return;
    const at = this.order.findIndex((index) => this.rowOf(this.rows[index]) === selected.row);
    if (at >= 0) this.turn(Math.floor(at / kPageLines));
  }
  reveal() {
    this.body.querySelector('tr[aria-selected="true"]')?.scrollIntoView({block: "nearest"});
  }
}
