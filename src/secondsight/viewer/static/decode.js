// The bytes of a page: base64, deflate, maps along lambda1 (shade_planes.py writes them), and arrays of an NPZ file.

/** Read base64. */
export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Unpack bytes that were deflated. */
export async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Unpack `count` maps of `size` places: shades from -255 to 255, negative where the map is, and 0 where it is zero. */
export async function mapsOf(packed, count, size) {
  const data = await inflated(bytesOf(packed));
  const bit = (start, i) => (data[start + (i >> 3)] >> (7 - (i & 7))) & 1;
  const row = Math.ceil(size / 8);
  const kept = Array.from({ length: count }, () => new Uint8Array(size));
  let total = 0;
  kept.forEach((mask, k) => {
    for (let i = 0; i < size; i++) total += mask[i] = bit(k * row, i) ^ (k ? kept[k - 1][i] : 0);
  });
  const signs = count * row;
  const shades = signs + Math.ceil(total / 8);
  const negative = new Uint8Array(size);
  const shade = new Uint8Array(size);
  let next = 0;
  return kept.map((mask) => {
    const map = new Int16Array(size);
    for (let i = 0; i < size; i++) {
      if (mask[i]) {
        negative[i] ^= bit(signs, next);
        shade[i] += data[shades + next++];
        map[i] = negative[i] ? -shade[i] : shade[i];
      } else {
        negative[i] = shade[i] = 0;
      }
    }
    return map;
  });
}

/** Read an array of floating-point numbers from an NPZ file: its entries, and its shape. Null if it is not there. */
export async function arrayOf(archive, name) {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  const end = archive.length - 22;
  let entry = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [length, extra, comment] = [28, 30, 32].map((at) => view.getUint16(entry + at, true));
    const file = new TextDecoder().decode(archive.subarray(entry + 46, entry + 46 + length));
    if (file === `${name}.npy`) {
      const local = view.getUint32(entry + 42, true);
      const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      return numbersOf(await inflated(archive.subarray(start, start + view.getUint32(entry + 20, true))));
    }
    entry += 46 + length + extra + comment;
  }
  return null;
}

function numbersOf(npy) {
  const start = 10 + new DataView(npy.buffer).getUint16(8, true);
  const header = new TextDecoder().decode(npy.subarray(10, start));
  const Numbers = { "<f4": Float32Array, "<f8": Float64Array }[/'descr': '([^']+)'/.exec(header)[1]];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((part) => part.trim()).map(Number);
  return Numbers && { shape, values: new Numbers(npy.buffer.slice(start)) };
}
