// Numbers and places in words.

/** A number with three digits. */
export function short(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(3))) : value.toExponential(1).replace("e+", "e");
}

/** A share in percent, with more digits where it is nearly 0 or nearly all. */
export function percent(share) {
  const edge = Math.min(share, 1 - share);
  return `${(100 * share).toFixed(edge > 0 && edge < 0.001 ? 2 : 1)}%`;
}

/** A path point in one line: for the slider, and for screen readers. */
export function pointWords(data, k) {
  const point = data.points[k];
  const chosen = k === data.chosen ? ", the chosen map" : "";
  return `lambda1 = ${short(point.lambda1)}: ${percent(point.sparsity)} of ${data.unit} zero${chosen}`;
}

/** What is proven of a map, in a few words, and how it is to be shown: "good", "bad" or "none". */
export function proofOf(data, k) {
  const { certified, relative_gap, tolerance } = data.summary;
  if (!data.certificate) return { state: "none", text: "no certificate" };
  if (k === data.chosen) {
    if (!certified) return { state: "bad", text: "not certified" };
    return { state: "good", text: relative_gap ? `certified, gap ${short(relative_gap)}` : "certified, exact" };
  }
  const gap = data.points[k].relative_gap;
  if (gap === null) return { state: "none", text: "not certified: not the chosen map" };
  if (gap === 0) return { state: "good", text: "certified, exact" };
  return { state: gap <= tolerance ? "good" : "bad", text: `gap ${short(gap)}` };
}

/** What the certificate proves of one place. `support`: 1 not zero, 2 zero, 0 undecided, in the best map. */
export function placeProof(data, k, value, support) {
  if (!data.certificate) return "this method proves nothing";
  if (data.summary.basis === "exact" && data.points[k].relative_gap === 0) {
    return value ? "proven not zero in the best map" : "proven zero in the best map";
  }
  if (k !== data.chosen) return "nothing is proven here: only the chosen map has a certificate for single places";
  return ["undecided: the gap is too large to tell", "proven not zero in the best map", "proven zero in the best map"][
    support
  ];
}

/** The value of a shade: what it stands for, to within one part in 255. */
export function shadeValue(shade, brightest) {
  if (!shade) return "0";
  const size = (Math.abs(shade) / 255) * brightest;
  return Math.abs(shade) === 255 ? `at least ${short(brightest)}` : `about ${short(size)}`;
}
