// A picture of the stage, as a file.
import { blank } from "./paint.js";

const [SIDE, GAP, LINE] = [480, 24, 26]; // of a panel, between panels, of a line of text
const COLUMNS = 4; // panels in a row

/** Draw canvases side by side, each with its caption, under a title. */
export function picturePng(title, panels) {
  const columns = Math.min(panels.length, COLUMNS);
  const heights = panels.map(([canvas]) => (SIDE * canvas.height) / canvas.width);
  const height = Math.max(...heights) + LINE + GAP;
  const rows = Math.ceil(panels.length / columns);
  const picture = blank(columns * (SIDE + GAP) + GAP, 2 * LINE + GAP + rows * height);
  const context = picture.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = "#222";
  context.imageSmoothingQuality = "high";
  context.font = "20px system-ui, sans-serif";
  context.fillText(title, GAP, GAP + LINE / 2, picture.width - 2 * GAP);
  context.font = "15px system-ui, sans-serif";
  panels.forEach(([canvas, caption], i) => {
    const left = GAP + (i % columns) * (SIDE + GAP);
    const top = 2 * LINE + Math.floor(i / columns) * height;
    context.drawImage(canvas, left, top, SIDE, heights[i]);
    context.fillText(caption, left, top + heights[i] + LINE * 0.8, SIDE);
  });
  return new Promise((resolve) => picture.toBlob(resolve, "image/png"));
}
