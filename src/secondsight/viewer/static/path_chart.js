// The slider over lambda1, with the curves of the path below it. Both have one place for each map of the path.
import { el, svg } from "./page_parts.js";
import { percent, pointWords, short } from "./words.js";

const HEIGHT = 56; // of a curve
const THUMB = 11; // half of the slider's thumb: the curves begin below its middle

const CURVES = [
  { name: "sparsity", title: (data) => `Share of ${data.unit} that are zero`, format: percent },
  { name: "objective", title: () => "Objective", format: short },
];

/** Slider and curves. `onpick` gets the number of the map that a person goes to. */
export class PathChart {
  constructor(onpick) {
    this.onpick = onpick;
    this.slider = el("input", {
      type: "range",
      min: 0,
      step: 1,
      class: "path-slider",
      "aria-label": "lambda1: the weight of the penalty. To the right it falls, and the map grows",
      oninput: () => onpick(Number(this.slider.value)),
    });
    this.ends = [el("span"), el("span", {}, el("i", { class: "ring" }), "the chosen map"), el("span")];
    this.curves = CURVES.map((curve) => {
      const value = el("output", {});
      const title = el("span", {});
      const plot = svg("svg", { height: HEIGHT, "aria-hidden": "true", class: "curve" });
      const follow = (event) => event.buttons && this.#pickAt(event, plot);
      plot.addEventListener("pointerdown", (event) => (plot.setPointerCapture(event.pointerId), follow(event)));
      plot.addEventListener("pointermove", follow);
      return { ...curve, value, title, plot, titled: curve.title };
    });
    this.element = el(
      "div",
      { class: "path" },
      this.slider,
      el("div", { class: "ends" }, this.ends),
      el(
        "div",
        { class: "curves" },
        this.curves.map(({ title, value, plot }) =>
          el("div", { class: "curve-box" }, el("div", { class: "curve-title" }, title, value), plot),
        ),
      ),
    );
    new ResizeObserver(() => this.element.hidden || !this.data || this.#layout()).observe(this.element);
  }

  /** Show the path of a result. It has no path if it has one map only. */
  show(data, k) {
    this.element.hidden = data.points.length < 2;
    if (this.element.hidden) return;
    if (this.data !== data) {
      this.data = data;
      this.slider.max = data.points.length - 1;
      const [first, last] = [data.points[0], data.points.at(-1)];
      this.ends[0].textContent = `λ₁ = ${short(first.lambda1)}`;
      this.ends[2].textContent = `λ₁ = ${short(last.lambda1)}`;
      this.k = k;
      this.#layout();
    }
    this.k = k;
    this.slider.value = k;
    this.slider.setAttribute("aria-valuetext", pointWords(data, k));
    for (const curve of this.curves) {
      const value = data.points[k][curve.name];
      curve.value.textContent = curve.format(value);
      if (!curve.place) continue;
      const [x, y] = curve.place(k);
      curve.line.setAttribute("x1", x);
      curve.line.setAttribute("x2", x);
      curve.dot.setAttribute("cx", x);
      curve.dot.setAttribute("cy", y ?? -99);
    }
  }

  #pickAt(event, plot) {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left - THUMB) / (box.width - 2 * THUMB);
    const last = this.data.points.length - 1;
    this.onpick(Math.min(Math.max(Math.round(share * last), 0), last));
  }

  #layout() {
    const { points, chosen } = this.data;
    for (const curve of this.curves) {
      const width = curve.plot.clientWidth || 400;
      const values = points.map((point) => point[curve.name]);
      const known = values.filter((value) => value !== null);
      const most = curve.name === "sparsity" ? 1 : Math.max(...known, 0) || 1;
      const least = Math.min(...known, 0);
      curve.title.textContent = curve.titled(this.data);
      curve.place = (i) => [
        THUMB + (i / (points.length - 1)) * (width - 2 * THUMB),
        values[i] === null ? null : 5 + (1 - (values[i] - least) / (most - least)) * (HEIGHT - 10),
      ];
      const drawn = points.map((_, i) => curve.place(i)).filter(([, y]) => y !== null);
      const [x, y] = curve.place(chosen);
      curve.line = svg("line", { y1: 0, y2: HEIGHT, class: "now-line" });
      curve.dot = svg("circle", { r: 4.5, class: "now" });
      curve.plot.replaceChildren(
        svg("line", { x1: THUMB, x2: width - THUMB, y1: HEIGHT - 5, y2: HEIGHT - 5, class: "axis" }),
        svg("polyline", { points: drawn.map((place) => place.join(",")).join(" "), class: "curve-line" }),
        ...drawn.map(([cx, cy]) => svg("circle", { cx, cy, r: 2, class: "curve-dot" })),
        curve.line,
        y === null ? "" : svg("circle", { cx: x, cy: y, r: 7, class: "chosen" }),
        curve.dot,
      );
    }
    this.show(this.data, this.k);
  }
}
