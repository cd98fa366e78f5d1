// From shades to colours. A map is an Int16Array of shades from -255 to 255, as decode.js gives it.

const DOT = 3; // dots of the screen that a single place takes at least: fewer cannot be seen
const OUTLINE = [0, 230, 255]; // the line around what a map keeps: cyan, which no colour map has

/** A canvas of this size that is on no page. */
export function blank(width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  return canvas;
}

/** Whether a map is of scattered single places, which a small picture would lose. */
export function isDots(map, width, height) {
  let kept = 0;
  let inside = 0;
  for (let r = 0, i = 0; r < height; r++) {
    for (let c = 0; c < width; c++, i++) {
      if (!map[i]) continue;
      kept++;
      const edge = !r || !c || r === height - 1 || c === width - 1;
      if (!edge && map[i - 1] && map[i + 1] && map[i - width] && map[i + width]) inside++;
    }
  }
  return kept > 0 && kept <= map.length / 2 && inside < kept / 2;
}

/** How many places a side a single place fills, so that it can be seen where a place has `scale` dots of the screen. */
export function dotSide(scale) {
  return Math.max(1, Math.round(DOT / scale));
}

/** Let each place fill a square of `side` places, the stronger one where two meet. */
export function dilated(map, width, height, side) {
  if (side <= 1) return map;
  const grown = new Int16Array(map.length);
  const [before, after] = [(side - 1) >> 1, side >> 1];
  for (let i = 0; i < map.length; i++) {
    if (!map[i]) continue;
    const [row, column] = [Math.floor(i / width), i % width];
    for (let r = Math.max(0, row - before); r <= Math.min(height - 1, row + after); r++) {
      for (let c = Math.max(0, column - before); c <= Math.min(width - 1, column + after); c++) {
        const place = r * width + c;
        if (Math.abs(map[i]) > Math.abs(grown[place])) grown[place] = map[i];
      }
    }
  }
  return grown;
}

/** Where a shade stands in a table of 256 colours. Tables for signs have zero in the middle. */
function colourIndex(shade, signed, from = 0) {
  const strength = Math.round(from * 255 + (1 - from) * Math.abs(shade));
  return signed ? Math.round(127.5 + (shade < 0 ? -strength : strength) / 2) : strength;
}

/** Paint a map on a canvas of its size. */
export function paintMap(canvas, map, colours, signed) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const table = new Uint32Array(511);
  for (let shade = -255; shade <= 255; shade++) table[shade + 255] = word(colours, colourIndex(shade, signed));
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < map.length; i++) pixels[i] = table[map[i] + 255];
  context.putImageData(image, 0, 0);
}

function word(colours, index) {
  return (0xff000000 | (colours[3 * index + 2] << 16) | (colours[3 * index + 1] << 8) | colours[3 * index]) >>> 0;
}

/**
 * Paint a map over a paler photograph, on a canvas of twice its size: the stronger the more opaque, with a line around
 * what is kept. Scattered places have no line. `opacity` 0 is the photograph as it is.
 */
export function paintOverlay(canvas, photograph, map, colours, { signed, opacity, outline }) {
  const [width, height] = [canvas.width / 2, canvas.height / 2];
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const weights = Float32Array.from({ length: 256 }, (_, s) => (s ? 0.35 + 0.6 * (s / 255) ** 0.7 : 0) * opacity);
  const out = image.data;
  const put = (o, i, k, over, weight) => {
    const grey = (photograph[4 * i] + photograph[4 * i + 1] + photograph[4 * i + 2]) / 3;
    const pale = 0.85 * (0.6 * grey + 0.4 * photograph[4 * i + k]) + 25.5;
    const under = opacity * pale + (1 - opacity) * photograph[4 * i + k];
    out[o + k] = under * (1 - weight) + over * weight;
  };
  for (let r = 0, i = 0; r < height; r++) {
    for (let c = 0; c < width; c++, i++) {
      const colour = 3 * colourIndex(map[i], signed, 0.4);
      for (let sub = 0; sub < 4; sub++) {
        const [down, right] = [sub >> 1, sub & 1];
        const o = 4 * ((2 * r + down) * canvas.width + 2 * c + right);
        const line = outline && !map[i] && beside(map, width, height, r, c, down ? 1 : -1, right ? 1 : -1);
        const weight = line ? opacity : weights[Math.abs(map[i])];
        for (let k = 0; k < 3; k++) put(o, i, k, line ? OUTLINE[k] : colours[colour + k], weight);
        out[o + 3] = 255;
      }
    }
  }
  context.putImageData(image, 0, 0);
}

/** Whether one of the three places that touch a corner of this one is kept. */
function beside(map, width, height, r, c, down, right) {
  const at = (row, column) => row >= 0 && row < height && column >= 0 && column < width && map[row * width + column];
  return at(r + down, c) || at(r, c + right) || at(r + down, c + right);
}
