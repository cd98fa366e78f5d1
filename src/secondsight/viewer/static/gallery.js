// The photographs of a run: filtered, sorted, and opened in the viewer.
import { el } from "./page_parts.js";
import { percent, short } from "./words.js";

const ORDERS = {
  list: ["As in the list", (columns) => (i) => i],
  sure: ["Most confident first", (columns) => (i) => -columns.probability[i]],
  unsure: ["Least confident first", (columns) => (i) => columns.probability[i]],
  sparse: ["Sparsest first", (columns) => (i) => -columns.sparsity[i]],
  dense: ["Densest first", (columns) => (i) => columns.sparsity[i]],
  angle: ["Second order matters most", (columns) => (i) => -(columns.angle[i] ?? -1)],
  gap: ["Largest gap first", (columns) => (i) => -(columns.relative_gap[i] ?? Infinity)],
  slow: ["Slowest first", (columns) => (i) => -columns.seconds[i]],
  label: ["By class", (columns) => (i) => columns.label[i]],
};

const KINDS_OF_ROWS = {
  all: ["All", () => true],
  certified: ["Certified", (columns, i) => columns.certified[i] === true],
  uncertified: ["Not certified", (columns, i) => columns.certified[i] === false],
  other: ["Another class than predicted", (columns, i) => columns.predicted[i] === false],
  noted: ["With notes", (columns, i) => columns.notes[i] > 0],
};

/** The gallery of some rows: `thumbnails` by row. `onopen` gets a row, and the rows that are shown. */
export class Gallery {
  constructor(columns, thumbnails, onopen) {
    Object.assign(this, { columns, thumbnails, onopen, ranges: new Map(), shown: [] });
    const options = (all) => Object.entries(all).map(([value, [words]]) => el("option", { value }, words));
    this.search = el("input", { type: "search", placeholder: "name or class", oninput: () => this.update() });
    this.order = el("select", { onchange: () => this.update() }, options(ORDERS));
    this.filter = el("select", { onchange: () => this.update() }, options(KINDS_OF_ROWS));
    this.count = el("span", { "aria-live": "polite" });
    this.chips = el("span", { class: "chips" });
    this.cards = new Map([...thumbnails.keys()].map((row) => [row, this.#card(row)]));
    this.list = el("ul", { class: "gallery" });
    this.element = el(
      "section",
      { "aria-label": "Photographs" },
      el(
        "div",
        { class: "toolbar" },
        el("label", {}, el("span", {}, "Search"), this.search),
        el("label", {}, el("span", {}, "Show"), this.filter),
        el("label", {}, el("span", {}, "Order"), this.order),
        this.chips,
        this.count,
      ),
      this.list,
    );
    this.update();
  }

  /** Keep the rows whose column holds; null: all of them again. */
  keep(column, range) {
    range ? this.ranges.set(column, range) : this.ranges.delete(column);
    this.update();
  }

  update() {
    const { columns } = this;
    const text = this.search.value.trim().toLowerCase();
    const [, fits] = KINDS_OF_ROWS[this.filter.value];
    const key = ORDERS[this.order.value][1](columns);
    this.shown = [...this.cards.keys()].filter(
      (i) =>
        fits(columns, i) &&
        (!text || columns.id[i].toLowerCase().includes(text) || columns.label[i].toLowerCase().includes(text)) &&
        [...this.ranges].every(([column, { holds }]) => holds(columns[column][i])),
    );
    const keys = new Map(this.shown.map((i) => [i, key(i)]));
    this.shown.sort((one, other) => (keys.get(one) < keys.get(other) ? -1 : keys.get(one) > keys.get(other) ? 1 : one - other));
    this.list.replaceChildren(...this.shown.map((i) => this.cards.get(i)));
    this.chips.replaceChildren(...[...this.ranges.values()].map(({ words }) => el("span", { class: "badge" }, words)));
    this.count.textContent = `${this.shown.length} of ${this.cards.size}`;
  }

  #card(i) {
    const { columns } = this;
    const picture = this.thumbnails.get(i);
    const state = columns.certified[i] === false ? "bad" : "none";
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: "thumbnail", title: columns.id[i], onclick: () => this.onopen(i, this.shown) },
        picture && el("img", { src: picture, alt: "", loading: "lazy", decoding: "async", width: 128, height: 128 }),
        el("span", { class: "label" }, columns.label[i]),
        el("span", { class: "small" }, `${percent(columns.probability[i])}, ${percent(columns.sparsity[i])} zero`),
        columns.certified[i] === false && el("span", { class: `badge ${state}` }, "not certified"),
        el("span", { class: "unseen" }, `, ${columns.id[i]}, gap ${short(columns.relative_gap[i])}`),
      ),
    );
  }
}
