// What a person set, in the fragment of the address: a link to a page shows what the sender saw.

/** Read settings, each only if it is one that may be: `allowed` has a test for each name, of the text. */
export function settingsOf(fragment, allowed) {
  const found = {};
  for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    const value = Object.hasOwn(allowed, name) ? allowed[name](text) : undefined;
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** A number from the least to the most, whole or not. */
export function numberIn(least, most, whole = false) {
  return (text) => {
    const value = Number(text);
    return text !== "" && value >= least && value <= most && (!whole || Number.isInteger(value)) ? value : undefined;
  };
}

/** One of some words. */
export function wordOf(words) {
  return (text) => (words.includes(text) ? text : undefined);
}

/** Yes or no. */
export function truth(text) {
  return { true: true, false: false }[text];
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
