// How often which values occur, as bars that filter the gallery.
import { el, svg } from "./page_parts.js";

const BINS = 20;
const STARTS = [0.99, 0.9, 0.5, 0]; // where bars may begin: sparse maps differ in their last percents
const [BAR_WIDTH, BARS_HEIGHT] = [14, 130];

/** Bars of numbers up to 1. `onpick` gets the range of the bar that a person picks, or null. */
export function histogram(title, values, format, onpick) {
  const counts = new Array(BINS).fill(0);
  const known = values.filter((value) => value !== null);
  const least = known.reduce((one, other) => Math.min(one, other), 1);
  const start = STARTS.find((one) => one <= least) ?? 0;
  const edge = (i) => start + ((1 - start) * i) / BINS;
  const bin = (value) => Math.min(Math.max(Math.floor(((value - start) / (1 - start)) * BINS), 0), BINS - 1);
  known.forEach((value) => counts[bin(value)]++);
  const most = Math.max(...counts, 1);
  let picked = null;
  const bars = counts.map((count, i) => {
    const range = `${format(edge(i))} to ${format(edge(i + 1))}`;
    const height = count ? Math.max((count / most) * BARS_HEIGHT, 2) : 0;
    const pick = () => {
      picked = picked === i ? null : i;
      bars.forEach((bar, k) => bar.setAttribute("aria-pressed", k === picked));
      onpick(picked === null ? null : { words: `${title} ${range}`, holds: (value) => value !== null && bin(value) === i });
    };
    return svg(
      "g",
      {
        role: "button",
        tabindex: i === 0 ? 0 : -1,
        "aria-label": `${range}: ${count}`,
        "aria-pressed": false,
        class: "bar",
        onclick: pick,
        onkeydown: (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (step) bars[(i + step + BINS) % BINS].focus();
          else if (event.key === "Enter" || event.key === " ") pick();
          else return;
          event.preventDefault();
        },
      },
      svg("title", {}, `${range}: ${count}`),
      svg("rect", { class: "reach-of-bar", x: i * BAR_WIDTH, y: 0, width: BAR_WIDTH, height: BARS_HEIGHT }),
      svg("rect", { x: i * BAR_WIDTH + 1, y: BARS_HEIGHT - height, width: BAR_WIDTH - 2, height, rx: 1.5 }),
    );
  });
  return el(
    "section",
    { class: "card" },
    el("h2", {}, title),
    svg(
      "svg",
      { viewBox: `0 0 ${BINS * BAR_WIDTH} ${BARS_HEIGHT + 1}`, class: "histogram", role: "group", "aria-label": `${title}: bars that filter the gallery` },
      ...bars,
      svg("line", { x1: 0, x2: BINS * BAR_WIDTH, y1: BARS_HEIGHT + 0.5, y2: BARS_HEIGHT + 0.5, class: "axis" }),
    ),
    el("div", { class: "ends" }, el("span", {}, format(start)), el("span", {}, `median ${format(median(known))}`), el("span", {}, format(1))),
  );
}

/** The middle of numbers; null of none. */
export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted.length ? sorted[sorted.length >> 1] : null;
}
