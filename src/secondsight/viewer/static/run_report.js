// The report of a run: numbers, histograms, what was slow and what failed, and a gallery.
import { Gallery } from "./gallery.js";
import { histogram, median } from "./histogram.js";
import { Opened } from "./opened.js";
import { el, themeSwitch } from "./page_parts.js";
import { scatter } from "./scatter.js";
import { percent, short } from "./words.js";

const SLOWEST = 8; // rows of the table
const LISTED_FAILURES = 50; // that are listed

/** Shows a run in an element. `read` gives the part of the page that has a row of the gallery. */
export class RunReport {
  constructor(root, run, read) {
    const { columns } = run;
    Object.assign(this, { run, columns, count: columns.id.length });
    this.opened = new Opened(run, read);
    this.gallery = new Gallery(columns, new Map(run.gallery.map((row, i) => [row, run.thumbnails[i]])), this.open);
    const facts = [run.method, run.model, `${this.count} maps of ${run.total} items`, run.made].filter(Boolean).join(" · ");
    const all = run.gallery.length === this.count;
    root.replaceChildren(
      el(
        "main",
        { class: "viewer report" },
        el("header", {}, el("div", {}, el("h1", {}, run.name), el("p", { class: "facts" }, facts)), themeSwitch()),
        this.#tiles(),
        this.#charts(),
        el("div", { class: "cards" }, this.#slowest(), this.#failures()),
        el("h2", {}, all ? "Photographs" : `${run.gallery.length} of ${this.count} photographs, evenly spread`),
        this.gallery.element,
      ),
      this.opened.dialog,
    );
    const item = /^#item=(\d+)$/.exec(location.hash);
    if (item) this.open(Number(item[1]));
  }

  open = (row) => this.opened.open(row, this.gallery.shown);

  #tiles() {
    const { columns, count, run } = this;
    const angles = columns.angle.filter((angle) => angle !== null);
    const seconds = columns.seconds.reduce((sum, one) => sum + one, 0);
    const middle = (values, format) => (values.length ? format(median(values)) : "none");
    const tile = (name, value, words) =>
      el("section", { class: "card tile" }, el("h2", {}, name), el("p", { class: "large" }, value), el("p", { class: "small" }, words));
    const certified = columns.certified.filter((one) => one === true).length;
    const proves = columns.certified.some((one) => one !== null);
    return el(
      "div",
      { class: "tiles" },
      proves && tile("Certified", `${certified} of ${count}`, this.#bases()),
      tile("Confidence", middle(columns.probability, percent), "median"),
      tile("Zeros", middle(columns.sparsity, percent), `of ${run.unit}, median`),
      angles.length > 0 && tile("Second order", middle(angles, (angle) => `${angle.toFixed(1)}°`), "from first order, median"),
      tile("Time", `${short(seconds)} s`, `${middle(columns.seconds, short)} s each, median`),
      tile("Failures", String(run.failures.length), run.unfinished ? `${run.unfinished} items are not done yet` : "all items are done"),
    );
  }

  /** How many maps were certified on which basis. */
  #bases() {
    const counts = new Map();
    this.columns.basis.forEach((basis, i) => this.columns.certified[i] && counts.set(basis, (counts.get(basis) ?? 0) + 1));
    return [...counts].map(([basis, many]) => `${basis}: ${many}`).join(", ") || "none";
  }

  #charts() {
    const { columns, run, gallery } = this;
    const whole = (share) => (share === null ? "none" : `${Number((100 * share).toFixed(1))}%`);
    const bars = (title, column) => histogram(title, columns[column], whole, (range) => gallery.keep(column, range));
    return el(
      "div",
      { class: "cards" },
      bars("Confidence", "probability"),
      bars(`Share of zero ${run.unit}`, "sparsity"),
      columns.angle.some((angle) => angle !== null) && scatter(columns, this.open),
    );
  }

  #slowest() {
    const { columns, run } = this;
    const rows = columns.seconds.map((_, i) => i).sort((one, other) => columns.seconds[other] - columns.seconds[one]);
    const link = (i) => el("button", { type: "button", class: "link", onclick: () => this.open(i) }, columns.id[i]);
    const name = (i) => (run.gallery.includes(i) ? link(i) : columns.id[i]);
    const lines = rows.slice(0, SLOWEST).map((i) => [name(i), columns.label[i], short(columns.seconds[i])]);
    return table("Slowest", ["photograph", "class", "seconds"], lines);
  }

  #failures() {
    const { failures } = this.run;
    if (!failures.length) return el("section", { class: "card" }, el("h2", {}, "Failures"), el("p", {}, "None."));
    const lines = failures.slice(0, LISTED_FAILURES).map(({ id, error }) => [id, error]);
    if (failures.length > LISTED_FAILURES) lines.push([`${failures.length - LISTED_FAILURES} more`, "see open_run(RUN).errors"]);
    return table(`Failures: ${failures.length}`, ["item", "reason"], lines);
  }
}

function table(title, heads, lines) {
  const row = (cells, tag, attributes = {}) => el("tr", {}, cells.map((cell) => el(tag, attributes, cell)));
  return el(
    "section",
    { class: "card" },
    el("h2", {}, title),
    el(
      "div",
      { class: "scrolls", tabindex: 0, role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, row(heads, "th", { scope: "col" })), el("tbody", {}, lines.map((line) => row(line, "td")))),
    ),
  );
}
