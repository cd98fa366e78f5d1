"""Runs on Ray: the same rows as the local engine, on one node and on two, also if a node or a start is killed."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import run_program
import secondsight as ss
from test_run_faults import PROGRAM, SLOW, parts, wait_for
from test_runs import network, picture, pictures, rows

ray: Any = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and files to be closed by Python.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::UserWarning"),
]


@pytest.fixture(autouse=True)
def workers_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", f"{here}:{here.parent / 'src'}:{here.parent}")


@contextlib.contextmanager
def two_nodes() -> Iterator[Any]:
    """Two nodes of one core each, of which the second may be killed."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        cluster.wait_for_nodes()
        yield cluster, second
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Path]:
    """The folder of Ray Data's own checkpoints, which this process has switched on. The cluster has two cores."""
    checkpoint = pytest.importorskip("ray.data.checkpoint", reason="this Ray has no checkpoints")
    context = ray.data.DataContext.get_current()
    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR")
    config = checkpoint.CheckpointConfig("chunk", str(tmp_path / "record"), delete_checkpoint_on_success=False)
    context.checkpoint_config = config
    try:
        yield tmp_path / "record"
        assert context.checkpoint_config is config
    finally:
        context.checkpoint_config = None
        ray.shutdown()


def test_ray_writes_what_the_local_engine_writes(tmp_path: Path) -> None:
    """Two workers on two cores have a thread each, as this process has. Either engine ends what the other began."""
    files = pictures(tmp_path / "in", 30)
    files[8].write_bytes(b"no picture")
    asked: dict[str, Any] = {"items": tmp_path / "in", "method": "caso", "chunk": 4, "store_path": True}
    local = rows(ss.run(network(), out=tmp_path / "local", **asked))
    run = ss.run(network(), out=tmp_path / "ray", engine="ray", workers=2, **asked)
    assert (run.sessions[0]["engine"], run.sessions[0]["threads"], run.sessions[0]["done"]) == ("ray", 1, 30)
    assert rows(run) == local
    for part in parts(tmp_path / "ray")[::2]:
        (tmp_path / "ray/maps" / part).unlink()
    assert rows(ss.run(network(), out=tmp_path / "ray", **asked)) == local
    for part in parts(tmp_path / "ray")[1::2]:
        (tmp_path / "ray/maps" / part).write_bytes(b"torn")
    picture(files[8], 8)
    again = ss.run(network(), out=tmp_path / "ray", engine="ray", workers=2, retry_errors=True, **asked)
    assert len(again) == 30
    assert again.sessions[-1]["done"] == 18
    assert not ray.is_initialized()


def test_a_node_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 400)
    local = rows(ss.run(network(), tmp_path / "in", "caso", out=tmp_path / "local", chunk=4))
    with two_nodes() as (cluster, second):
        killed = threading.Thread(target=_kill_after, args=(5, tmp_path / "run", cluster, second))
        killed.start()
        run = ss.run(network(), tmp_path / "in", "caso", out=tmp_path / "run", chunk=4, engine="ray")
        killed.join()
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    assert run.is_complete
    assert rows(run) == local


def _kill_after(count: int, out: Path, cluster: Any, node: Any) -> None:
    while len(parts(out)) < count:
        time.sleep(0.01)
    cluster.remove_node(node, allow_graceful=False)
    assert len(parts(out)) < 100, "the run was over before the node was killed"


def test_a_killed_start_goes_on_with_either_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with Ray is killed, then one without. Ray does the rest: each item is there once."""
    pictures(tmp_path / "in", 80)
    whole = ss.run(run_program.network(), tmp_path / "in", "caso", out=tmp_path / "whole", chunk=4)
    run = tmp_path / "run"
    # Two workers on two cores have a thread each, as this process has.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for engine in ("ray", "local"):
        words = [*PROGRAM, str(tmp_path / "in"), str(run), "4", str(SLOW), "0", engine]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(len(parts(run)) + 3, run, process)
        process.kill()
        assert process.wait() == -9, "the run was over before it was killed"
    assert 6 <= len(parts(run)) < 20
    done = len(parts(run)) * 4
    ended = ss.run(run_program.network(), tmp_path / "in", "caso", out=run, chunk=4, engine="ray", workers=2)
    assert ended.sessions[-1]["done"] == 80 - done
    assert rows(ended) == rows(whole)
    assert {file.name for file in run.iterdir()} == {"maps", "run.json", ".lock"}
    assert sorted(file.name for file in (run / "maps").iterdir()) == parts(run)


def test_checkpoints_of_ray_do_not_reach_a_run(tmp_path: Path, record: Path, recwarn: pytest.WarningsRecorder) -> None:
    """A process may use these checkpoints for its own data. Here their record says that all chunks are done."""
    record.mkdir()
    pq.write_table(pa.table({"chunk": range(4)}), record / "all.parquet")
    pictures(tmp_path / "in", 16)
    asked: dict[str, Any] = {"items": tmp_path / "in", "method": "cafo", "chunk": 4, "workers": 2, "engine": "ray"}
    whole = rows(ss.run(network(), out=tmp_path / "run", **asked))
    assert len(whole) == 16
    lost, torn, *_ = (tmp_path / "run/maps" / part for part in parts(tmp_path / "run"))
    lost.unlink()
    torn.write_bytes(b"torn")
    assert rows(ss.run(network(), out=tmp_path / "run", **asked)) == whole
    assert [file.name for file in record.iterdir()] == ["all.parquet"]
    assert not [one.message for one in recwarn if "checkpoint" in str(one.message)]


def test_why_checkpoints_of_ray_are_not_used(tmp_path: Path, record: Path) -> None:
    """A test of Ray alone. If it fails, Ray has changed: find out what it does now, and change docs/scaling.md."""
    done = tmp_path / "done"
    done.mkdir()
    pq.write_table(pa.table({"chunk": range(4)}), tmp_path / "list.parquet")

    def write(batch: dict[str, Any]) -> dict[str, Any]:
        (done / str(batch["chunk"][0])).write_text("whole")
        return batch

    def chunks() -> Any:
        return ray.data.read_parquet(str(tmp_path / "list.parquet")).map_batches(write, batch_size=1)

    # Checkpoints need a sink. Reading the rows one by one, as the engine does for its progress, switches them off.
    with pytest.warns(UserWarning, match="Checkpointing will be disabled"):
        assert len(list(chunks().iter_rows())) == 4
    assert not record.exists()
    # A chunk that is in the record is skipped, although its file is lost or damaged.
    chunks().write_parquet(str(tmp_path / "sink"))
    (done / "1").unlink()
    (done / "2").write_text("torn")
    chunks().write_parquet(str(tmp_path / "sink"))
    assert {file.name: file.read_text() for file in done.iterdir()} == {"0": "whole", "2": "torn", "3": "whole"}
    # If the record itself is damaged, every start fails.
    next(record.iterdir()).write_bytes(b"torn record")
    with pytest.raises(pa.ArrowInvalid):
        chunks().write_parquet(str(tmp_path / "sink"))


def test_what_ray_cannot_do_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 4)
    asked: dict[str, Any] = {"items": tmp_path / "in", "out": tmp_path / "run", "method": "cafo", "chunk": 1}
    with pytest.raises(ss.SecondsightError, match=r"Ray cannot be used at the address 127.0.0.1:1"):
        ss.run(network(), engine="ray", address="127.0.0.1:1", **asked)
    with pytest.raises(ss.InputError, match=r"workers must be at most .*, the cores of the cluster, not 1000"):
        ss.run(network(), engine="ray", workers=1000, **asked)
    with pytest.raises(ss.InputError, match="workers and address must be None for engine='local'"):
        ss.run(network(), workers=2, **asked)
    with pytest.raises(ss.SecondsightError, match="none of the first 10 items can be explained: target must be"):
        ss.run(network(), [tmp_path / "in/0000.png"] * 10, "cafo", "dog", out=tmp_path / "two", engine="ray")
    assert not ray.is_initialized()
