"""`run`: explain a whole dataset into a folder, and go on where an earlier start was cut short."""

from __future__ import annotations

import os
import warnings
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol, TypeAlias

from secondsight.call import CHUNK
from secondsight.config import CASO, Method, method_of
from secondsight.errors import InputError, SecondsightError, SecondsightWarning, shown
from secondsight.model.classifier import Classifier, Target, require_classifier
from secondsight.option_types import file_name, flag, one_of, whole
from secondsight.runs.chunks import Advance, Plan, opened
from secondsight.runs.item_sources import items_of
from secondsight.runs.local_engine import LocalEngine
from secondsight.runs.run_folder import RunFolder
from secondsight.runs.run_settings import differences, settings_of, versions
from secondsight.runs.standing import Report, Standing
from secondsight.runs.stored_run import StoredRun, open_run

EngineName: TypeAlias = Literal["local", "ray"]


class Engine(Protocol):
    """Explains chunks. `LocalEngine` documents attributes and arguments."""

    facts: dict[str, Any]
    size: int

    def run(self, folder: RunFolder, todo: Sequence[int], again: Container[int], advance: Advance) -> None:
        """Explain chunks, and write each as it is done."""


IN_A_FILE = 128
"""Items in a chunk, by default. It makes files of some megabytes. A run that is cut short loses the chunk it was at."""


def run(
    model: Classifier,
    items: Any,
    method: Method | str = CASO(),
    target: Target | list[Target] = None,
    *,
    out: str | os.PathLike[str],
    seed: int = 0,
    use_labels: bool = False,
    limit: int | None = None,
    store_path: bool = False,
    dense: Literal["zarr"] | None = None,
    retry_errors: bool = False,
    chunk: int = IN_A_FILE,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    progress: Report = None,
) -> StoredRun:
    """Explain a whole dataset into a folder. A run that was cut short goes on where it was.

    What is done is written in files of `chunk` items, whole or not at all. Start the run again with the same arguments,
    and it does the rest. On the same machine and versions, all maps are then equal to the last bit to those of a run
    that was never cut short. A start with other arguments is refused, and told the difference.

    Args:
        model: the network, as a Classifier.
        items: a folder (with all folders below it), a glob, a list of photographs in a file (.txt, or .csv, .tsv and
            .parquet with a column path and perhaps a column target), or a WebDataset .tar. Or a list of inputs as for
            `explain`, or a torch Dataset with a length, whose items are inputs or pairs of input and label.
        method: a config or a string, as for `explain`.
        target: the class to explain, for all items or a list with one for each; None: the predicted one, or the
            one that the list names. Must be None if the list has a column target, or use_labels is set.
        out: the folder. It is made, or has to be that of this run.
        seed: as for `explain`.
        use_labels: explain the label that comes with each item of a Dataset or of a .tar (NAME.cls).
        limit: how many items are explained, from the first of the list on; None: all.
        store_path: also store the path of lambda1 and the gradient. They take some twenty times the space of the rest.
        dense: "zarr" also writes all maps into one array, `dense.zarr` in the folder, with NaN for items without a map.
        retry_errors: also do those chunks again in which an item has an error, if that item can be opened now.
        chunk: how many items a file has.
        engine: "local": this process. "ray": processes of Ray, on this machine or on a cluster whose nodes all see
            `out` and the items under the same names. Either goes on with what the other has begun.
        workers: of Ray, how many processes; None: one for each GPU of the cluster, or each core where it has none.
        address: of a cluster of Ray, "auto" to find it. None: the one that this process is connected
            to, else one that is started for the run.
        progress: called with the `Standing` of the run: before the first item, then after each batch (with Ray, after
            each chunk). It is not called if all items are done already.

    Returns:
        What is stored now, as `open_run` gives it. An item that cannot be read or explained has no map but an error.

    Raises:
        InputError: if an argument cannot be used.
        SecondsightError: if the folder belongs to a run with other settings, another process works on it, none of the
            first items can be explained, or files cannot be written. Chunks that are done stay done.

    Warns:
        SecondsightWarning: as `explain` does, once of each kind. Also if the run was begun with other versions, threads
            or device, and if memory ran out.

    Example:
        >>> import tempfile, torch
        >>> model = Classifier(torch.nn.Linear(4, 3), input_shape=(4,))
        >>> out = tempfile.mkdtemp()
        >>> done = run(model, list(torch.rand(20, 4)), "cafo", out=out)
        >>> len(done), done[0].label == run(model, list(torch.rand(20, 4)), "cafo", out=out)[0].label
        (20, True)
    """
    require_classifier(model)
    config = method_of(method)
    use_labels, chunk = flag("use_labels", use_labels), whole(1)("chunk", chunk)
    listed = items_of(items, target, use_labels, whole(1, optional=True)("limit", limit))
    plan = Plan(
        model=model,
        items=listed,
        method=config,
        seed=whole(0)("seed", seed),
        chunk=chunk,
        batch=min(CHUNK, chunk),
        store_path=flag("store_path", store_path),
        dense=dense is not None and one_of("zarr")("dense", dense) == "zarr",
    )
    engine = one_of("local", "ray")("engine", engine)
    workers = whole(1, optional=True)("workers", workers)
    if engine == "local" and (workers is not None or address is not None):
        raise InputError("workers and address", "None for engine='local'", shown((workers, address)))
    shape = [side for side in model.input_shape if side is not None]
    if plan.dense and len(shape) < len(model.input_shape):
        raise InputError("dense", "None for a network that takes inputs of any size", "'zarr'")
    own = {name: getattr(plan, name) for name in ("chunk", "batch", "store_path", "dense")}
    folder = RunFolder(file_name("out", out, "the name of a folder"))
    settings = settings_of(model, listed, config, plan.seed, own | {"use_labels": use_labels})
    with folder.locked():
        folder.begin(settings)
        todo, again = _todo(plan, folder, flag("retry_errors", retry_errors))
        if plan.dense:
            # zarr takes a while to import.
            from secondsight.runs.dense_array import make_array

            make_array(folder.dense, len(listed), shape, plan.chunk)
        if todo:
            with _engine(plan, engine, len(todo), workers, address) as chosen:
                _compute(plan, folder, todo, again, chosen, progress)
    return open_run(folder.path, listed)


def _engine(
    plan: Plan, engine: EngineName, chunks: int, workers: int | None, address: str | None
) -> AbstractContextManager[Engine]:
    if engine == "local":
        return nullcontext(LocalEngine(plan))
    try:
        # Ray takes seconds to import.
        from secondsight.runs.ray_engine import ray_engine
    except ImportError:
        raise SecondsightError("engine='ray' needs Ray: pip install 'secondsight[ray]'") from None
    return ray_engine(plan, chunks, workers, address)


def _todo(plan: Plan, folder: RunFolder, retry_errors: bool) -> tuple[list[int], set[int]]:
    """List the chunks that are to be done, and those of them that have a file already."""
    sizes = [len(plan.places(chunk)) for chunk in range(plan.chunks)]
    done = folder.done(sizes)
    again = {chunk for chunk in done if _may_succeed(plan, folder.errors(chunk))} if retry_errors else set()
    return [chunk for chunk in range(plan.chunks) if chunk not in done or chunk in again], again


def _may_succeed(plan: Plan, positions: list[int]) -> bool:
    """Whether some of these items can be opened now, so that their chunk is worth the time."""
    return any(opened(plan, position).pixels is not None for position in positions)


def _compute(plan: Plan, folder: RunFolder, todo: list[int], again: set[int], engine: Engine, progress: Report) -> None:
    """Explain chunks. Write into run.json how many items this start has done, and in which time."""
    left = sum(len(plan.places(chunk)) for chunk in todo)
    standing = Standing(len(plan.items), len(plan.items) - left)
    report = progress or (lambda _: None)

    def advance(done: int, failed: int) -> None:
        standing.advance(done, failed)
        report(standing)

    session = {"versions": versions()} | engine.facts
    changed = {_changes(earlier, session) for earlier in folder.begin_session(session)} - {""}
    if changed:
        note = f"{folder.path} was begun elsewhere ({'; '.join(sorted(changed))}): maps agree with those that are there"
        warnings.warn(f"{note} within their certificates, not to the last bit", SecondsightWarning, stacklevel=3)
    report(standing)
    try:
        engine.run(folder, todo, again, advance)
    finally:
        ended = {"done": standing.done, "failed": standing.failed, "seconds": standing.seconds, "batch": engine.size}
        folder.end_session(ended)
    if engine.size < plan.batch:
        note = f"memory ran out: some maps were explained {engine.size} at a time instead of {plan.batch}"
        warnings.warn(f"{note}, and say so in their notes", SecondsightWarning, stacklevel=3)


def _changes(earlier: dict[str, Any], now: dict[str, Any]) -> str:
    """Say how two starts differ in what the last bits of maps depend on: versions, threads and device."""
    before, after = ({"threads": one["threads"], "device": one["device"]} | one["versions"] for one in (earlier, now))
    return differences(before, after)
