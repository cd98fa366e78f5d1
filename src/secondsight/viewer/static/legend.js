// What the colours of a map stand for.
import { blank, paintMap } from "./paint.js";
import { el } from "./page_parts.js";
import { short } from "./words.js";

/** A strip of all colours between the values that its ends stand for. `most`: the value of the brightest shade. */
export function legend(colours, signed, most, against) {
  const shades = Int16Array.from({ length: 128 }, (_, i) => Math.round(signed ? 4 * i - 255 : 2 * i));
  const strip = blank(shades.length, 1);
  strip.setAttribute("aria-hidden", "true");
  paintMap(strip, shades, colours, signed);
  const [low, high] = against ? ["for", "against"] : ["against", "for"];
  return el(
    "span",
    { class: "legend" },
    signed ? `${low} \u2212${short(most)}` : "0",
    strip,
    signed ? `${short(most)} ${high}` : `≥ ${short(most)}`,
  );
}
