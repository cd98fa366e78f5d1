// One result of a page: its data, and its maps, unpacked when they are first shown.
import { arrayOf, bytesOf, inflated, mapsOf } from "./decode.js";
import { paled, textureOf } from "./paint.js";
import { percent, placeProof, shadeValue, short } from "./words.js";

/** A result. `load` gives its data; the rest is made of them. */
export class Result {
  constructor({ title, photograph, load }) {
    Object.assign(this, { title, photograph, load, data: null, maps: {}, textures: new Map(), support: null, exact: null, opened: false, image: null });
  }

  /** Unpack what a picture of this kind needs. */
  async ready(kind) {
    this.data ??= this.load();
    const { shades, points, height, width, certificate, archive } = this.data;
    const own = this.kind(kind);
    this.maps[own] ??= await mapsOf(shades[own].maps, points.length, height * width);
    if (certificate) this.support ??= await inflated(bytesOf(certificate.support));
    if (archive && !this.exact) this.exact = await arrayOf(bytesOf(archive), "delta");
  }

  /** Whether `ready` has nothing left to do. */
  has(kind) {
    return this.data !== null && this.maps[this.kind(kind)] !== undefined;
  }

  /** The kind of shades, or that which this result has. */
  kind(kind) {
    return this.data.shades[kind] ? kind : "entries";
  }

  map(kind, k) {
    return this.maps[this.kind(kind)][k];
  }

  texture(kind, k) {
    const key = `${this.kind(kind)} ${k}`;
    if (!this.textures.has(key)) this.textures.set(key, textureOf(this.map(kind, k), this.data.width, this.data.height));
    return this.textures.get(key);
  }

  /** The photograph under its overlay. */
  paled(opacity) {
    if (this.opacity !== opacity) [this.opacity, this.pale] = [opacity, paled(this.pixels, opacity)];
    return this.pale;
  }

  /** The map that is most like another one: with the nearest share of zeros. */
  nearest(sparsity) {
    const apart = this.data.points.map((point) => Math.abs(point.sparsity - sparsity));
    return apart.indexOf(Math.min(...apart));
  }

  /** What is known of a place of a map, in words. */
  words(kind, k, { x, y }) {
    const { data } = this;
    const [row, column] = [Math.floor(y * data.height), Math.floor(x * data.width)];
    const place = data.picture ? `Row ${row}, column ${column}` : `Feature ${column}`;
    const i = data.picture ? row * data.width + column : column;
    const own = this.kind(kind);
    const shade = this.maps[own][k][i];
    const value = `${own === "groups" ? "norm of its group " : ""}${shadeValue(shade, data.shades[own].brightest[k])}`;
    const values = own === "entries" && k === data.chosen && this.exact ? this.#entries(i) : value;
    const effect = shade && `, ${shade > 0 === data.against ? "against" : "for"} the class where it grows`;
    return `${place}: ${values}${effect || ""}; ${placeProof(data, k, shade, this.support?.[i])}`;
  }

  /** The exact values of a place: one for each channel. */
  #entries(i) {
    const { values } = this.exact;
    const size = this.data.height * this.data.width;
    const entries = [];
    for (let at = i; at < values.length; at += size) entries.push(values[at]);
    if (entries.every((value) => value === 0)) return "0";
    const names = entries.length === 3 ? ["red ", "green ", "blue "] : entries.map(() => "");
    return entries.map((value, channel) => names[channel] + short(value)).join(", ");
  }

  /** The class, and how sure the network is. */
  facts() {
    const { probability, model } = this.data.summary;
    return [`p = ${short(probability)}`, model].filter(Boolean).join(" · ");
  }

  /** A line below a map. */
  caption(k) {
    const { sparsity } = this.data.points[k];
    return `${this.title}: ${sparsity ? `${percent(sparsity)} of ${this.data.unit} zero` : "no zeros"}`;
  }
}
