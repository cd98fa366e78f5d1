"""What happens to runs: killed, a full disk, torn files, two processes, memory that runs out, very many items."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import skimage.data
import torch
from PIL import Image

import run_program
import secondsight as ss
from secondsight.fault_tolerance import FaultTolerant
from test_runs import network, picture, pictures, rows

PROGRAM = [sys.executable, str(Path(__file__).with_name("run_program.py"))]
SLOW = 0.02
"""Seconds that the network of a run that is to be killed sleeps in each pass."""


def start(folder: Path, out: Path, chunk: int = 4, seconds: float = 0.0, most: int = 0) -> subprocess.Popen[str]:
    words = [*PROGRAM, str(folder), str(out), str(chunk), str(seconds), str(most)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out + err


def parts(out: Path) -> list[str]:
    return sorted(file.name for file in (out / "maps").glob("part-*.parquet")) if (out / "maps").exists() else []


def wait_for(count: int, out: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run has so many files, or has ended."""
    while len(parts(out)) < count and process.poll() is None:
        time.sleep(0.005)


def kill_and_resume(folder: Path, out: Path, kills: int, uninterrupted: list[dict[str, Any]], seed: int) -> None:
    """Kill a run at random moments, then let it finish: every item is there once, as if nothing had happened."""
    moments = random.Random(seed)
    done = 0
    for _ in range(kills):
        process = start(folder, out, seconds=SLOW)
        wait_for(done + 1, out, process)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        assert process.returncode == -9, "the run was over before it was killed"
        now = parts(out)
        assert len(now) > done
        # What is there can be used while the rest is missing.
        half = ss.open_run(out)
        assert len(half) + len(half.errors) == 4 * len(now)
        assert not half.is_complete
        done = len(now)
    # What a write has left that was cut short.
    (out / "maps" / ".0123456789ab").write_bytes(b"half a file")
    maps = sum(row["error"] is None for row in uninterrupted)
    assert finished(start(folder, out)) == (0, f"{maps}\n")
    assert sorted(file.name for file in (out / "maps").iterdir()) == parts(out)
    assert rows(ss.open_run(out)) == uninterrupted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pictures(tmp_path / "in", 60)
    return tmp_path / "in"


def uninterrupted(folder: Path, out: Path) -> list[dict[str, Any]]:
    """In a process of its own, too, because it has as many threads as those that are killed."""
    code, said = finished(start(folder, out))
    assert (code, said.strip().isdigit()) == (0, True), said
    return rows(ss.open_run(out))


def test_a_killed_run_goes_on_and_equals_one_that_was_not(tmp_path: Path, folder: Path) -> None:
    kill_and_resume(folder, tmp_path / "run", 2, uninterrupted(folder, tmp_path / "whole"), seed=0)


@pytest.mark.slow
def test_a_run_that_is_killed_ten_times(tmp_path: Path) -> None:
    """At random moments, with an item among the others that cannot be read."""
    pictures(tmp_path / "in", 200)
    (tmp_path / "in/0007.png").write_bytes(b"no picture")
    right = uninterrupted(tmp_path / "in", tmp_path / "whole")
    assert [row["position"] for row in right if row["error"] is not None] == [7]
    kill_and_resume(tmp_path / "in", tmp_path / "run", 10, right, seed=1)


def test_two_processes_on_one_run(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "run"
    first = start(folder, out, seconds=SLOW)
    wait_for(1, out, first)
    with pytest.raises(
        ss.SecondsightError, match=r"another process works on .*run: wait for it, or choose another --out"
    ):
        ss.run(run_program.network(), folder, "caso", out=out, chunk=4)
    assert finished(first) == (0, "60\n")
    # It is free again, and nothing is left to do.
    written = (out / "maps/part-000000.parquet").stat().st_mtime_ns
    assert len(ss.run(run_program.network(), folder, "caso", out=out, chunk=4)) == 60
    assert (out / "maps/part-000000.parquet").stat().st_mtime_ns == written


def test_a_full_disk_is_an_error_that_a_run_survives(tmp_path: Path, folder: Path) -> None:
    """The limit of the size of a file stands for a full disk: run.json fits below it, four maps do not."""
    out = tmp_path / "run"
    code, said = finished(start(folder, out, most=3000))
    assert code == 1
    assert said.startswith(f"refused: {out}/maps/part-000000.parquet cannot be written: "), said
    assert "\n" not in said.strip()
    assert list((out / "maps").iterdir()) == []
    assert finished(start(folder, out)) == (0, "60\n")
    assert rows(ss.open_run(out)) == uninterrupted(folder, tmp_path / "whole")


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def of_another_run(file: Path) -> None:
    shutil.copy(file.with_name("part-000014.parquet"), file)


@pytest.mark.parametrize("damage", [torn, emptied, of_another_run, Path.unlink])
def test_a_damaged_file_is_done_again(tmp_path: Path, folder: Path, damage: Any) -> None:
    pictures(folder, 58)
    for name in ("0058.png", "0059.png"):
        (folder / name).unlink()
    right = uninterrupted(folder, tmp_path / "run")
    damage(tmp_path / "run/maps/part-000003.parquet")
    assert len(ss.open_run(tmp_path / "run")) == 54
    assert uninterrupted(folder, tmp_path / "run") == right


def test_a_file_that_is_damaged_inside_is_told(tmp_path: Path, folder: Path) -> None:
    uninterrupted(folder, tmp_path / "run")
    file = tmp_path / "run/maps/part-000003.parquet"
    data, group = bytearray(file.read_bytes()), pq.read_metadata(file).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    values = columns["map_values.list.element"]
    data[values.data_page_offset + values.total_compressed_size - 3] ^= 255
    file.write_bytes(bytes(data))
    with pytest.raises(
        ss.SecondsightError, match=r"part-000003.parquet cannot be read .*: delete it, and start the run"
    ):
        _ = ss.open_run(tmp_path / "run")[12:16]


def test_corrupt_pictures_cost_only_themselves(tmp_path: Path) -> None:
    """Errors are rows. Tried again, they are maps, and the maps beside them are those of a run without errors."""
    files = pictures(tmp_path / "in", 10)
    right = rows(ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "whole", chunk=4))
    good = files[3].read_bytes()
    files[3].write_bytes(good[:60])
    files[8].write_bytes(b"")
    run = ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "run", chunk=4)
    found = rows(run)
    assert [row["position"] for row in found if row["error"]] == [3, 8]
    assert [row for i, row in enumerate(found) if i not in (3, 8)] == [
        row for i, row in enumerate(right) if i not in (3, 8)
    ]
    picture(files[3], 3)
    picture(files[8], 8)
    written = (tmp_path / "run/maps/part-000001.parquet").stat().st_mtime_ns
    assert len(ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "run", chunk=4)) == 8
    assert rows(ss.run(network(), tmp_path / "in", "cafo", out=tmp_path / "run", chunk=4, retry_errors=True)) == right
    assert (tmp_path / "run/maps/part-000001.parquet").stat().st_mtime_ns == written


class Fragile(torch.nn.Module):
    """Cannot take inputs whose first number is in a list, each for a reason of its own."""

    def __init__(self, reasons: dict[int, Exception]) -> None:
        super().__init__()
        self.linear, self.reasons = torch.nn.Linear(4, 3).double(), reasons

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in x[:, 0].detach().tolist():
            if number in self.reasons:
                raise self.reasons[number]
        return self.linear(x)


def numbered(count: int) -> list[torch.Tensor]:
    return [torch.tensor([float(i), 1.0, 2.0, 3.0], dtype=torch.float64) for i in range(count)]


def test_inputs_that_the_network_cannot_take(tmp_path: Path) -> None:
    reasons: dict[int, Exception] = {9: RuntimeError("the layer is\nupset"), 12: ZeroDivisionError("division")}
    model = ss.Classifier(Fragile(reasons), input_shape=(4,))
    run = ss.run(model, numbered(20), "caso", out=tmp_path / "run", chunk=16)
    errors = run.errors.to_pylist()
    assert [(one["position"], one["error"]) for one in errors] == [
        (9, "RuntimeError: the layer is upset"),
        (12, "ZeroDivisionError: division"),
    ]
    assert len(run) == 18
    # An input that fails alone does not make the network fall back to slower ways for the others.
    assert model.facts.recordable
    # Where nothing can be explained, it is no matter of single items.
    with pytest.raises(ss.SecondsightError, match="none of the first 16 items can be explained: target must be"):
        ss.run(model, numbered(20), "caso", "cat", out=tmp_path / "two")
    assert parts(tmp_path / "two") == []
    # Nothing was done, so that the folder takes the right target, too.
    assert len(ss.run(model, numbered(20), "caso", 1, out=tmp_path / "two")) == 18
    with pytest.raises(ss.SecondsightError, match=r"none of the first 9 items .*: nowhere/0.png does not"):
        ss.run(network(), [f"nowhere/{i}.png" for i in range(9)], "cafo", out=tmp_path / "four")
    # A device that is broken fails for all that comes after.
    reasons[18] = RuntimeError("CUDA error: device-side assert triggered")
    with pytest.raises(RuntimeError, match="device-side assert"):
        ss.run(model, numbered(20), "cafo", out=tmp_path / "three", chunk=4)
    assert len(parts(tmp_path / "three")) == 4
    del reasons[18]
    assert len(ss.run(model, numbered(20), "cafo", out=tmp_path / "three", chunk=4)) == 18


class Moody(torch.nn.Module):
    """At black pictures it does what the tape has no rule for."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network().net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        # numpy looks, because the tape would see torch look.
        black = (x.detach().numpy().max((1, 2, 3)) == 0).any()
        return y + y.abs() if black else y


def test_what_one_chunk_shows_of_the_network_does_not_change_the_next(tmp_path: Path) -> None:
    """Else a run that goes on in another process would differentiate it in another way than one that was not killed."""
    x = [torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(i)) for i in range(8)]
    x[:4] = [torch.zeros(3, 8, 8)] * 4
    model = ss.Classifier(Moody(), size=8)
    whole = rows(ss.run(model, x, "caso", out=tmp_path / "run", chunk=4))
    assert "abs.default" in str(whole[0]["notes"])
    assert "abs.default" not in str(whole[4]["notes"])
    (tmp_path / "run/maps/part-000001.parquet").unlink()
    model = ss.Classifier(Moody(), size=8)
    assert rows(ss.run(model, x, "caso", out=tmp_path / "run", chunk=4)) == whole


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_batches_are_halved_where_memory_runs_out(error: Exception) -> None:
    calls: list[int] = []

    def explain(inputs: Any) -> list[int]:
        calls.append(len(inputs))
        if len(inputs) > 3 or 7 in inputs:
            raise error
        return [10 * one for one in inputs]

    some: FaultTolerant[int] = FaultTolerant(explain, 16)
    found = some.explain_each(range(20))
    assert calls[:3] == [16, 8, 4]
    assert max(calls[3:]) <= 2
    assert [one for one in found if isinstance(one, int)] == [10 * i for i in range(20) if i != 7]
    assert str(found[7]).startswith("memory ran out: ")
    assert some.size == 1


class Hungry(torch.nn.Module):
    """Keeps memory for each input that is being explained at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.linear, self.most = torch.nn.Linear(4, 3).double(), most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > self.most:
            torch.empty(2**60, dtype=torch.uint8)
        return self.linear(x)


def test_a_run_says_where_memory_ran_out(tmp_path: Path) -> None:
    """The error is torch's own, of an allocation that no machine can serve."""
    x = [torch.rand(4, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(32)]
    torch.manual_seed(0)
    right = ss.run(ss.Classifier(Hungry(100), input_shape=(4,)), x, "caso", out=tmp_path / "whole")
    torch.manual_seed(0)
    model = ss.Classifier(Hungry(2), input_shape=(4,))
    with pytest.warns(
        ss.SecondsightWarning, match="memory ran out: some maps were explained 2 at a time instead of 16"
    ):
        run = ss.run(model, x, "caso", out=tmp_path / "run")
    assert len(run) == 32
    assert run.sessions[0]["batch"] == 2
    for e, one in zip(run, right, strict=True):
        assert e.certificate.holds
        assert "explained 2 at a time instead of 16: memory ran out" in e.notes
        torch.testing.assert_close(e.delta, one.delta, rtol=1e-3, atol=1e-6)


def test_versions_and_threads_that_changed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbered(8)
    model = ss.Classifier(torch.nn.Linear(4, 3).double(), input_shape=(4,))
    with pytest.raises(KeyboardInterrupt):
        ss.run(model, x, "cafo", out=tmp_path / "run", chunk=4, progress=interrupting(4))
    assert len(ss.open_run(tmp_path / "run")) == 4
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.warns(
            ss.SecondsightWarning, match=f"threads was {threads}, is {threads + 1}.* not to the last bit"
        ):
            run = ss.run(model, x, "cafo", out=tmp_path / "run", chunk=4)
    finally:
        torch.set_num_threads(threads)
    assert [session["threads"] for session in run.sessions] == [threads, threads + 1]
    assert (run.sessions[0]["done"], run.sessions[1]["done"]) == (8, 4)


def interrupting(after: int) -> Any:
    def report(standing: ss.Standing) -> None:
        if standing.done > after:
            raise KeyboardInterrupt

    return report


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_five_thousand_pictures_in_flat_memory(tmp_path: Path) -> None:
    pictures(tmp_path / "in", 5000)
    sizes: list[int] = []
    run = ss.run(
        run_program.network(),
        tmp_path / "in",
        "cafo",
        out=tmp_path / "run",
        progress=lambda _: sizes.append(resident()),
    )
    assert len(run) == 5000
    assert max(sizes[-20:]) - sizes[len(sizes) // 5] < 20 * 2**20
    before = resident()
    assert sum(e.sparsity > 0 for e in run) > 4000
    assert resident() - before < 50 * 2**20


def test_a_start_takes_time_in_proportion(tmp_path: Path) -> None:
    """Ten times as many items take some ten times as long to list, hash and look for, not a hundred times."""

    def seconds(count: int) -> float:
        names = [f"photograph number {i}.jpg" for i in range(count)] * 2
        (tmp_path / "list.txt").write_text("\n".join(names))
        # Time of this process, because others on the machine take theirs in between.
        began = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            ss.run(
                run_program.network(),
                tmp_path / "list.txt",
                "cafo",
                out=tmp_path / f"run{count}",
                progress=interrupting(-1),
            )
        return time.process_time() - began

    seconds(100)
    few, many = (min(seconds(count + i) for i in range(3)) for count in (2_000, 20_000))
    assert many < 40 * few


def test_the_command_is_killed_on_photographs_and_goes_on(tmp_path: Path) -> None:
    """EfficientNet-Lite0 on real photographs, whose maps on two threads are solved side by side."""
    names = ("chelsea", "coffee", "rocket", "astronaut")
    for i, name in enumerate(names * 2):
        (tmp_path / "in").mkdir(exist_ok=True)
        Image.fromarray(getattr(skimage.data, name)()[i:]).save(tmp_path / f"in/{i}.jpg")
    command = [
        str(Path(sys.executable).with_name("secondsight")),
        "batch",
        str(tmp_path / "in"),
        "--chunk",
        "3",
        "--out",
    ]
    whole = subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, text=True, check=True)
    assert whole.stdout == f"{tmp_path / 'whole'}: maps 8, errors 0\n"
    killed = subprocess.Popen([*command, str(tmp_path / "run")], stderr=subprocess.DEVNULL)
    wait_for(1, tmp_path / "run", killed)
    killed.kill()
    assert killed.wait() == -9
    again = subprocess.run([*command, str(tmp_path / "run")], capture_output=True, text=True, check=True)
    assert "secondsight: note: 3 of 8 items done by earlier starts" in again.stderr
    assert rows(ss.open_run(tmp_path / "run")) == rows(ss.open_run(tmp_path / "whole"))
