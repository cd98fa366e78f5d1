// Elements of the page. Text goes in as text, never as HTML: names come from files.

/** Make an element: attributes, listeners under "on...", and children. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of an SVG picture. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Buttons of which one is pressed. Arrow keys are those of radio buttons. */
export function choice(label, options, picked, onpick) {
  const name = `choice-${label.replace(/\W+/g, "-")}-${Math.random().toString(36).slice(2)}`;
  const inputs = new Map();
  const element = el(
    "fieldset",
    { class: "choice" },
    el("legend", {}, label),
    options.map(([value, text]) => {
      const input = el("input", { type: "radio", name, value, onchange: () => onpick(value) });
      inputs.set(value, input);
      return el("label", {}, input, el("span", {}, text));
    }),
  );
  const show = (value) => inputs.has(value) && (inputs.get(value).checked = true);
  show(picked);
  return { element, show };
}

/** Tabs: one is selected, arrow keys go to the next. */
export function tabs(label, titles, onpick) {
  const buttons = titles.map((title, i) =>
    el("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-controls": "stage", onclick: () => onpick(i) }, title),
  );
  const element = el("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  element.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    event.preventDefault();
    onpick(next);
    buttons[next].focus();
  });
  const show = (picked) =>
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", i === picked);
      button.tabIndex = i === picked ? 0 : -1;
    });
  return { element, show };
}

/** Save bytes or a picture as a file. */
export function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A button that goes from the light page to the dark one and back. At first the page is as the system is. */
export function themeSwitch() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.style.colorScheme ? root.style.colorScheme === "dark" : dark.matches);
  const button = el("button", { type: "button", class: "theme" });
  const show = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.style.colorScheme = isDark() ? "light" : "dark";
    show();
  });
  dark.addEventListener("change", show);
  show();
  return button;
}
