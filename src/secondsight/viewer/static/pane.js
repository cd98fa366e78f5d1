// A canvas with a picture under a lens: pointer, wheel, pinch and keys move the lens.
import { el } from "./page_parts.js";

const STEP = 1.25; // zoom of one key or button

/** A pane shows a source of `width` x `height` places, and tells its lens what a person does. */
export class Pane {
  constructor(lens, label, size) {
    this.lens = lens;
    this.size = size;
    this.words = label;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": label });
    this.caption = el("figcaption", {}, label);
    this.element = el("figure", { class: "pane" }, el("div", { class: "frame" }, this.canvas), this.caption);
    this.pointers = new Map();
    this.#listen();
  }

  /** Dots of the screen that a place of the map takes. */
  get scale() {
    return (this.canvas.width / this.size.width) * this.lens.zoom;
  }

  /** Give the canvas the dots of the screen that it covers. Its shape is that of the picture. */
  fit() {
    const { width, height } = this.size;
    this.canvas.style.aspectRatio = `${width} / ${height}`;
    const dots = Math.round(this.canvas.clientWidth * Math.min(window.devicePixelRatio || 1, 3));
    if (dots && this.canvas.width !== dots) {
      this.canvas.width = dots;
      this.canvas.height = Math.round((dots * height) / width);
    }
  }

  /** Draw the part of `source` that the lens shows, and the frame around the place under the cursor. */
  draw(source, smooth) {
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const { left, top, side } = this.lens.part;
    context.imageSmoothingEnabled = smooth || this.scale < 2.5;
    context.imageSmoothingQuality = "high";
    context.drawImage(
      source,
      left * source.width,
      top * source.height,
      side * source.width,
      side * source.height,
      0,
      0,
      width,
      height,
    );
    if (this.lens.cursor) this.#drawCursor(context);
  }

  #drawCursor(context) {
    const { left, top, side } = this.lens.part;
    const { width, height } = this.size;
    const { x, y } = this.lens.cursor;
    const dot = this.canvas.width / side / width;
    const [across, down] = [Math.floor(x * width) / width - left, Math.floor(y * height) / height - top];
    const box = [(across / side) * this.canvas.width, (down / side) * this.canvas.height];
    const grown = Math.max(dot, 7 * Math.min(window.devicePixelRatio || 1, 3));
    const corner = box.map((start) => start - (grown - dot) / 2);
    for (const [colour, line] of [
      ["rgba(0,0,0,.75)", 3],
      ["white", 1.2],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = line * Math.min(window.devicePixelRatio || 1, 2);
      context.strokeRect(corner[0], corner[1], grown, grown);
    }
  }

  /** The shares of the pane where an event was. */
  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { across: (event.clientX - box.left) / box.width, down: (event.clientY - box.top) / box.height };
  }

  #point({ across, down }) {
    const { left, top, side } = this.lens.part;
    const [x, y] = [left + across * side, top + down * side];
    this.lens.point(x >= 0 && x < 1 && y >= 0 && y < 1 ? { x, y } : null, this);
  }

  #listen() {
    const on = (name, listener, options) => this.canvas.addEventListener(name, listener, options);
    on("wheel", (event) => this.#wheel(event), { passive: false });
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#moved(event));
    for (const name of ["pointerup", "pointercancel"]) on(name, (event) => this.pointers.delete(event.pointerId));
    on("pointerleave", (event) => event.pointerType === "mouse" && !event.buttons && this.lens.point(null));
    on("dblclick", (event) => {
      const { across, down } = this.#place(event);
      this.lens.zoom > 1 ? this.lens.reset() : this.lens.zoomAt(4, across, down);
    });
    on("keydown", (event) => this.#key(event));
    on("blur", () => this.lens.point(null));
  }

  #wheel(event) {
    // A page that is seen whole scrolls on.
    if (this.lens.zoom === 1 && event.deltaY > 0) return;
    event.preventDefault();
    const { across, down } = this.#place(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.lens.zoomAt(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), across, down);
  }

  #down(event) {
    this.pointers.set(event.pointerId, this.#place(event));
    if (this.lens.zoom > 1 || this.pointers.size > 1) this.canvas.setPointerCapture(event.pointerId);
    this.#point(this.#place(event));
  }

  #moved(event) {
    const now = this.#place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.#point(now);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    if (others.length) {
      const apart = (place) => Math.hypot(place.across - others[0].across, place.down - others[0].down);
      const [across, down] = [(now.across + others[0].across) / 2, (now.down + others[0].down) / 2];
      this.lens.zoomAt(apart(now) / Math.max(apart(before), 1e-3), across, down);
    }
    const share = others.length ? 0.5 : 1;
    if (this.lens.zoom > 1) this.lens.move((now.across - before.across) * share, (now.down - before.down) * share);
    this.pointers.set(event.pointerId, now);
    this.#point(now);
  }

  #key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const cursor = this.lens.cursor ?? { x: this.lens.x, y: this.lens.y };
    const { left, top, side } = this.lens.part;
    const seen = [(cursor.x - left) / side, (cursor.y - top) / side];
    if (arrows[event.key]) {
      const { width, height } = this.size;
      const step = event.shiftKey ? 10 : 1;
      const next = (at, move, count) => (Math.min(Math.max(Math.floor(at * count) + move * step, 0), count - 1) + 0.5) / count;
      const [right, down] = arrows[event.key];
      this.lens.point({ x: next(cursor.x, right, width), y: next(cursor.y, down, height) }, this, true);
    } else if (event.key === "+" || event.key === "=") this.lens.zoomAt(STEP, ...seen);
    else if (event.key === "-") this.lens.zoomAt(1 / STEP, ...seen);
    else if (event.key === "0") this.lens.reset();
    else return;
    event.preventDefault();
  }
}
