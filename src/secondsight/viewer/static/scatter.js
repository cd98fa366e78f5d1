// Confidence against the angle between the maps of first and second order: a dot for each photograph.
import { el } from "./page_parts.js";
import { median } from "./histogram.js";
import { percent } from "./words.js";

const [ASPECT, EDGE, REACH] = [0.5, 26, 12]; // height over width, room for numbers, dots around a point that belong to it

/** The dots. `onpick` gets the number of the row that a person picks. */
export function scatter(columns, onpick) {
  const rows = columns.probability.map((_, i) => i).filter((i) => columns.angle[i] !== null);
  const angles = rows.map((i) => columns.angle[i]);
  const most = Math.max(...angles, 5) * 1.05;
  const words = `The median angle is ${median(angles).toFixed(1)} degrees. Above 20 degrees, second order shows.`;
  const canvas = el("canvas", { role: "img", "aria-label": `Confidence against angle. ${words}` });
  const said = el("p", { class: "small" }, words);
  const place = (i) => [
    EDGE + columns.probability[i] * (canvas.clientWidth - EDGE - 6),
    6 + (1 - columns.angle[i] / most) * (canvas.clientHeight - EDGE - 6),
  ];
  const draw = () => {
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${canvas.clientWidth * ASPECT}px`;
    [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    context.scale(ratio, ratio);
    context.fillStyle = context.strokeStyle = style.color;
    context.font = "12px system-ui, sans-serif";
    const [bottom, right] = [canvas.clientHeight - EDGE, canvas.clientWidth - 6];
    context.globalAlpha = 0.4;
    context.strokeRect(EDGE + 0.5, 6.5, right - EDGE - 1, bottom - 7);
    context.globalAlpha = 1;
    context.fillText("0", EDGE, bottom + 15);
    context.textAlign = "right";
    context.fillText("confidence 1", right, bottom + 15);
    context.fillText(`${Math.floor(most)}°`, EDGE - 4, 16);
    context.fillText("0°", EDGE - 4, bottom);
    context.fillStyle = style.accentColor;
    context.globalAlpha = rows.length > 2000 ? 0.25 : 0.6;
    for (const i of rows) {
      const [x, y] = place(i);
      context.beginPath();
      context.arc(x, y, 2.5, 0, 7);
      context.fill();
    }
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = { row: null, apart: REACH };
    for (const i of rows) {
      const [a, b] = place(i);
      const apart = Math.hypot(a - x, b - y);
      if (apart < best.apart) best = { row: i, apart };
    }
    return best.row;
  };
  canvas.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    canvas.style.cursor = i === null ? "" : "pointer";
    said.textContent =
      i === null ? words : `${columns.id[i]}: ${columns.label[i]}, ${percent(columns.probability[i])}, ${columns.angle[i].toFixed(1)} degrees`;
  });
  canvas.addEventListener("click", (event) => nearest(event) !== null && onpick(nearest(event)));
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return el("section", { class: "card scatter" }, el("h2", {}, "Confidence and second order"), canvas, said);
}
