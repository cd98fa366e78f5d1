// Render the formulas of a page, which arithmatex leaves as \(...\) and \[...\], by the bundled KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const [, open, tex] = element.textContent.trim().match(/^(\\\(|\\\[)([^]*)(?:\\\)|\\\])$/)
    katex.render(tex, element, { displayMode: open === "\\[", strict: "error" })
  }
})

// What the theme leaves out for keyboards and screen readers: wide boxes can be scrolled, and the search has a name.
window.addEventListener("load", () => {
  for (const box of document.querySelectorAll("div.arithmatex, .md-typeset__scrollwrap, .highlight code"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
})
