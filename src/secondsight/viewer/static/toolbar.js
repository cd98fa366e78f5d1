// How maps are shown: colours, sign or magnitude, entries or groups, opacity, zoom.
import { choice, el } from "./page_parts.js";

const COLOUR_NAMES = { gray: "Grey", RdBu_r: "Red and blue", berlin: "Berlin (dark)" };

/** The controls above the stage. `onset` gets the settings that a person changes. */
export class Toolbar {
  constructor(onset, lens, colours, signed) {
    const options = (names) => names.map((name) => el("option", { value: name }, COLOUR_NAMES[name] ?? name[0].toUpperCase() + name.slice(1)));
    const select = (names, setting) => el("select", { onchange: (event) => onset({ [setting]: event.target.value }) }, options(names));
    this.colours = select(colours, "colours");
    this.signedColours = select(signed, "signedColours");
    this.signed = choice("Show", [["false", "Magnitude"], ["true", "Sign"]], "false", (value) => onset({ signed: value === "true" }));
    this.kind = choice("Shades of", [["groups", "Groups"], ["entries", "Entries"]], "groups", (kind) => onset({ kind }));
    this.shows = choice("Panels", [["overlay", "Overlay"], ["map", "Map"]], "overlay", (shows) => onset({ shows }));
    this.all = el("input", { type: "checkbox", onchange: () => onset({ all: this.all.checked }) });
    this.opacity = el("input", { type: "range", min: 0, max: 100, oninput: () => onset({ opacity: this.opacity.value / 100 }) });
    this.zoomed = el("output", { class: "zoomed" }, "1.0×");
    const zoom = (name, text, onclick) => el("button", { type: "button", "aria-label": name, title: name, onclick }, text);
    this.labels = {
      all: el("label", { class: "switch" }, this.all, "Side by side"),
      colours: el("label", {}, el("span", {}, "Colours"), this.colours),
      signedColours: el("label", {}, el("span", {}, "Colours"), this.signedColours),
      opacity: el("label", {}, el("span", {}, "Opacity"), this.opacity),
    };
    this.element = el(
      "div",
      { class: "toolbar", role: "group", "aria-label": "How maps are shown" },
      this.labels.all,
      this.shows.element,
      this.signed.element,
      this.kind.element,
      this.labels.colours,
      this.labels.signedColours,
      this.labels.opacity,
      el(
        "div",
        { class: "zoom", role: "group", "aria-label": "Zoom" },
        zoom("Zoom out", "−", () => lens.zoomAt(0.5, 0.5, 0.5)),
        this.zoomed,
        zoom("Zoom in", "+", () => lens.zoomAt(2, 0.5, 0.5)),
        zoom("Show all of the picture", "Reset", () => lens.reset()),
      ),
    );
  }

  /** Show the settings, and hide those that do nothing. */
  show(state, data, results) {
    this.all.checked = state.all;
    this.colours.value = state.colours;
    this.signedColours.value = state.signedColours;
    this.opacity.value = Math.round(100 * state.opacity);
    this.signed.show(String(state.signed));
    this.kind.show(data.shades.groups ? state.kind : "entries");
    this.shows.show(state.shows);
    const { picture, shades } = data;
    this.labels.all.hidden = results < 2;
    this.shows.element.hidden = !state.all || !picture;
    this.signed.element.hidden = !picture;
    this.kind.element.hidden = !shades.groups;
    this.labels.colours.hidden = state.signed || !picture;
    this.labels.signedColours.hidden = !state.signed || !picture;
    this.labels.opacity.hidden = !picture || (state.all && state.shows === "map");
  }
}
