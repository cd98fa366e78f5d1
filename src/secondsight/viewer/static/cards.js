// What is to be read beside a map: its certificate, second order, and how it was made.
import { el, svg } from "./page_parts.js";
import { percent, proofOf, short } from "./words.js";

/** The certificate of the chosen map, with its gap and what it rests on. */
export function certificateCard(data, onchosen, atChosen) {
  const { state } = proofOf(data, data.chosen);
  const heading = { good: "Certified", bad: "Not certified", none: "No certificate" }[state];
  const { gap, relative_gap, tolerance } = data.summary;
  if (!data.certificate) {
    const why = "This method has no objective, so there is no best map to compare its map with.";
    return card(heading, el("p", {}, why));
  }
  const values = { "gap": gap, "relative gap": relative_gap, "asked for": tolerance };
  return card(
    el("span", { class: `badge ${state}` }, heading),
    el("p", {}, data.certificate.words),
    gap !== null && el("p", {}, data.certificate.basis),
    gap > 0 && facts(Object.entries(values).map(([name, value]) => [name, short(value)])),
    !atChosen && el("p", {}, "This speaks of the chosen map. ", button("Show it", onchosen)),
  );
}

/** Whether second order matters, and where the Hessian's largest eigenvalue lies. */
export function secondOrderCard(data) {
  const { top_eigenvalue, top_eigenvalue_bound, lambda2 } = data.summary;
  if (!data.second_order) {
    return card("First order", el("p", {}, "The map of this method does not use the Hessian of the loss."));
  }
  const known = top_eigenvalue !== undefined;
  return card(
    "Second order",
    el("p", {}, data.second_order),
    known && spectrum(top_eigenvalue, top_eigenvalue_bound, 2 * lambda2),
    known &&
      el(
        "p",
        { class: "small" },
        `The largest eigenvalue of the Hessian is L = ${short(top_eigenvalue)}` +
          (top_eigenvalue_bound === null ? ". It has no upper bound" : `, at most ${short(top_eigenvalue_bound)}`) +
          `. The penalty curves by 2 λ₂ = ${short(2 * lambda2)}. Above L, the objective has one best map only.`,
      ),
  );
}

/** How the map was made, and what a reader should know of it. */
export function aboutCard(data) {
  const { options, gradient_equivalents, lambda1, lambda2, products, seed, seconds, notes, sparsity } = data.summary;
  const rows = [
    ["method", options],
    ["chosen λ₁", lambda1 === undefined ? null : short(lambda1)],
    ["λ₂", lambda2 === undefined ? null : short(lambda2)],
    [`zero ${data.unit}`, percent(sparsity)],
    ["Hessian products", products],
    ["cost in gradients", gradient_equivalents === undefined ? null : short(gradient_equivalents)],
    ["seed", seed],
    ["seconds", seconds ? short(seconds) : null],
  ];
  return card(
    "About this map",
    facts(rows.filter(([, value]) => value !== null && value !== undefined)),
    notes.map((note) => el("p", { class: "note" }, note)),
  );
}

/** A line with 0, L, the upper bound of L, and 2 lambda2. */
function spectrum(top, bound, curvature) {
  const [width, middle] = [300, 30];
  const most = 1.08 * Math.max(top, bound ?? 0, curvature);
  const at = (value) => 8 + (value / most) * (width - 16);
  const mark = (value, name, below) => [
    svg("line", { x1: at(value), x2: at(value), y1: middle - 7, y2: middle + 7, class: "mark" }),
    svg("text", { x: at(value), y: below ? middle + 22 : middle - 12, "text-anchor": "middle" }, name),
  ];
  return svg(
    "svg",
    { viewBox: `0 0 ${width} 58`, class: "spectrum", role: "img", "aria-label": "Eigenvalues on a line from zero" },
    svg("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis" }),
    svg("rect", { x: at(0), y: middle - 3, width: at(top) - at(0), height: 6, class: "reach" }),
    bound !== null && svg("rect", { x: at(top), y: middle - 3, width: Math.max(at(bound) - at(top), 0), height: 6, class: "doubt" }),
    mark(0, "0", true),
    mark(top, "L", false),
    bound !== null && mark(bound, "bound", true),
    mark(curvature, "2 λ₂", false),
  );
}

function card(heading, ...children) {
  return el("section", { class: "card" }, el("h2", {}, heading), children.flat());
}

function facts(rows) {
  return el("dl", {}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]).flat());
}

function button(text, onclick) {
  return el("button", { type: "button", class: "link", onclick }, text);
}
