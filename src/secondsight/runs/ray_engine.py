"""The engine for clusters: Ray Data hands chunks to actors, each of which has the network and writes its files itself.

The files of the run are the checkpoint, as for the local engine. So either engine goes on where the other was cut
short. Ray Data's own checkpoints are switched off, because they rely on their record even if a file of the run is lost
or damaged. `docs/scaling.md` has the reasons, and `tests/test_run_ray.py` shows them.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
import ray.data
import torch
from torch import nn

from secondsight.call import Cautions
from secondsight.errors import InputError, SecondsightError, SecondsightWarning, shown
from secondsight.runs.chunks import Advance, BatchExplainer, Plan, read_ahead, write_chunk
from secondsight.runs.run_folder import RunFolder, rows_in

PATIENCE = 5.0
"""Seconds that the address of a cluster has to answer."""

Told = dict[str, list[Any]]
"""What an actor returns for a chunk: a batch of Ray Data with one row."""


class ChunkActor:
    """Explains chunks in a process of its own.

    Args:
        plan: what is computed, in Ray's store. In a list, because Ray would put the plan in place of a reference.
        path: the folder of the run.
        working_folder: where the run was started: paths may be relative to it.
        threads: of torch.
    """

    def __init__(self, plan: list[Any], path: Path, working_folder: str, threads: int) -> None:
        """Set up the process as the local engine does."""
        with suppress(OSError):
            # Nothing is lost where paths begin at the root.
            os.chdir(working_folder)
        torch.set_num_threads(threads)
        # The warnings of an actor go nowhere. What they say is in the notes of each map.
        warnings.simplefilter("ignore", SecondsightWarning)
        self.plan, self.folder = _on_own_device(ray.get(plan[0])), RunFolder(path)
        self.explainer = BatchExplainer(self.plan, Cautions())

    def __call__(self, batch: dict[str, Any]) -> Told:
        """Explain a chunk and write its file. If Ray tries a chunk twice, a file that is whole is not written again."""
        (chunk,), failed, refusal = map(int, batch["chunk"]), self.explainer.failed, ""
        try:
            if not self.folder.record.exists():
                what = f"must be on a file system that all nodes share: {platform.node()} has no such folder"
                raise SecondsightError(f"{self.folder.path} {what}")
            if bool(batch["again"][0]) or rows_in(self.folder.part(chunk)) != len(self.plan.places(chunk)):
                batches = read_ahead(self.plan, self.plan.batches(chunk))
                rows = self.explainer.chunk_rows(chunk, batches, lambda *_: None)
                write_chunk(self.plan, self.folder, chunk, rows)
        except SecondsightError as error:
            refusal = str(error)
        failed = self.explainer.failed - failed
        return {"chunk": [chunk], "failed": [failed], "refusal": [refusal], "size": [self.explainer.size]}


def _on_own_device(plan: Plan) -> Plan:
    """Bring the network to the GPU that Ray has given to this actor, if any."""
    for net in (plan.model.net, plan.model.computed):
        if ray.get_gpu_ids() and isinstance(net, nn.Module):
            net.to("cuda")
    return plan


class RayEngine:
    """Explains chunks on a cluster. All of its nodes write into the folder of the run.

    Args:
        plan: what is computed.
        workers: how many actors.
        threads: cores, and threads of torch, of each.
        gpus: whether each has a GPU.

    Attributes:
        facts: what the last bits of maps depend on, for run.json.
        size: the smallest number of items that were explained in a call.
    """

    def __init__(self, plan: Plan, workers: int, threads: int, gpus: bool) -> None:
        """Only remember what is asked."""
        self.plan, self.workers, self.threads, self.gpus, self.size = plan, workers, threads, gpus, plan.batch
        device = "cuda" if gpus else str(plan.model.device)
        self.facts = {"engine": "ray", "threads": threads, "device": device, "workers": workers}

    def run(self, folder: RunFolder, todo: Sequence[int], again: Container[int], advance: Advance) -> None:
        """Do the same as `LocalEngine.run`, but call `advance` after each chunk.

        Raises:
            SecondsightError: if a chunk cannot be done or written, or if Ray fails.
        """
        rows = [{"chunk": chunk, "again": chunk in again} for chunk in todo]
        # Kept until the end, because an actor that is started anew asks for it again.
        stored = ray.put(self.plan)
        # A block for each chunk, because a block goes to one actor as a whole.
        chunks = ray.data.from_items(rows, override_num_blocks=len(rows))
        if hasattr(chunks.context, "checkpoint_config"):
            # This process may use Ray's checkpoints for other data. `chunks.context` is a copy for these chunks alone.
            chunks.context.checkpoint_config = None
        told = chunks.map_batches(
            ChunkActor,
            batch_size=1,
            fn_constructor_args=([stored], folder.path.absolute(), str(Path.cwd()), self.threads),
            concurrency=self.workers,
            num_cpus=self.threads,
            num_gpus=1 if self.gpus else 0,
        )
        try:
            for row in told.iter_rows():
                if row["refusal"]:
                    raise SecondsightError(row["refusal"])
                advance(len(self.plan.places(row["chunk"])), row["failed"])
                self.size = min(self.size, row["size"])
        except ray.exceptions.RayError as error:
            raise SecondsightError(f"Ray has given up: {shown(error, str)}") from error


@contextmanager
def ray_engine(plan: Plan, chunks: int, workers: int | None, address: str | None) -> Iterator[RayEngine]:
    """Connect to a cluster, or start one on this machine that ends with the run.

    Args:
        plan: what is computed.
        chunks: how many are to be done.
        workers: how many actors; None: one for each GPU, or for each core where there are none.
        address: of the cluster, "auto" to find it; None: the one that this process is connected to, else a new one.

    Raises:
        SecondsightError: if there is no such cluster, or it has too few cores.
    """
    # Otherwise Ray sends statistics of its use to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Below "fatal" it warns of how Ray Data itself uses Ray. What fails is raised in Python.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ours = not ray.is_initialized()
    if ours:
        try:
            _require_answer(address)
            # Without an address, Ray would join a cluster that it finds on this machine.
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            where = "on this machine" if address is None else f"at the address {address}"
            raise SecondsightError(f"Ray cannot be used {where}: {shown(error, str)}") from None
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        has: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
        cores, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
        most, what = (gpus, "GPUs") if gpus else (cores, "cores")
        if workers is not None and workers > most:
            raise InputError("workers", f"at most {most}, the {what} of the cluster", workers)
        number = max(1, min(workers or most, chunks))
        yield RayEngine(plan, number, max(1, cores // number), bool(gpus))
    finally:
        if ours:
            ray.shutdown()


def _require_answer(address: str | None) -> None:
    """Raise OSError or ValueError if nothing answers at HOST:PORT: Ray itself would wait for minutes."""
    if address is not None and ":" in address:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
