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

/** Whether second order matters, and what is known of the Hessian's spectrum. */
export function secondOrderCard(data) {
  const { top_eigenvalue, top_eigenvalue_bound, lambda2 } = data.summary;
  if (!data.second_order) {
    return card("First order", el("p", {}, "The map of this method does not use the Hessian of the loss."));
  }
  const sentence = el("p", {}, data.second_order);
  if (top_eigenvalue === undefined) return card("Second order", sentence);
  const bound = top_eigenvalue_bound === null ? "without an upper bound" : `at most ${short(top_eigenvalue_bound)}`;
  const words =
    `The spectrum of the Hessian, as its products showed it: the blue marks. Its largest eigenvalue is L = ${short(top_eigenvalue)}, ` +
    `${bound}. The penalty curves by 2 λ₂ = ${short(2 * lambda2)}: above L, the objective has one best map only.`;
  const line = spectrum(data.ritz_values, top_eigenvalue, top_eigenvalue_bound, 2 * lambda2);
  return card("Second order", sentence, line, el("p", { class: "small" }, words));
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

/** A line with eigenvalues, L, the upper bound of L, and 2 lambda2. */
function spectrum(eigenvalues, top, bound, curvature) {
  const [width, middle] = [300, 30];
  const known = eigenvalues.filter((value) => value !== null);
  const most = 1.06 * Math.max(top, bound ?? 0, curvature);
  const least = Math.min(0, ...known);
  const at = (value) => 8 + ((value - least) / (most - least)) * (width - 16);
  const line = (value, half, kind) => svg("line", { x1: at(value), x2: at(value), y1: middle - half, y2: middle + half, class: kind });
  const mark = (value, name, below) => [
    line(value, 7, "mark"),
    svg("text", { x: at(value), y: below ? middle + 22 : middle - 12, "text-anchor": "middle" }, name),
  ];
  return svg(
    "svg",
    { viewBox: `0 0 ${width} 58`, class: "spectrum", role: "img", "aria-label": `Eigenvalues: ${known.map(short).join(", ")}` },
    svg("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis" }),
    bound !== null && svg("rect", { x: at(top), y: middle - 3, width: Math.max(at(bound) - at(top), 0), height: 6, class: "doubt" }),
    ...known.map((value) => line(value, 10, "eigenvalue")),
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
