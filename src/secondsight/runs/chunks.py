"""One chunk of a run: its items are opened, explained batch by batch, and become rows.

Chunks and batches are fixed by the places of items in their list. Every engine calls this code, so the rows of a chunk
do not depend on who computes it, or when.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from secondsight.call import Cautions, explain_all
from secondsight.config import Method
from secondsight.errors import SecondsightError, shown
from secondsight.fault_tolerance import FaultTolerant
from secondsight.model.classifier import Classifier, Target
from secondsight.model.images import Pixels
from secondsight.model.network_facts import NetworkFacts
from secondsight.results.explanation import Explanation
from secondsight.runs.items import Items, content_hash
from secondsight.runs.map_columns import Row, result_row, storable
from secondsight.runs.run_folder import RunFolder

Advance = Callable[[int, int], None]
"""Called with the number of items that are done since the last call, and how many of them have an error."""

AHEAD = 2
"""Batches that are opened ahead of the one that is being explained: more would only take memory."""

SUSPICIOUS = 8
"""A run stops if its first batch has at least this many items and all fail: then the paths, the classes or the network
are wrong."""


@dataclass(frozen=True)
class Plan:
    """What is computed, and how the list is cut.

    Attributes:
        model: the network.
        items: the list.
        method: the config.
        seed: of all random numbers.
        chunk: items in a file.
        batch: items in a call.
        store_path: whether rows have the path and the gradient, too.
        dense: whether maps also go into one array.
    """

    model: Classifier
    items: Items
    method: Method
    seed: int
    chunk: int
    batch: int
    store_path: bool
    dense: bool = False

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-len(self.items) // self.chunk)

    def places(self, chunk: int) -> range:
        """List the places of the items of a chunk."""
        return range(chunk * self.chunk, min((chunk + 1) * self.chunk, len(self.items)))

    def batches(self, chunk: int) -> list[range]:
        """List the places of the items of a chunk, batch by batch."""
        places = self.places(chunk)
        return [places[start : start + self.batch] for start in range(0, len(places), self.batch)]


def write_chunk(plan: Plan, folder: RunFolder, chunk: int, rows: Sequence[Row]) -> None:
    """Write the rows of a chunk. Its Parquet file comes last, because it says that the chunk is done.

    Raises:
        SecondsightError: if the rows cannot be written, as on a full disk.
    """
    if plan.dense:
        # zarr takes a while to import.
        from secondsight.runs.dense_array import write_shard

        write_shard(folder.dense, chunk, rows)
    folder.commit(chunk, rows, plan.store_path)


@dataclass
class Opened:
    """An item, opened and ready to be explained.

    Attributes:
        row: the columns that are known before the item is explained.
        pixels: what the network takes; None: the item could not be read, and the row has the error.
        target: the class to explain; None: the predicted one.
    """

    row: Row
    pixels: Pixels | None
    target: Target


def opened(plan: Plan, i: int) -> Opened:
    """Open an item. An error of any type goes into its row, because a Dataset may raise anything."""
    row: Row = {"position": i, "id": storable(plan.items.ids[i])}
    try:
        where = plan.items.where(i)
        row["path"] = None if where is None else storable(where)
        item, target = plan.items.open(i)
        pixels = plan.model.read(item)
        row["content_hash"] = content_hash(item)
    except Exception as error:
        return Opened(row | {"error": in_words(error)}, None, None)
    return Opened(row, pixels, target)


def read_ahead(plan: Plan, batches: Iterable[range]) -> Iterator[list[Opened]]:
    """Open the items of batches in a thread of its own, while earlier batches are explained."""
    pool, waiting = ThreadPoolExecutor(1, thread_name_prefix="secondsight-reader"), deque[Future[list[Opened]]]()

    def read(batch: range) -> list[Opened]:
        return [opened(plan, i) for i in batch]

    try:
        for batch in batches:
            waiting.append(pool.submit(read, batch))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class BatchExplainer:
    """Explains batches one after the other, and makes rows of them.

    Args:
        plan: what is computed.
        cautions: warns of what changes the meaning of results.
        works: whether an earlier start has done chunks of this list. If not, a first batch of errors ends the run.

    Attributes:
        failed: how many items have an error so far.
    """

    def __init__(self, plan: Plan, cautions: Cautions, works: bool = False) -> None:
        """Start with the batches of the plan."""
        self.plan, self.cautions, self.works, self.failed = plan, cautions, works, 0
        self._calls: FaultTolerant[Explanation] = FaultTolerant(self._explain, plan.batch, Exception)

    @property
    def size(self) -> int:
        """The number of items in a call: fewer than the plan says where memory ran out."""
        return self._calls.size

    def chunk_rows(self, chunk: int, batches: Iterator[list[Opened]], advance: Advance) -> list[Row]:
        """Explain a chunk.

        What earlier chunks have shown of the network is forgotten first. Otherwise the last bits of a map would depend
        on which chunks this process has done before.

        Args:
            chunk: its number.
            batches: opened batches, of which those of this chunk come next.
            advance: called after each batch.

        Returns:
            One row for each item of the chunk.

        Raises:
            SecondsightError: if the first batch has at least SUSPICIOUS items and all of them fail.
        """
        known = self.plan.model.facts
        self.plan.model.facts = NetworkFacts(known.outputs_checked, piecewise_linear=known.piecewise_linear)
        rows = []
        for _ in self.plan.batches(chunk):
            failed = self.failed
            found = self._rows(next(batches))
            rows += found
            advance(len(found), self.failed - failed)
        return rows

    def _rows(self, batch: Sequence[Opened]) -> list[Row]:
        outcomes = iter(self._calls.explain_each([one for one in batch if one.pixels is not None]))
        rows, results = [], []
        for one in batch:
            outcome = None if one.pixels is None else next(outcomes)
            if isinstance(outcome, Explanation):
                results.append(self._noted(outcome))
                rows.append(one.row | result_row(results[-1], self.plan.store_path))
            else:
                if outcome is not None:
                    one.row["error"] = in_words(outcome)
                rows.append(one.row)
        self.failed += len(batch) - len(results)
        self.works = self.works or bool(results)
        if not self.works and len(batch) >= SUSPICIOUS:
            raise SecondsightError(f"none of the first {len(batch)} items can be explained: {rows[0]['error']}")
        self.cautions.warn(results)
        return rows

    def _explain(self, inputs: Sequence[Opened]) -> list[Explanation]:
        plan, facts = self.plan, copy.deepcopy(self.plan.model.facts)
        pixels, targets = [one.pixels for one in inputs], [one.target for one in inputs]
        try:
            return explain_all(plan.model, pixels, plan.method, targets, plan.seed, None, steady=True)
        except Exception:
            # One input that fails must not decide how the network is differentiated at the others.
            plan.model.facts = facts
            raise

    def _noted(self, e: Explanation) -> Explanation:
        """Add a note if memory made calls smaller, because calls of another size round in another way."""
        if self.size == self.plan.batch:
            return e
        return replace(
            e, notes=(*e.notes, f"explained {self.size} at a time instead of {self.plan.batch}: memory ran out")
        )


def in_words(error: Exception) -> str:
    """Write an error in one line. The type of an error stands before it, unless it is a SecondsightError."""
    text = shown(error, str)
    return storable(text if isinstance(error, SecondsightError) else f"{type(error).__name__}: {text}")
