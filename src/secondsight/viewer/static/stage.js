// The pictures of a page: photograph, map and overlay of one result, or the maps of all results beside each other.
import { BarPane } from "./bars.js";
import { blank, dilated, dotSide, paintMap, paintOverlay } from "./paint.js";
import { el } from "./page_parts.js";
import { Pane } from "./pane.js";

/** Panes under one lens. */
export class Stage {
  constructor(lens, colours) {
    this.lens = lens;
    this.colours = colours;
    this.panes = [];
    this.element = el("div", { class: "stage", id: "stage" });
  }

  /** Put panes onto the stage: [{ result, shows }], where `shows` is "photograph", "map" or "overlay". */
  set(wanted) {
    this.panes = wanted.map(({ result, shows }) => {
      const { picture, height, width } = result.data;
      const label = shows === "photograph" ? "What the network saw" : `${result.title}, ${shows}`;
      const pane = picture ? new Pane(this.lens, label, { width, height }) : new BarPane(this.lens, label, { width, height: 1 });
      const twice = shows === "overlay" ? 2 : 1;
      return { result, shows, pane, source: picture && blank(width * twice, height * twice) };
    });
    this.element.classList.toggle("bars", !wanted[0].result.data.picture);
    this.element.style.setProperty("--panes", this.panes.length);
    this.element.replaceChildren(...this.panes.map(({ pane }) => pane.element));
    this.fit();
  }

  /** Follow the size of the window. */
  fit() {
    this.panes.forEach(({ pane }) => pane.fit());
  }

  /** Paint the maps anew: `pointOf` says which map of a result. */
  paint(look, pointOf) {
    for (const one of this.panes) {
      if (one.shows !== "photograph" && one.source) this.#paint(one, look, pointOf(one.result));
    }
    this.draw(look, pointOf);
  }

  /** Show what was painted through the lens. */
  draw(look, pointOf) {
    for (const { result, shows, pane, source } of this.panes) {
      if (!source) pane.drawBars(result.map(look.kind, pointOf(result)), result.data.against);
      else if (shows === "photograph") pane.draw(result.image, true);
      else pane.draw(source, false);
    }
  }

  /** The table of colours that was picked. */
  coloursOf(look) {
    return look.signed ? this.colours.sign[look.signedColours] : this.colours.magnitude[look.colours];
  }

  #paint(one, look, k) {
    const { result, shows, pane, source } = one;
    const { width, height } = result.data;
    const texture = result.texture(look.kind, k);
    const side = texture === "dots" ? dotSide(pane.scale) : 1;
    const { kind, signed, opacity } = look;
    const painted = [k, kind, signed, opacity, look.colours, look.signedColours, side].join();
    // Methods without a path stay as they are when the others move.
    if (one.painted === painted) return;
    one.painted = painted;
    const map = dilated(result.map(kind, k), width, height, side);
    const colours = this.coloursOf(look);
    if (shows === "map") paintMap(source, map, colours, signed);
    else paintOverlay(source, result.paled(opacity), map, colours, { signed, opacity, outline: texture === "regions" });
  }
}

/** Read a photograph: as an image, and as the bytes of its pixels. */
export async function readPhotograph(uri, width, height) {
  const image = new Image();
  image.src = uri;
  await image.decode();
  const canvas = blank(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0, width, height);
  return { image, pixels: context.getImageData(0, 0, width, height).data };
}
