"""The command as people run it: what it prints and writes, and the one line with which it refuses."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from rich.console import Console

import secondsight as ss
from secondsight.cli import console, main, progress_bar
from secondsight.comparison import COLUMNS
from secondsight.model.images import FORMATS

COMMAND = Path(sys.executable).with_name("secondsight")
PNG = b"\x89PNG\r\n\x1a\n"
ALWAYS = {
    *("photograph", "figure", "model", "target", "label", "probability"),
    *("method", "options", "seed", "sparsity", "zero_pixels", "notes", "seconds"),
}
SPARSE = {
    *("lambda1", "lambda1_max", "lambda2", "groups", "gap", "relative_gap"),
    *("tolerance", "certified", "basis", "top_eigenvalue_bound"),
}
SECOND_ORDER = {
    *("products", "curvature", "top_eigenvalue"),
    *("second_order", "second_order_angle", "second_order_error"),
}
KEYS = {"gradient": ALWAYS, "cafo": ALWAYS | SPARSE, "caso": ALWAYS | SPARSE | SECOND_ORDER}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"} | {"OMP_NUM_THREADS": "1"}


def photograph(folder: Path, name: str, file: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / (file or f"{name}.png")
    Image.fromarray(getattr(skimage.data, name)()).save(path)
    return path


def run(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), *map(str, args)]
    environment = ENVIRONMENT | {"PYTHONWARNINGS": "default"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def started(folder: Path, *args: object, **environment: str) -> subprocess.Popen[str]:
    """Start the command, and let it have Ctrl-C: tests in the background are started with the signal ignored."""
    return subprocess.Popen(
        [str(COMMAND), *map(str, args)],
        cwd=folder,
        env=ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def strict(line: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    record: dict[str, Any] = json.loads(line, parse_constant=refuse)
    return record


# The installed command


def test_version(tmp_path: Path) -> None:
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"secondsight {ss.__version__}\n", "")


def test_explain_does_the_good_photographs_and_names_the_bad_one(tmp_path: Path) -> None:
    first = photograph(tmp_path / "a", "chelsea", "photo.png")
    second = photograph(tmp_path / "b", "coffee", "photo.jpg")
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    done = run(tmp_path, "explain", first, bad, second, "--format", "png,npz")
    assert done.returncode == 2
    assert (
        done.stderr == f"secondsight: error: {bad} is not an image of a format that is opened: {', '.join(FORMATS)}\n"
    )
    assert files(tmp_path / "out") == {"photo-caso.png", "photo-caso.npz", "photo-caso-2.png", "photo-caso-2.npz"}
    assert (tmp_path / "out/photo-caso.png").read_bytes().startswith(PNG)
    cat, cup = (ss.Explanation.load(tmp_path / "out" / f"photo-caso{n}.npz") for n in ("", "-2"))
    assert cup.label == "espresso"
    assert cat.second_order is not None
    lines = done.stdout.splitlines()
    header = next(line for line in lines if "photograph" in line)
    assert header.split("  ")[0].strip() == "photograph"
    assert [name for name in console.EXPLAIN_COLUMNS if name not in header] == []
    row = next(line for line in lines if str(first) in line)
    for cell in (
        cat.label,
        "caso",
        f"{cat.sparsity:.1%}",
        f"{cat.certificate.relative_gap:.1e}",
        "estimated",
        str(cat.products),
    ):
        assert cell in row
    assert f"  {cat.second_order.sentence}" in lines
    assert lines[-2:] == ["  figure: out/photo-caso-2.png", "  arrays: out/photo-caso-2.npz"]


@pytest.mark.parametrize("method", KEYS)
def test_json_is_one_strict_object_per_line(tmp_path: Path, method: str) -> None:
    photographs = [photograph(tmp_path, "astronaut"), photograph(tmp_path, "rocket")]
    done = run(tmp_path, "explain", *photographs, "--method", method, "--out", "maps/today", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    records = [strict(line) for line in done.stdout.splitlines()]
    assert [record["photograph"] for record in records] == [str(path) for path in photographs]
    for record in records:
        assert set(record) == KEYS[method]
        assert all(note.startswith("the network sees the middle") for note in record["notes"])
        assert not any(isinstance(value, (dict, list)) for key, value in record.items() if key != "notes")
        assert (tmp_path / record["figure"]).read_bytes().startswith(PNG)
    assert files(tmp_path / "maps") == {"today", f"today/astronaut-{method}.png", f"today/rocket-{method}.png"}


def test_demo_shows_a_picture_and_the_papers_map(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--out", "new/cat.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "new/cat.png").read_bytes().startswith(PNG)
    assert files(tmp_path) == {"new", "new/cat.png"}
    rows = [line for line in done.stdout.splitlines() if line.strip().startswith("chelsea.jpg  ")]
    methods = ("picture", "caso")
    assert all(row.split().count(method) == 1 for row, method in zip(rows, methods, strict=True))
    assert "without sparsity, CASO and CAFO point" in done.stdout
    assert done.stdout.splitlines()[-1] == "  figure: new/cat.png"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_with_one_line_and_whole_files(tmp_path: Path) -> None:
    # With Python's default filters: a file that the interrupt leaves to the collector would be a ResourceWarning.
    path = photograph(tmp_path, "coffee")
    with started(tmp_path, "explain", *[path] * 500, "--json", "--method", "cafo") as process:
        assert process.stdout is not None
        strict(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "secondsight: interrupted\n")
    written = list((tmp_path / "out").iterdir())
    assert 1 <= len(written) < 500
    assert all(file.suffix == ".png" and not file.name.startswith(".") for file in written)


# Refusals: exit code 2, one line, nothing written


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a good photograph, one that is none, and a file where a folder should be."""
    monkeypatch.chdir(tmp_path)
    photograph(tmp_path, "coffee", "good.png")
    (tmp_path / "bad.png").write_text("no picture")
    np.save(tmp_path / "float.npy", np.zeros(4))
    np.save(tmp_path / "small.npy", np.arange(4).reshape(2, 2))
    Path("taken").write_text("a file")
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    before = files(Path())
    assert main(args) == 2
    done = capsys.readouterr()
    assert done.out == ""
    assert files(Path()) == before
    assert done.err.startswith("secondsight: error: ")
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1
    return done.err.removeprefix("secondsight: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("", "PHOTO"),
        ("nowhere.png", "nowhere.png does not exist"),
        ("nowhere/*.png", "nowhere/*.png does not exist"),
        ("good.png --html --blur 2", "--show and --blur must be left out where no figure is drawn, not given"),
        ("good.png --format png,pdf", "--format must be some of png, html and npz, such as png,npz, not 'png,pdf'"),
        ("good.png --format ,", "--format must be"),
        ("bad.png", "bad.png is not an image"),
        ("good.png --colour red", "--colour"),
        ("good.png --method", "--method"),
        ("good.png --method casso", "did you mean caso?"),
        ("good.png --method nothing-like-it", "method must be one of gradient, smoothgrad"),
        ("good.png --groups pixels", "groups must be none, pixel, patch:SIDE"),
        ("good.png --groups patch:0", "groups must be"),
        ("good.png --groups nowhere.npy", "nowhere.npy cannot be read"),
        ("good.png --groups float.npy", "an array of float64"),
        (
            "good.png --groups small.npy",
            "good.png: groups must be of the input's shape (3, 224, 224), not of shape (2, 2)",
        ),
        (
            "good.png --groups pixel --method smoothgrad",
            "an option of cafo, caso, smooth-cafo, smooth-caso, picture, not of smoothgrad",
        ),
        (
            "good.png --sigma 0.1",
            "sigma must be an option of smoothgrad, smooth-cafo, smooth-caso, picture, not of caso",
        ),
        ("good.png --method smoothgrad --sigma -1", "sigma must be a finite number of at least 0"),
        ("good.png --method smooth-caso --n 0", "n must be a whole number of at least 1"),
        ("good.png --method smoothgrad --batch-size 0", "batch_size must be a whole number"),
        ("good.png --method gradient --score certainty", "score must be one of logit, loss, not 'certainty'"),
        ("good.png --method caso(c1=1", "method must be one of"),
        ("good.png --method caso(c1)", "method must be NAME(OPTION=VALUE,OPTION=VALUE)"),
        ("good.png --method caso(seed=1)", "options of caso must be some of lambda1, c1"),
        ("good.png --model vgg", "model must be one of efficientnet-lite0"),
        ("good.png --model resnet50-v1", "resnet50-v1@FILE.safetensors"),
        ("good.png --model resnet50-v1@bad.png", "bad.png is not a safetensors file"),
        ("good.png --target tigre_cat", "near: tiger cat"),
        ("good.png --target 1000", "from 0 to 999"),
        ("good.png --lambda1 foo", "or a share of lambda1_max such as \"10%\", not 'foo'"),
        ("good.png --lambda1 -1", "lambda1 must be"),
        ("good.png --lambda1 nan", "lambda1 must be"),
        ("good.png --c1 0", "c1 must be"),
        ("good.png --c1 ten", "c1 must be auto, a number above 0, or a number of times L such as \"0.25L\", not 'ten'"),
        ("good.png --lambda2 -3", "lambda2 must be"),
        ("good.png --curvature flat", "curvature must be one of auto, gauss-newton, exact, not 'flat'"),
        ("good.png --tolerance 0", "tolerance must be"),
        ("good.png --certify all", "certify must be one of chosen, path, not 'all'"),
        ("good.png --bound hoped", "bound must be one of auto, estimated, probable, proven, not 'hoped'"),
        ("good.png --max-products 0", "max_products must be"),
        ("good.png --max-products 1.5", "max_products must be a whole number of at least 1, not 1.5"),
        ("good.png --seed -1", "--seed"),
        ("good.png --seed 99999999999999999999", "--seed"),
        ("good.png --preset table-9", "preset must be one of none, table-1, table-2, table-3"),
        ("good.png --out taken", "--out must be a folder, not the file taken"),
        ("good.png --out taken/deep/er", "--out must be"),
        (f"good.png --out {'o' * 300}", "too long"),
    ],
)
def test_explain_refuses(here: Path, capsys: pytest.CaptureFixture[str], args: str, words: str) -> None:
    assert words in refusal(capsys, "explain", *args.split())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("demo --out demo.jpg", ".png"),
        ("demo --out taken/demo.png", "--out must be"),
        ("demo good.png", "good.png"),
        ("explian good.png", "explain"),
        ("compare", "PHOTO"),
        ("compare good.png --methods gradient,cafi", "did you mean cafo?"),
        ("compare good.png --models efficientnet-lite0,vgg", "model must be"),
        ("compare good.png --sigma -1", "sigma must be"),
        ("compare bad.png", "bad.png is not an image"),
        ("sweep good.png --groups none:2", "groups must be"),
        ("sweep bad.png", "bad.png is not an image"),
        ("sweep good.png --out taken", "--out must be a folder"),
        ("models --json", "--json"),
        ("--colour", "--colour"),
    ],
)
def test_other_commands_refuse(here: Path, capsys: pytest.CaptureFixture[str], args: str, words: str) -> None:
    assert words in refusal(capsys, *args.split())


def test_what_is_wrong_for_every_photograph_is_said_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "c1 must be" in refusal(capsys, "explain", "good.png", "good.png", "bad.png", "--c1", "-1")


def test_what_is_wrong_for_one_photograph_names_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "explain", "good.png", "--lambda2", "1e-9").startswith("good.png: lambda2 must be at least")


def test_a_name_cannot_break_the_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "explain", "two\nlines\x1b[2J\udcff.png").startswith(r"two\nlines\x1b[2J\udcff.png")


def test_unexpected_errors_keep_their_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ss, "explain", fail)
    with pytest.raises(ZeroDivisionError):
        main(["explain", "good.png"])


# What is printed and written, with a small network


class Small(torch.nn.Module):
    """Logits of the mean colour; `outputs` is applied to them."""

    def __init__(self, outputs: torch.nn.Module) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4, bias=False)
        torch.nn.init.orthogonal_(self.linear.weight, generator=torch.Generator().manual_seed(0))
        self.outputs = outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.outputs(self.linear(x.mean((-2, -1))))
        return logits


def use(monkeypatch: pytest.MonkeyPatch, outputs: torch.nn.Module) -> None:
    model = ss.Classifier(Small(outputs), size=8, labels=["red", "green", "blue", "grey"], name="small")
    monkeypatch.setattr(ss, "load_model", lambda _: model)


def test_a_warning_is_a_note_and_is_shown_once(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, torch.nn.Softmax(dim=1))
    assert main(["explain", "good.png"]) == 0
    done = capsys.readouterr()
    assert done.err == ""
    assert done.out.count("look like probabilities") == 1
    assert "  note: the network's outputs are non-negative" in done.out


def test_no_figure_replaces_another_one_or_a_photograph(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, torch.nn.Identity())
    photographs = [photograph(here, "coffee", f"{name}") for name in ("a.png", "a.jpg", "a-caso.png", "A.jpg")]
    before = photographs[2].read_bytes()
    assert main(["explain", *(path.name for path in photographs), "--out", ".", "--json"]) == 0
    figures = [strict(line)["figure"] for line in capsys.readouterr().out.splitlines()]
    assert figures == ["a-caso-2.png", "a-caso-3.png", "a-caso-caso.png", "A-caso-4.png"]
    assert photographs[2].read_bytes() == before


def test_nothing_is_written_over_unless_asked(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before any work: the first photograph, which is new, has no figure either."""
    use(monkeypatch, torch.nn.Identity())
    photograph(here, "coffee", "a.png")
    for command, file in (("explain", "good-caso.png"), ("compare", "good-compared.png"), ("sweep", "good-sweep.png")):
        assert main([command, "good.png"]) == 0
        mark = Path("out", file)
        mark.write_bytes(b"mine")
        capsys.readouterr()
        assert f"out/{file} exists: --overwrite" in refusal(capsys, command, "a.png", "good.png")
        assert mark.read_bytes() == b"mine"
        assert main([command, "good.png", "--overwrite"]) == 0
        assert mark.read_bytes().startswith(PNG)
    assert main(["explain", "good.png", "--method", "cafo"]) == 0
    assert files(Path("out")) == {f"good-{one}.png" for one in ("caso", "cafo", "compared", "sweep")}
    assert main(["compare", "good.png", "--sheet", "sheet.png"]) == 0
    capsys.readouterr()
    assert "sheet.png exists" in refusal(capsys, "compare", "good.png", "--sheet", "sheet.png")
    Path("out/good-caso.npz").write_bytes(b"mine")
    assert "good-caso.npz exists" in refusal(capsys, "explain", "good.png", "--format", "npz")


def test_folders_and_globs(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, torch.nn.Identity())
    for name in ("b.jpg", "a.png", "in/c.png", "[x].png"):
        (here / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        photograph(here, "coffee", f"photos/{name}")
    for name in ("notes.txt", "._b.jpg"):
        (here / "photos" / name).write_text("no picture")
    for words, found in {
        "photos": ["[x].png", "a.png", "b.jpg"],
        "photos/*.png": ["[x].png", "a.png"],
        "photos/**/*.png": ["[x].png", "a.png", "in/c.png"],
        "photos/[x].png": ["[x].png"],
        "photos/[ab].*": ["a.png", "b.jpg"],
    }.items():
        assert main(["explain", words, "--method", "cafo", "--json", "--no-figure"]) == 0
        records = [strict(line) for line in capsys.readouterr().out.splitlines()]
        assert [record["photograph"] for record in records] == [f"photos/{name}" for name in found]
        assert {record["figure"] for record in records} == {None}


def test_options_reach_the_map(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, torch.nn.Tanh())
    asked = {
        "target": "Grey",
        "lambda1": 0.0,
        "c1": 3.0,
        "lambda2": 7.0,
        "curvature": "exact",
        "tolerance": 1e-3,
        "certify": "path",
        "bound": "estimated",
        "max_products": 40,
        "seed": 5,
    }
    options = [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["explain", "good.png", "--method", "caso", *options, "--format", "npz"]) == 0
    assert files(Path("out")) == {"good-caso.npz"}
    e = ss.Explanation.load("out/good-caso.npz")
    assert isinstance(e, ss.SecondOrderExplanation)
    assert (asked.pop("target"), asked.pop("seed")) == ("Grey", e.seed)
    assert e.method == ss.CASO(**asked)
    assert (e.label, e.lambda2, e.curvature) == ("grey", 7.0, "exact")


def test_several_photographs_are_explained_in_one_call(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their records share the time of the call. One that the network cannot take fails alone."""

    class Fragile(Small):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            brightness = x.amax((1, 2, 3))[:, None]
            return super().forward(x) * (brightness / brightness)

    model = ss.Classifier(Fragile(torch.nn.Identity()), size=8, name="fragile")
    monkeypatch.setattr(ss, "load_model", lambda _: model)
    Image.new("RGB", (8, 8)).save("black.png")
    names = [photograph(here, name).name for name in ("coffee", "chelsea", "rocket")]
    alone = []
    for name in names:
        assert main(["explain", name, "--json", "--no-figure"]) == 0
        alone.append(strict(capsys.readouterr().out))
    assert main(["explain", *names, "--json", "--no-figure"]) == 0
    together = [strict(line) for line in capsys.readouterr().out.splitlines()]
    assert len({record["seconds"] for record in together}) == 1
    for one, record in zip(alone, together, strict=True):
        assert record["lambda1"] == pytest.approx(one["lambda1"])
        assert record["sparsity"] == one["sparsity"]
    assert main(["explain", names[0], "black.png", *names[1:], "--json", "--no-figure"]) == 2
    assert not Path("out").exists()
    done = capsys.readouterr()
    assert [strict(line)["photograph"] for line in done.out.splitlines()] == names
    assert done.err == "secondsight: error: black.png: the network returned NaN or infinite logits for this input\n"


def test_a_preset_gives_what_the_user_does_not(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, torch.nn.Tanh())
    asked = ["explain", "good.png", "--method", "smooth-caso", "--preset", "table-3", "--format", "npz"]
    assert main(asked) == 0
    method = ss.Explanation.load("out/good-smooth-caso.npz").method
    assert method == ss.SmoothCASO(n=32, sigma=0.15, c1=10.0, lambda1=ss.PRESETS["table-3"]["lambda1"])
    assert main([*asked, "--n", "50", "--lambda1", "auto", "--overwrite"]) == 0
    assert ss.Explanation.load("out/good-smooth-caso.npz").method == ss.SmoothCASO(n=50, sigma=0.15, c1=10.0)
    assert main([*asked[:3], "caso(c1=2)", *asked[4:]]) == 0
    assert ss.Explanation.load("out/good-caso.npz").method == ss.CASO(c1=2.0, lambda1=ss.PRESETS["table-3"]["lambda1"])
    assert main(["compare", "good.png", "--methods", "smoothgrad", "--preset", "table-3", "--json"]) == 0


def test_options_reach_smooth_maps_and_rivals(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, torch.nn.Tanh())
    np.save("halves.npy", np.repeat([0, 1], 32).reshape(8, 8))
    smooth = "--method smooth-caso --n 3 --sigma 0.3 --batch-size 2 --groups halves.npy --format png,npz"
    assert main(["explain", "good.png", *smooth.split()]) == 0
    e = ss.Explanation.load("out/good-smooth-caso.npz")
    assert isinstance(e, ss.SecondOrderExplanation)
    halves = np.load("halves.npy").tolist()
    assert e.method == ss.SmoothCASO(n=3, sigma=0.3, batch_size=2, groups=halves, c1=10.0)
    assert e.groups is not None
    assert int(e.groups.max()) == 1
    for words, times_input in (("--times-input", True), ("--no-times-input", False), ("", True)):
        rival = f"--method integrated-gradients --score loss {words} --format png,npz --overwrite"
        assert main(["explain", "good.png", *rival.split()]) == 0
        e = ss.Explanation.load("out/good-integrated-gradients.npz")
        assert e.method == ss.IntegratedGradients(score="loss", times_input=times_input)
        assert type(e) is ss.Explanation
    assert " - " in capsys.readouterr().out


def test_compare_writes_a_grid_and_a_table(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, torch.nn.Tanh())
    assert main(["compare", "good.png", "bad.png", "good.png", "--n", "3", "--models", "a,b", "--times-input"]) == 2
    done = capsys.readouterr()
    assert done.err == f"secondsight: error: bad.png is not an image of a format that is opened: {', '.join(FORMATS)}\n"
    assert files(Path("out")) == {"good-compared.png", "good-compared-2.png"}
    rows = [line for line in done.out.splitlines() if "small" in line]
    assert [row.split()[3] for row in rows] == list(COLUMNS) * 4
    assert done.out.splitlines()[-1] == "  figure: out/good-compared-2.png"
    assert main(["compare", "good.png", "--methods", "caso,clipped-gradient", "--json", "--out", "json"]) == 0
    records = [strict(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["method"] for record in records] == ["caso", "clipped-gradient"]
    assert records[0]["sparsity"] == pytest.approx(records[1]["sparsity"])
    assert all(record["gradient_equivalents"] > 0 for record in records)


def test_sweep_writes_a_figure(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, torch.nn.Tanh())
    assert main(["sweep", "good.png", "--json"]) == 0
    records = [strict(line) for line in capsys.readouterr().out.splitlines()]
    assert [(record["method"], record["values"]) for record in records] == [
        ("cafo", "paper"),
        ("caso", "paper"),
        ("cafo", "path"),
        ("caso", "path"),
    ]
    assert [len(record["path"]) for record in records] == [8, 8, 16, 16]
    assert records[0]["lambda2"] == records[1]["lambda2"]
    assert files(Path("out")) == {"good-sweep.png"}
    assert main(["sweep", "good.png", "--overwrite"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  figure: out/good-sweep.png"


def test_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_json({"a": float("inf"), "b": float("nan"), "c": 1.5, "d": "x\udcff", "e": False})
    assert strict(capsys.readouterr().out) == {"a": None, "b": None, "c": 1.5, "d": "x\udcff", "e": False}


def test_help_and_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    alone = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.split() == alone.split()
    assert all(
        command in alone for command in ("explain", "compare", "sweep", "demo", "models", "Example: secondsight")
    )
    assert main(["models"]) == 0
    listed = capsys.readouterr().out
    assert "efficientnet-lite0 (default)" in listed
    assert "resnet50-v1@FILE.safetensors" in listed


def test_models_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--check", "efficientnet-lite0"]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["products"] == "on a tape: a product runs no network"
    assert lines["Hessian"] == "Gauss-Newton"
    assert "certified (estimated)" in lines["one map"]
    assert main(["models", "--check", "nothing"]) == 2


def test_a_narrow_terminal_gets_every_cell_whole() -> None:
    record = {
        "photograph": "a photograph with a long name.png",
        "label": "Egyptian cat",
        "probability": 0.123456,
        "method": "caso",
        "lambda1": 0.0663,
        "lambda2": 28.66,
        "sparsity": 0.968,
        "relative_gap": None,
        "certified": False,
        "products": 100,
        "seconds": 12.34,
    }
    for width in (60, 200):
        shown = io.StringIO()
        narrow = Console(file=shown, width=width)
        narrow.print(console.table([record, record], console.EXPLAIN_COLUMNS, narrow))
        for cell in (
            *console.EXPLAIN_COLUMNS,
            "a photograph with a long name.png",
            "Egyptian cat",
            "0.123",
            "none",
            "no",
            "12.3",
        ):
            assert shown.getvalue().count(cell) >= 1


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, patience: float) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress_bar, "PATIENCE", patience)
    with progress_bar.ProgressBar(3) as bar:
        bar.start_photograph(1, "cat.jpg")
        bar.show_products(17)
        end = time.monotonic() + (10 if patience < 1 and terminal.isatty() else 0.3)
        while "17 H-products" not in terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.02)
    return terminal.getvalue()


def test_progress_shows_on_a_terminal_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = watched(monkeypatch, Terminal(), patience=0.05)
    assert "cat.jpg (2 of 3)" in shown
    assert "17 H-products" in shown
    assert shown.endswith("\x1b[1A\x1b[2K")
    assert capsys.readouterr().out == ""


def test_no_progress_in_short_work_or_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, Terminal(), patience=60.0) == ""
    assert watched(monkeypatch, io.StringIO(), patience=0.05) == ""


def test_pages_instead_of_figures(tmp_path: Path) -> None:
    for name in ("chelsea", "rocket"):
        photograph(tmp_path, name)
    done = run(tmp_path, "explain", "chelsea.png", "rocket.png", "--html", "--method", "cafo", "--json")
    assert done.returncode == 0, done.stderr
    records = [strict(line) for line in done.stdout.splitlines()]
    assert [(record["page"], record["figure"]) for record in records] == [
        (f"out/{name}-cafo.html", None) for name in ("chelsea", "rocket")
    ]
    assert files(tmp_path / "out") == {"chelsea-cafo.html", "rocket-cafo.html"}
    page = (tmp_path / "out" / "chelsea-cafo.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "chelsea.png" in page
    done = run(tmp_path, "explain", "chelsea.png", "--html", "--method", "cafo", "--format", "npz", "--out", "both")
    assert files(tmp_path / "both") == {"chelsea-cafo.html", "chelsea-cafo.npz"}
    assert "page: both/chelsea-cafo.html" in done.stdout
    done = run(tmp_path, "compare", "chelsea.png", "--html", "--methods", "cafo,gradient", "--out", "side")
    assert files(tmp_path / "side") == {"chelsea-compared.html"}
    assert run(tmp_path, "compare", "chelsea.png", "--html", "--sheet", "x.png").returncode == 2
