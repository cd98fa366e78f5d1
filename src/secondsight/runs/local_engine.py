"""The engine for one machine: chunk after chunk, while the next items are opened in the background."""

from __future__ import annotations

from collections.abc import Sequence

from secondsight.runs.chunks import Advance, BatchExplainer, Plan, read_ahead
from secondsight.runs.run_folder import RunFolder


def run_locally(
    plan: Plan, folder: RunFolder, todo: Sequence[int], explainer: BatchExplainer, advance: Advance
) -> None:
    """Explain chunks, and write each as it is done.

    Args:
        plan: what is computed.
        folder: where the files go.
        todo: the chunks.
        explainer: explains batches.
        advance: told of progress.
    """
    batches = read_ahead(plan, (batch for chunk in todo for batch in plan.batches(chunk)))
    for chunk in todo:
        folder.commit(chunk, explainer.chunk_rows(chunk, batches, advance), plan.store_path)
