"""`run`: explain a whole dataset into a folder, and go on where an earlier start was cut short."""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal, TypeAlias

import torch

from secondsight.call import CHUNK, Cautions
from secondsight.config import CASO, Method, method_of
from secondsight.errors import SecondsightWarning
from secondsight.model.classifier import Classifier, Target, require_classifier
from secondsight.option_types import file_name, flag, one_of, whole
from secondsight.runs.chunks import BatchExplainer, Plan
from secondsight.runs.item_sources import items_of
from secondsight.runs.local_engine import run_locally
from secondsight.runs.run_folder import RunFolder
from secondsight.runs.run_settings import differences, settings_of, versions
from secondsight.runs.standing import Report, Standing
from secondsight.runs.stored_run import StoredRun, open_run

EngineName: TypeAlias = Literal["local", "ray"]

EXACT = ("threads", "device")
"""What maps depend on in their last bits, beside the versions."""

IN_A_FILE = 128
"""Items of a chunk, by default: files of some megabytes. A run that is cut short loses the chunk that it was at."""


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
    retry_errors: bool = False,
    chunk: int = IN_A_FILE,
    engine: EngineName = "local",
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
        target: the class to explain, for all items or a list with one for each; None: the predicted one.
        out: the folder. It is made, or has to be that of this run.
        seed: as for `explain`.
        use_labels: explain the label that comes with each item of a Dataset or of a .tar (NAME.cls).
        limit: only the first items of the list.
        store_path: also store the path of lambda1 and the gradient. They take some twenty times the space of the rest.
        retry_errors: also do those chunks again in which an item has an error.
        chunk: how many items a file has.
        engine: "local": this process. "ray": processes of Ray, on this machine or a cluster.
        progress: called with the `Standing` of the run, at its start and after each batch.

    Returns:
        What is stored now, as `open_run` gives it. An item that cannot be read or explained has no map but an error.

    Raises:
        InputError: if an argument cannot be used.
        SecondsightError: if the folder belongs to a run with other settings, another process works on it, or files
            cannot be written. What is done stays done.

    Warns:
        SecondsightWarning: as `explain` does, once of each kind.

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
    listed = items_of(items, target, flag("use_labels", use_labels), whole(1, optional=True)("limit", limit))
    plan = Plan(
        model=model,
        items=listed,
        method=config,
        seed=whole(0)("seed", seed),
        chunk=whole(1)("chunk", chunk),
        batch=min(CHUNK, chunk),
        store_path=flag("store_path", store_path),
    )
    engine = one_of("local", "ray")("engine", engine)
    own = {"use_labels": use_labels, "chunk": plan.chunk, "batch": plan.batch, "store_path": plan.store_path}
    folder = RunFolder(file_name("out", out, "the name of a folder"))
    settings = settings_of(model, listed, config, plan.seed, own)
    with folder.locked():
        folder.begin(settings)
        todo = _todo(plan, folder, flag("retry_errors", retry_errors))
        if todo:
            session = {"versions": versions(), "threads": torch.get_num_threads(), "device": str(model.device)}
            _compute(plan, folder, todo, session | {"engine": engine}, progress)
    return open_run(folder.path, listed)


def _todo(plan: Plan, folder: RunFolder, retry_errors: bool) -> list[int]:
    """List the chunks that are not done yet."""
    sizes = [len(plan.places(chunk)) for chunk in range(plan.chunks)]
    done = folder.done(sizes)
    done -= folder.with_errors(done) if retry_errors else set()
    return [chunk for chunk in range(plan.chunks) if chunk not in done]


def _compute(plan: Plan, folder: RunFolder, todo: list[int], session: dict[str, Any], progress: Report) -> None:
    """Explain chunks, and keep in run.json how that went."""
    left = sum(len(plan.places(chunk)) for chunk in todo)
    standing = Standing(len(plan.items), len(plan.items) - left)
    report = progress or (lambda _: None)

    def advance(done: int, failed: int) -> None:
        standing.advance(done, failed)
        report(standing)

    earlier = folder.begin_session(session)
    changed = {differences(before, session["versions"]) for before in (one["versions"] for one in earlier)} - {""}
    changed |= {
        f"{name} was {one[name]}, is {session[name]}" for one in earlier for name in EXACT if one[name] != session[name]
    }
    if changed:
        note = f"{folder.path} was begun elsewhere ({'; '.join(sorted(changed))}): maps agree with those that are there"
        warnings.warn(f"{note} within their certificates, not to the last bit", SecondsightWarning, stacklevel=3)
    report(standing)
    explainer = BatchExplainer(plan, Cautions(depth=4))
    try:
        run_locally(plan, folder, todo, explainer, advance)
    finally:
        ended = {"done": standing.done, "failed": standing.failed, "seconds": standing.seconds, "batch": explainer.size}
        folder.end_session(ended)
    if explainer.size < plan.batch:
        note = f"memory ran out: some maps were explained {explainer.size} at a time instead of {plan.batch}"
        warnings.warn(f"{note}, and say so in their notes", SecondsightWarning, stacklevel=3)
