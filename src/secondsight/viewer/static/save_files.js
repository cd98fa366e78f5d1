// What a person saves from the viewer: the exact map, and a picture of what is seen.
import { bytesOf } from "./decode.js";
import { save } from "./page_parts.js";
import { picturePng } from "./png.js";

/** Save the exact arrays of the result that is picked. */
export function saveArchive(viewer) {
  const bytes = bytesOf(viewer.result.data.archive);
  save(new Blob([bytes], { type: "application/octet-stream" }), fileName(viewer, viewer.result.data.summary.method, "npz"));
}

/** Save the panes as a picture. */
export async function savePicture(viewer) {
  const { result, state, stage } = viewer;
  const words = `${result.data.heading}, ${result.facts()}`;
  const title = state.all ? words : `${words}, ${result.caption(viewer.pointOf(result))}`;
  const panels = stage.panes.map(({ pane }) => [pane.canvas, pane.words]);
  const method = state.all ? "compared" : result.data.summary.method;
  save(await picturePng(title, panels), fileName(viewer, method, "png"));
}

function fileName({ page }, method, ending) {
  const stem = (page.name || "map").replace(/\.[^.]*$/, "");
  return `${`${stem}-${method}`.replace(/[^\p{L}\p{N}._-]+/gu, "_")}.${ending}`;
}
