// From shades to colours. A map is an Int16Array of shades from -255 to 255, as decode.js gives it.

const DOT = 3; // dots of the screen that a single place takes at least: fewer cannot be seen
const OUTLINE = [0, 230, 255]; // the line around what a map keeps: cyan, which no colour map has

/** A canvas of this size that is on no page. */
export function blank(width, height) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  return canvas;
}

/** What a map is made of: "regions", scattered "dots" that a small picture would lose, or "noise" over most of it. */
export function textureOf(map, width, height) {
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
  if (inside >= kept / 2) return "regions";
  return kept <= map.length / 2 ? "dots" : "noise";
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

/** The photograph under a map: paler, the more opaque the map is. `opacity` 0 is the photograph as it is. */
export function paled(photograph, opacity) {
  const pale = new Uint8ClampedArray(photograph.length);
  for (let o = 0; o < photograph.length; o += 4) {
    const grey = (photograph[o] + photograph[o + 1] + photograph[o + 2]) / 3;
    for (let k = o; k < o + 3; k++) {
      pale[k] = opacity * (0.85 * (0.6 * grey + 0.4 * photograph[k]) + 25.5) + (1 - opacity) * photograph[k];
    }
    pale[o + 3] = 255;
  }
  return pale;
}

/**
 * Paint a map over a paler photograph, on a canvas of twice its size: the stronger the more opaque, with a line around
 * what is kept if that is regions.
 */
export function paintOverlay(canvas, pale, map, colours, { signed, opacity, outline }) {
  const [width, height] = [canvas.width / 2, canvas.height / 2];
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const out = new Uint32Array(image.data.buffer);
  const words = new Uint32Array(pale.buffer);
  const mixed = (o, colour, at, weight) => {
    const channel = (k) => pale[o + k] * (1 - weight) + colour[at + k] * weight;
    return (0xff000000 | (channel(2) << 16) | (channel(1) << 8) | channel(0)) >>> 0;
  };
  const weights = Float32Array.from({ length: 256 }, (_, s) => (0.35 + 0.6 * (s / 255) ** 0.7) * opacity);
  for (let r = 0, i = 0; r < height; r++) {
    for (let c = 0; c < width; c++, i++) {
      const start = 4 * r * width + 2 * c;
      const shade = map[i];
      const word = shade ? mixed(4 * i, colours, 3 * colourIndex(shade, signed, 0.4), weights[Math.abs(shade)]) : words[i];
      out[start] = out[start + 1] = out[start + 2 * width] = out[start + 2 * width + 1] = word;
    }
  }
  if (outline) drawOutline(out, map, width, height, (i) => mixed(4 * i, OUTLINE, 0, opacity));
  context.putImageData(image, 0, 0);
}

/** Draw the line: the quarters of places outside that touch a place that is kept. */
function drawOutline(out, map, width, height, wordAt) {
  const kept = (row, column) => row >= 0 && row < height && column >= 0 && column < width && map[row * width + column] !== 0;
  for (let r = 0, i = 0; r < height; r++) {
    for (let c = 0; c < width; c++, i++) {
      if (!map[i]) continue;
      const inside = r && c && r < height - 1 && c < width - 1;
      if (inside && map[i - 1] && map[i + 1] && map[i - width] && map[i + width]) {
        if (map[i - width - 1] && map[i - width + 1] && map[i + width - 1] && map[i + width + 1]) continue;
      }
      for (let y = 2 * r - 1; y <= 2 * r + 2; y++) {
        for (let x = 2 * c - 1; x <= 2 * c + 2; x++) {
          if (x < 0 || y < 0 || x >= 2 * width || y >= 2 * height || kept(y >> 1, x >> 1)) continue;
          out[y * 2 * width + x] = wordAt((y >> 1) * width + (x >> 1));
        }
      }
    }
  }
}
