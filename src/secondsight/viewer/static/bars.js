// Maps of inputs that are no pictures: a bar for each feature.
import { Pane } from "./pane.js";

const FOR = "#5b8fd6"; // as in the figures: what speaks for the class is blue, what speaks against it red
const AGAINST = "#d8573f";

/** A pane whose source is a map of one row. Zoom goes along the row. */
export class BarPane extends Pane {
  /** Give the canvas the dots of the screen that it covers. It is as high as a person can compare bars in. */
  fit() {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = "min(18rem, 60vw)";
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
  }

  /** Draw the bars of a map. `against`: whether positive speaks against the class. */
  drawBars(map, against) {
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const { left, side } = this.lens.part;
    const step = width / side / map.length;
    const middle = height / 2;
    context.clearRect(0, 0, width, height);
    const cursor = this.lens.cursor && Math.floor(this.lens.cursor.x * map.length);
    if (cursor !== null) {
      context.fillStyle = "rgba(128,128,128,.25)";
      context.fillRect((cursor - left * map.length) * step, 0, Math.max(step, 2), height);
    }
    const gap = step > 6 ? Math.max(0.2 * step, step - 90) : 0;
    for (let i = 0; i < map.length; i++) {
      if (!map[i]) continue;
      context.fillStyle = map[i] > 0 === against ? AGAINST : FOR;
      const size = (-map[i] / 255) * (middle - 4);
      context.fillRect((i - left * map.length) * step + gap / 2, middle, Math.max(step - gap, 1), size);
    }
    context.fillStyle = "rgba(128,128,128,.9)";
    context.fillRect(0, middle - 0.5, width, 1);
  }
}
