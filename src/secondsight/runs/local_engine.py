"""The engine for one machine: chunk after chunk, while the next items are opened in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secondsight.runs.chunks import BatchExplainer, Plan, read_ahead
from secondsight.runs.run_folder import RunFolder

Advance = Callable[[int, int], None]
"""Called with the number of items that are done since the last call, and how many of them have an error."""


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
        rows = []
        for _ in plan.batches(chunk):
            failed = explainer.failed
            found = explainer.rows(next(batches))
            rows += found
            advance(len(found), explainer.failed - failed)
        folder.commit(chunk, rows, plan.store_path)
