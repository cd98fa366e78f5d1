// The viewer: results on a stage, a slider over lambda1, and what is to be read beside them.
import { aboutCard, certificateCard, secondOrderCard } from "./cards.js";
import { bytesOf } from "./decode.js";
import { numberIn, settingsOf, truth, wordOf, writeFragment } from "./fragment.js";
import { legend } from "./legend.js";
import { Lens } from "./lens.js";
import { el, tabs, themeSwitch } from "./page_parts.js";
import { PathChart } from "./path_chart.js";
import { Result } from "./result.js";
import { saveArchive, savePicture } from "./save_files.js";
import { readPhotograph, Stage } from "./stage.js";
import { Toolbar } from "./toolbar.js";
import { percent, proofOf, short } from "./words.js";

const START = {
  method: 0,
  point: null, // the number of a map of the path; null: the chosen map
  kind: "groups",
  signed: false,
  colours: "inferno",
  signedColours: "berlin",
  opacity: 1,
  all: false,
  shows: "overlay",
};
const NARROW = 720; // dots: on a narrower screen one result is shown at first
const HINT = "Point at a picture for its values. Wheel, pinch or + and - zoom, drag moves, arrow keys go from pixel to pixel.";

/**
 * Shows results in an element. `page`: name, photographs, colours, results, whether the address has settings, and
 * whether the viewer is inside of another page.
 */
export class Viewer {
  constructor(root, page) {
    this.page = page;
    this.root = root;
    this.results = page.results.map((one) => new Result(one));
    this.defaults = { ...START, method: page.first ?? 0, all: page.results.length > 1 && innerWidth > NARROW };
    // What is shown, and what is asked for: they differ while maps are unpacked.
    this.state = { ...this.defaults };
    this.next = { ...this.defaults };
    this.photographs = new Map();
    const tables = Object.entries(page.colours).map(([use, maps]) => [
      use,
      Object.fromEntries(Object.entries(maps).map(([name, table]) => [name, bytesOf(table)])),
    ]);
    this.lens = new Lens((what, byKeys) => this.#lensMoved(what, byKeys));
    this.stage = new Stage(this.lens, Object.fromEntries(tables));
    this.path = new PathChart((k) => this.set({ point: k }));
    this.#build();
    this.resized = new ResizeObserver(() => this.#redraw("fit"));
    this.resized.observe(this.stage.element);
    if (page.address) {
      this.#readAddress();
      addEventListener("hashchange", () => (this.#readAddress(), this.set({})));
    }
    this.started = this.set({});
  }

  /** Let go of the window. */
  close() {
    this.resized.disconnect();
  }

  get result() {
    return this.results[this.state.method];
  }

  /** The map that a result shows. In a row the others follow the one that is picked: to as many zeros. */
  pointOf = (result) => {
    const own = this.result.data;
    const k = Math.min(this.state.point ?? own.chosen, own.points.length - 1);
    if (result === this.result) return k;
    return k === own.chosen ? result.data.chosen : result.nearest(own.points[k].sparsity);
  };

  /** Change settings, and show what follows from them: when what they need is unpacked, and not before. */
  async set(changes) {
    Object.assign(this.next, changes);
    const missing = () => {
      const { all, method, kind } = this.next;
      return (all ? this.results : [this.results[method]]).find((result) => !result.has(kind) || !result.opened);
    };
    for (let result = missing(); result; result = missing()) await this.#open(result, this.next.kind);
    this.state = { ...this.next };
    const layout = this.state.all ? `all ${this.state.shows}` : String(this.state.method);
    if (layout !== this.layout) {
      this.layout = layout;
      this.#layOut();
    }
    this.#redraw("paint");
  }

  async #open(result, kind) {
    await result.ready(kind);
    const key = result.photograph;
    const uri = this.page.photographs[key];
    if (uri && !this.photographs.has(key)) {
      this.photographs.set(key, await readPhotograph(uri, result.data.width, result.data.height));
    }
    Object.assign(result, this.photographs.get(key), { opened: true });
  }

  #layOut() {
    // Inputs that are no pictures have no photograph, and that of a run may be gone.
    const { image } = this.result;
    const maps = this.results.map((result) => ({ result, shows: result.image ? this.state.shows : "map" }));
    const single = (shows) => ({ result: this.result, shows });
    const shown = this.state.all ? maps : [single("map"), ...(image ? [single("overlay")] : [])];
    this.stage.set([...(image ? [single("photograph")] : []), ...shown]);
    this.stage.element.classList.toggle("many", this.state.all);
    this.stage.panes.forEach(({ result, shows, pane }) => {
      const i = this.results.indexOf(result);
      if (this.state.all && shows !== "photograph") pane.element.addEventListener("pointerdown", () => this.set({ method: i }));
    });
  }

  /** Draw with the next picture of the screen: "paint" maps anew, "fit" them to the window, or only "draw" them. */
  #redraw(what) {
    this.due = [...(this.due ?? []), what];
    if (this.due.length > 1) return;
    requestAnimationFrame(() => {
      const due = this.due;
      this.due = null;
      if (!this.result.data || !this.layout) return;
      const scale = this.stage.panes[0].pane.scale;
      if (due.includes("fit")) this.stage.fit();
      const look = this.state;
      if (due.includes("paint") || due.includes("fit") || scale !== this.scale) {
        this.scale = this.stage.panes[0].pane.scale;
        this.stage.paint(look, this.pointOf);
      } else this.stage.draw(look, this.pointOf);
      if (due.includes("paint")) this.#write();
      this.#writeCursor();
    });
  }

  #lensMoved(what, byKeys) {
    this.byKeys = byKeys;
    this.#redraw("draw");
    if (what !== "lens") return;
    const { zoom } = this.lens;
    this.toolbar.zoomed.textContent = `${zoom.toFixed(zoom < 9.95 ? 1 : 0)}×`;
    // A finger then moves the picture, and not the page.
    this.stage.element.classList.toggle("close", zoom > 1);
    this.#writeAddress();
  }

  /** Write everything that is text. */
  #write() {
    const { data } = this.result;
    const k = this.pointOf(this.result);
    const proof = proofOf(data, k);
    this.heading.textContent = data.heading;
    this.facts.textContent = [this.result.facts(), this.page.name].filter(Boolean).join(" · ");
    this.path.show(data, k);
    this.tabs?.show(this.state.method);
    this.now.replaceChildren(
      ...(data.points.length > 1 ? [el("strong", {}, `λ₁ = ${short(data.points[k].lambda1)}`)] : []),
      el("span", {}, `${percent(data.points[k].sparsity)} of ${data.unit} zero`),
      el("span", { class: `badge ${proof.state}` }, proof.text),
    );
    this.toChosen.hidden = data.points.length < 2 || k === data.chosen;
    for (const { result, shows, pane } of this.stage.panes) {
      if (shows === "photograph") continue;
      const point = this.pointOf(result);
      const picked = this.state.all && result === this.result;
      pane.element.classList.toggle("picked", picked);
      const alone = shows === "map" ? "The map" : "The map on the photograph";
      pane.words = this.state.all ? result.caption(point) : alone;
      const proof = this.state.all && el("small", {}, proofOf(result.data, point).text);
      const scale = shows === "map" && !this.state.all && this.#legend(result, point);
      pane.caption.replaceChildren(...[pane.words, proof, scale].filter(Boolean));
      pane.canvas.setAttribute("aria-label", `${result.caption(point)}, ${shows}`);
    }
    if (this.carded !== `${this.state.method} ${k === data.chosen}`) {
      this.carded = `${this.state.method} ${k === data.chosen}`;
      this.cards.replaceChildren(
        certificateCard(data, () => this.set({ point: null }), k === data.chosen),
        secondOrderCard(data),
        aboutCard(data),
      );
    }
    this.toolbar.show(this.state, data, this.results.length);
    this.npz.hidden = !data.archive;
    this.#writeAddress();
  }

  #legend(result, point) {
    const { signed, kind } = this.state;
    const most = result.data.shades[result.kind(kind)].brightest[point];
    if (!result.data.picture) return el("span", {}, `blue: for the class, red: against it; the longest bar is ${short(most)}`);
    return legend(this.stage.coloursOf(this.state), signed, most, result.data.against);
  }

  #writeCursor() {
    const { cursor, pane } = this.lens;
    const result = this.stage.panes.find((one) => one.pane === pane && one.shows !== "photograph")?.result ?? this.result;
    const text = cursor ? result.words(this.state.kind, this.pointOf(result), cursor) : HINT;
    this.readout.textContent = text;
    // Screen readers hear what keys ask for, not each move of a mouse.
    if (this.byKeys && cursor) this.spoken.textContent = text;
  }

  #build() {
    this.heading = el(this.page.inside ? "h2" : "h1", { class: "class-name" });
    this.facts = el("p", { class: "facts" });
    this.npz = el("button", { type: "button", onclick: () => saveArchive(this) }, "NPZ");
    this.now = el("p", { class: "now-words" });
    this.toChosen = el("button", { type: "button", onclick: () => this.set({ point: null }) }, "Back to the chosen map");
    this.readout = el("p", { class: "readout" });
    this.spoken = el("p", { class: "unseen", "aria-live": "polite" });
    this.cards = el("div", { class: "cards" });
    this.toolbar = new Toolbar((changes) => this.set(changes), this.lens, Object.keys(this.page.colours.magnitude), Object.keys(this.page.colours.sign));
    const several = this.results.length > 1;
    this.tabs = several ? tabs("Methods", this.results.map((one) => one.title), (method) => this.set({ method })) : null;
    const png = el("button", { type: "button", onclick: () => savePicture(this) }, "PNG");
    const files = el("div", { class: "actions", role: "group", "aria-label": "Save" }, el("span", {}, "Save"), png, this.npz);
    this.root.replaceChildren(
      el(
        this.page.inside ? "div" : "main",
        { class: "viewer" },
        el("header", {}, el("div", {}, this.heading, this.facts), files, this.page.inside ? null : themeSwitch()),
        this.tabs?.element,
        this.toolbar.element,
        this.stage.element,
        this.readout,
        this.spoken,
        el("section", { class: "walk", "aria-label": "Path of lambda1" }, el("div", { class: "now" }, this.now, this.toChosen), this.path.element),
        this.cards,
      ),
    );
  }

  #readAddress() {
    const { colours, results } = this.page;
    const { zoom, x, y, ...settings } = settingsOf(location.hash, {
      method: numberIn(0, results.length - 1, true),
      point: numberIn(0, Infinity, true),
      kind: wordOf(["groups", "entries"]),
      signed: truth,
      colours: wordOf(Object.keys(colours.magnitude)),
      signedColours: wordOf(Object.keys(colours.sign)),
      opacity: numberIn(0, 1),
      all: (text) => (results.length > 1 ? truth(text) : undefined),
      shows: wordOf(["map", "overlay"]),
      ...Object.fromEntries(["x", "y"].map((name) => [name, numberIn(0, 1)])),
      zoom: numberIn(1, Infinity),
    });
    this.next = { ...this.defaults, ...settings };
    this.lens.set(zoom ?? 1, x ?? 0.5, y ?? 0.5);
  }

  #writeAddress() {
    if (!this.page.address) return;
    const { zoom, x, y } = this.lens;
    const lens = zoom > 1 ? { zoom, x, y } : {};
    clearTimeout(this.writing);
    // Browsers refuse to write the address many times a second.
    this.writing = setTimeout(() => writeFragment({ ...this.state, ...lens }, this.defaults), 200);
  }
}
