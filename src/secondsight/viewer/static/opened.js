// A photograph of a run: the viewer in front of the page, with buttons to the next one of the gallery.
import { el } from "./page_parts.js";
import { Viewer } from "./viewer.js";

/** A window for one row after the other. `read` gives the part of the page that has a row. */
export class Opened {
  constructor(run, read) {
    Object.assign(this, { run, read });
    this.place = el("div");
    this.position = el("span", { class: "small" });
    const step = (by, words) => el("button", { type: "button", onclick: () => this.#step(by) }, words);
    const close = el("button", { type: "button", class: "close", onclick: () => this.dialog.close() }, "Close");
    this.dialog = el(
      "dialog",
      { class: "opened", "aria-label": "Photograph" },
      el("div", { class: "bar-of-dialog" }, step(-1, "← Before"), step(1, "Next →"), this.position, close),
      this.place,
    );
    this.dialog.addEventListener("close", () => this.#writeAddress(""));
  }

  /** Open a row of the gallery. `rows` are those before and after it. */
  open(row, rows) {
    const { columns, colours, title, gallery } = this.run;
    if (!gallery.includes(row)) return;
    Object.assign(this, { row, rows: rows.includes(row) ? rows : gallery });
    const part = this.read(row);
    const results = [{ title, photograph: 0, load: () => part.view }];
    this.viewer?.close();
    this.viewer = new Viewer(this.place, { name: columns.id[row], photographs: [part.photograph], colours, results, inside: true });
    this.position.textContent = `${this.rows.indexOf(row) + 1} of ${this.rows.length}`;
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    this.#writeAddress(`#item=${row}`);
  }

  #step(by) {
    const { rows, row } = this;
    this.open(rows[(rows.indexOf(row) + by + rows.length) % rows.length], rows);
  }

  #writeAddress(fragment) {
    history.replaceState(null, "", location.href.split("#")[0] + fragment);
  }
}
