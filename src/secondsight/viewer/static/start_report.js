// What the page of a run does when it opens: its data are in JSON blocks of the page.
import { RunReport } from "./run_report.js";

const read = (id) => JSON.parse(document.getElementById(id).textContent);
window.report = new RunReport(document.getElementById("root"), read("page"), (row) => read(`result-${row}`));
