"""The engine for one machine: chunk after chunk, while the next items are opened in the background."""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch

from secondsight.call import Cautions
from secondsight.runs.chunks import Advance, BatchExplainer, Plan, read_ahead, write_chunk
from secondsight.runs.run_folder import RunFolder


class LocalEngine:
    """Explains chunks in this process.

    Args:
        plan: what is computed.

    Attributes:
        facts: what the last bits of maps depend on, for run.json.
        size: how many items are explained in a call: as the plan says, or fewer if memory ran out.
    """

    def __init__(self, plan: Plan) -> None:
        """Remember the plan. The network is not used yet."""
        self.plan, self.size = plan, plan.batch
        self.facts = {"engine": "local", "threads": torch.get_num_threads(), "device": str(plan.model.device)}

    def run(self, folder: RunFolder, todo: Sequence[int], again: Container[int], advance: Advance) -> None:
        """Explain chunks, and write each as it is done.

        Args:
            folder: where the files go.
            todo: the chunks.
            again: the chunks among them that have a file already, which is replaced. This engine does not need to know.
            advance: called after each batch.

        Raises:
            SecondsightError: if none of the first items can be explained, or a file cannot be written.
        """
        plan = self.plan
        explainer = BatchExplainer(plan, Cautions(depth=6), works=len(todo) < plan.chunks)
        batches = read_ahead(plan, (batch for chunk in todo for batch in plan.batches(chunk)))
        for chunk in todo:
            write_chunk(plan, folder, chunk, explainer.chunk_rows(chunk, batches, advance))
            self.size = explainer.size
