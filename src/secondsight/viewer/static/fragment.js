// What a person set, in the fragment of the address: a link to a page shows what the sender saw.

const KINDS = { method: Number, point: Number, zoom: Number, x: Number, y: Number, opacity: Number };
const NAMES = [...Object.keys(KINDS), "colours", "signedColours", "signed", "kind", "all", "shows"];

/** Read the settings of the fragment. Those that are not there, or are no numbers, are left out. */
export function settingsOf(fragment) {
  const found = {};
  for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    if (!NAMES.includes(name)) continue;
    const value = KINDS[name] ? Number(text) : text === "true" ? true : text === "false" ? false : text;
    if (!Number.isNaN(value)) found[name] = value;
  }
  return found;
}

/** Write settings into the fragment, but not those that are as they were at the start. */
export function writeFragment(settings, defaults) {
  // The page of a notebook has no address of its own.
  if (location.protocol === "about:") return;
  const changed = Object.entries(settings).filter(([name, value]) => value !== null && value !== defaults[name]);
  const text = new URLSearchParams(changed.map(([name, value]) => [name, rounded(value)])).toString();
  history.replaceState(null, "", location.href.split("#")[0] + (text && `#${text}`));
}

function rounded(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);
}
