"""Runs on Ray: the same rows as the local engine, on one node and on two, one of which is killed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import secondsight as ss
from test_run_faults import parts
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


def test_what_ray_cannot_do_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 4)
    asked: dict[str, Any] = {"items": tmp_path / "in", "out": tmp_path / "run", "method": "cafo", "chunk": 1}
    with pytest.raises(ss.SecondsightError, match=r"--address 127.0.0.1:1: Ray cannot be used"):
        ss.run(network(), engine="ray", address="127.0.0.1:1", **asked)
    with pytest.raises(ss.InputError, match=r"workers must be at most .*, the cores of the cluster, not 1000"):
        ss.run(network(), engine="ray", workers=1000, **asked)
    with pytest.raises(ss.InputError, match="workers and address must be None for engine='local'"):
        ss.run(network(), workers=2, **asked)
    with pytest.raises(ss.SecondsightError, match="none of the first 10 items can be explained: target must be"):
        ss.run(network(), [tmp_path / "in/0000.png"] * 10, "cafo", "dog", out=tmp_path / "two", engine="ray")
    assert not ray.is_initialized()
