// Render the formulas of a page, which arithmatex leaves as \(...\) and \[...\], by the bundled KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const [, open, tex] = element.textContent.trim().match(/^(\\\(|\\\[)([^]*)(?:\\\)|\\\])$/)
    katex.render(tex, element, { displayMode: open === "\\[", strict: "error" })
    // A wide formula scrolls in its own box, which the keyboard must reach, too.
    if (open === "\\[" && element.scrollWidth > element.clientWidth) element.tabIndex = 0
  }
})
