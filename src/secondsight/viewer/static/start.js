// What a page does when it opens: its data are in JSON blocks of the page.
import { Viewer } from "./viewer.js";

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const page = read("page");

const results = page.results.map(({ part, ...one }) => ({ ...one, load: () => read(part) }));
window.viewer = new Viewer(document.getElementById("root"), { ...page, results });
