"""The paper's results: the numbers behind them, and the files they write."""

from __future__ import annotations

import copy
import html
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import scipy.stats
import skimage.data
import torch
from PIL import Image

import secondsight as ss
from secondsight.cli import main
from secondsight.paper import ON_PHOTOGRAPHS, SIMULATED
from secondsight.paper.hessian_cost import hessian_cost
from secondsight.paper.hessian_examples import hessian_examples
from secondsight.paper.hessian_impact import distance, measure, rank_correlation
from secondsight.paper.hessian_survival import hessian_survival
from secondsight.paper.lambda1_sweep import lambda1_sweep, lonely_share
from secondsight.paper.method_comparison import comparison, object_mask
from secondsight.paper.non_relu import non_relu
from secondsight.paper.rank_one import error
from secondsight.paper.relaxation import best_in_ball, best_of_size, penalised_with
from secondsight.paper.run import Run
from secondsight.paper.softened import softened
from secondsight.paper.theorems import theorems
from secondsight.results.first_order import first_order_map
from shims import import_torchvision


def test_the_error_of_the_rank_one_hessian_is_that_of_the_matrices() -> None:
    """Against the d x d matrices themselves."""
    generator = torch.Generator().manual_seed(0)
    for c, eps in ((3, 0.1), (10, 1e-3), (20, 1e-6)):
        w = torch.randn(40, c, generator=generator, dtype=torch.float64)
        p = torch.full((c,), eps, dtype=torch.float64)
        p[0] = 1 - (c - 1) * eps
        y = torch.eye(c, dtype=torch.float64)[0]
        h = w @ (torch.diag(p) - torch.outer(p, p)) @ w.T
        g = w @ (p - y)
        expected = float((h - torch.outer(g, g) / (eps * (c - 1))).norm() / h.norm())
        assert error(w.T @ w, eps) == pytest.approx(expected, rel=1e-6)


def test_the_counterexample_to_the_relaxation() -> None:
    """A = I, y = (2, 1), k = 1: lambda2 = 1, H = 0, g = 2 y."""
    none, g = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([4.0, 2.0], dtype=torch.float64)
    assert best_of_size(none, g, 1).tolist() == [2.0, 0.0]
    assert best_in_ball(none, g, 2.0).tolist() == pytest.approx([1.5, 0.5])
    assert (penalised_with(none, g, 1) != 0).tolist() == [True, False]


def test_brute_force_beats_every_other_support() -> None:
    generator = torch.Generator().manual_seed(1)
    factor = torch.randn(3, 6, generator=generator, dtype=torch.float64) / 4
    g = torch.randn(6, generator=generator, dtype=torch.float64)
    best = best_of_size(factor, g, 2)

    def value(delta: torch.Tensor) -> float:
        return float(g @ delta + (factor @ delta).square().sum() / 2 - delta @ delta)

    assert int((best != 0).sum()) == 2
    for _ in range(300):
        other = torch.zeros(6, dtype=torch.float64)
        other[torch.randperm(6, generator=generator)[:2]] = torch.randn(2, generator=generator, dtype=torch.float64)
        assert value(other) <= value(best) + 1e-12


def test_what_the_theorems_come_to() -> None:
    checks = theorems(quick=True).numbers["checks"]
    assert [check["statement"] for check in checks if not check["holds"]] == [
        "theorem 5's own m = |g|^2 / (eps (c - 1)) at p = 0.7"
    ]
    assert len(checks) == 11


@pytest.mark.parametrize("name", SIMULATED)
def test_every_result_by_its_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", name, "--quick", "--out", "new/paper"]) == 0
    said = capsys.readouterr().out
    assert "claim: " in said
    assert "verdict: " in said
    record = json.loads((tmp_path / f"new/paper/{name}.json").read_text())
    assert (tmp_path / f"new/paper/{name}.png").stat().st_size > 10_000
    assert record["name"] == name
    assert record["verdict"] in ("holds", "holds in part", "does not hold")
    assert record["measured"] in said
    first = (tmp_path / f"new/paper/{name}.json").read_bytes()
    assert main(["paper", name, "--quick", "--out", "new/paper"]) == 0
    assert (tmp_path / f"new/paper/{name}.json").read_bytes() == first
    assert all(math.isfinite(number) for number in numbers(record["numbers"]))


def numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [float(value)] if isinstance(value, (int, float)) else []


def test_hessian_impact_is_measured_once_for_each_photograph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On real pictures; a run that was cut short goes on, and one with other settings begins anew."""
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    for name in ("chelsea", "coffee", "astronaut", "rocket"):
        Image.fromarray(getattr(skimage.data, name)()).save(f"images/{name}.png")
    Path("images/notes.txt").write_text("no picture")
    asked = ["paper", "hessian-impact", "--images", "images", "--out", "out"]
    assert main([*asked, "--count", "3"]) == 0
    said = capsys.readouterr()
    assert "efficientnet-lite0, 3 photographs" in said.out
    assert said.err == ""
    ledger = Path("out/efficientnet-lite0/hessian-impact.jsonl")
    lines = ledger.read_text().splitlines()
    assert len(lines) == 4
    # Cut in the middle of the last line, and one record marked.
    marked = json.loads(lines[1])
    assert marked["photograph"] == "astronaut.png"
    ledger.write_text("\n".join([lines[0], json.dumps(marked | {"L": 123.0}), lines[2], lines[3][:20]]))
    assert main([*asked, "--count", "9"]) == 0
    said = capsys.readouterr()
    assert (
        said.err == "secondsight: note: --images images has 4 images, fewer than the 9 asked for: they are all used\n"
    )
    record = json.loads(Path("out/efficientnet-lite0/hessian-impact.json").read_text())
    found = record["numbers"]["photographs"]
    assert [r["photograph"] for r in found] == ["astronaut.png", "chelsea.png", "coffee.png", "rocket.png"]
    assert found[0]["L"] == 123.0
    assert len(ledger.read_text().splitlines()) == 5
    model = ss.load_model()
    for r in found[1:]:
        e = ss.explain(model, f"images/{r['photograph']}", ss.CASO(lambda1=0.0))
        assert r["probability"] == pytest.approx(e.probability, rel=1e-6)
        allowed = e.second_order.error + r["angle_error"]["10.0"] + 0.5
        assert abs(r["angle"]["10.0"] - e.second_order.angle) <= allowed
        assert 0 < r["explained"] <= 1
        # The rank-one part leaves the direction alone.
        sine = math.sin(math.radians(max(0.0, r["angle"]["10.0"] - r["angle_error"]["10.0"])))
        assert sine <= r["rest"] / (r["L"] + 20) * 1.05
    assert main([*asked, "--seed", "5", "--count", "1"]) == 0
    assert len(ledger.read_text().splitlines()) == 2


def test_input_multiplication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a shift of the input that the network takes back changes nothing; with it, completeness holds."""
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    for name in ("chelsea", "coffee"):
        Image.fromarray(getattr(skimage.data, name)()).save(f"images/{name}.png")
    assert main(["paper", "input-multiplication", "--images", "images", "--out", "out"]) == 0
    record = json.loads(Path("out/efficientnet-lite0/input-multiplication.json").read_text())
    for found in record["numbers"]["photographs"]:
        for method in ("gradient", "integrated-gradients", "cafo", "caso"):
            assert found["shift"][method] < 1e-2
            assert found["shift_times"][method] > 0.05
            assert found["brightness_times"][method] > found["brightness"][method]
        assert found["incomplete_times"] < 0.2 < found["incomplete"]
    with Image.open("out/efficientnet-lite0/input-multiplication.png") as figure:
        assert figure.width > 1000


def small(folder: Path) -> tuple[ss.Classifier, list[Path]]:
    """A network with the confidence of a picture in its contrast, and pictures of rising contrast."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(600, 30))
    for i, parameter in enumerate(net.parameters()):
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i))
        parameter.data.copy_(noise * 0.3 if parameter.ndim > 1 else noise * 0)
    folder.mkdir()
    files = []
    for i in range(6):
        noise = np.random.default_rng(i).random((12, 12, 3))
        files.append(folder / f"{i}.png")
        Image.fromarray(np.uint8(255 * (i + 1) / 6 * noise)).save(files[-1])
    return ss.Classifier(net, size=12, name="small"), files


def test_the_cost_of_the_hessian_and_its_eigenvalues(tmp_path: Path) -> None:
    model, files = small(tmp_path / "images")
    found = hessian_cost(Run(model, files, tmp_path))
    values = np.array(found.numbers["eigenvalues"])
    assert len(values) <= 29
    assert found.numbers["top"] == pytest.approx(values[:20].tolist(), rel=1e-3)
    assert values.sum() == pytest.approx(ss.input_hessian(model, files[0]).trace(), rel=1e-5)


def test_examples_are_the_least_and_the_most_confident(tmp_path: Path) -> None:
    model, files = small(tmp_path / "images")
    found = hessian_examples(Run(model, files, tmp_path))
    sure = [record["probability"] for record in found.numbers["confidences"]]
    shown = [e["probability"] for e in found.numbers["shown"]]
    assert shown == pytest.approx(sorted(sure), rel=1e-5)
    assert len(found.figures[0].axes) == 18


def test_lambda1_sweep_and_lonely_pixels(tmp_path: Path) -> None:
    model, files = small(tmp_path / "images")
    found = lambda1_sweep(Run(model, files[:2], tmp_path))
    assert all(record["rising"] for record in found.numbers["photographs"])
    delta = torch.zeros(3, 5, 5)
    delta[0, 0, 0] = delta[1, 2, 2] = delta[2, 3, 3] = -1
    assert lonely_share(delta) == pytest.approx(1 / 3)
    assert lonely_share(torch.zeros(3, 4, 4)) == 0
    assert lonely_share(torch.ones(3, 4, 4)) == 0


def test_comparison_knows_where_the_object_is(tmp_path: Path) -> None:
    """Boxes are cut and scaled as the photograph is; a map inside its box gets a focus above 1."""
    model, files = small(tmp_path / "images")
    wide = tmp_path / "images" / "6.png"
    Image.new("RGB", (24, 12), "white").save(wide)
    model = ss.Classifier(model.net, size=12, resize=12, name="small")
    mask = object_mask(model, wide, [(6, 0, 11, 11)])
    assert mask.shape == (12, 12)
    assert bool(mask[:, :6].all())
    assert not bool(mask[:, 6:].any())
    assert not bool(object_mask(model, wide, []).any())
    (tmp_path / "boxes.csv").write_text("file,x0,y0,x1,y1\n0.png,0,0,5,11\n0.png,6,0,11,2\n")
    found = comparison(Run(model, files[:2], tmp_path))
    first, second = found.numbers["photographs"]
    assert first["area"] == pytest.approx(90 / 144)
    assert second["area"] == 0
    delta = ss.explain(model, files[0], "gradient").delta.abs().sum(0)
    inside = float(delta[:, :6].sum() + delta[:3, 6:].sum())
    assert first["inside"]["gradient"] == pytest.approx(inside / float(delta.sum()), rel=1e-5)
    assert found.numbers["focus"]["gradient"] == pytest.approx(first["inside"]["gradient"] / first["area"])
    assert len(found.figures[0].axes) == 2 * 9
    (tmp_path / "boxes.csv").write_text("file,x0\n0.png,0\n")
    with pytest.raises(ss.SecondsightError, match="must have the columns"):
        comparison(Run(model, files[:1], tmp_path))


def test_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two networks side by side; a result that the photographs do not allow is left out, and said."""
    model, _ = small(tmp_path / "images")
    models = {"a": model, "b": ss.Classifier(model.net, size=12, name="b/second")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ss, "load_model", models.__getitem__)
    asked = ["paper", "all", "--images", "images", "--model", "a, b", "--quick", "--out", "out"]
    assert main(asked) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "report: out/report.md, out/report.html"
    notes = said.err.splitlines()
    assert len(notes) == 2
    assert all("non-relu is left out" in note and "labels are missing" in note for note in notes)
    for report in ("report.md", "report.html"):
        text = (tmp_path / "out" / report).read_text("utf-8")
        for name in set(ON_PHOTOGRAPHS) - {"non-relu"}:
            for folder in ("small", "b-second"):
                assert f"{folder}/{name}.png" in text
                assert (tmp_path / "out" / folder / f"{name}.png").is_file()
                record = json.loads((tmp_path / f"out/{folder}/{name}.json").read_text())
                assert record["verdict"] in text
                assert (html.escape(record["measured"]) if report.endswith("html") else record["measured"]) in text
        assert all(f"{name}.png" in text for name in SIMULATED)
    (tmp_path / "labels.csv").write_text("file,class_index\n" + "".join(f"{i}.png,{i}\n" for i in range(6)))
    assert main(["paper", "non-relu", "--images", "images", "--model", "a", "--out", "out"]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "out/small/non-relu-2.png").is_file()


def test_a_network_made_smooth_tends_to_itself(tmp_path: Path) -> None:
    model, files = small(tmp_path / "images")
    x = model.tensor(files[0])[None]
    apart = [float((softened(model, beta)(x) - model(x)).abs().max()) for beta in (1.0, 10.0, 100.0, 1e4)]
    assert all(after < before / 2 for before, after in itertools.pairwise(apart))
    six = ss.Classifier(lambda x: torch.nn.functional.relu6(12 * x.flatten(1) - 3), size=12)
    rows = torch.linspace(0, 1, 432).reshape(1, 3, 12, 12)
    assert torch.allclose(softened(six, 100.0)(rows), six(rows), atol=0.01)
    assert not torch.equal(softened(six, 100.0)(rows), six(rows))
    linear = ss.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(432, 3)), size=12)
    with pytest.raises(ss.ModelError, match="no ReLU"):
        softened(linear, 1.0)(x)


def test_non_relu_takes_the_smallest_beta_and_both_hessians(tmp_path: Path) -> None:
    """Ratio of the two largest eigenvalues against dense Hessians."""
    model, files = small(tmp_path / "images")
    labels = {file: int(model(model.tensor(file)[None]).argmax()) for file in files}
    rows = "".join(f"{file.name},{label}\n" for file, label in labels.items())
    (tmp_path / "images" / "labels.csv").write_text(f"file,class_index\n{rows}")
    found = non_relu(Run(model, files, tmp_path))
    right = found.numbers["accuracies"]
    assert right["relu"] == 1
    taken = float(found.numbers["settings"]["network"].rpartition("-")[2])
    assert right[str(taken)] >= 0.97
    assert all(value < 0.97 for beta, value in right.items() if beta != "relu" and float(beta) < taken)
    smooth = softened(model, taken)
    for file, ratio in zip(files, found.numbers["ratio_of_L"], strict=True):
        exact, approximate = (
            ss.input_hessian(smooth, file, curvature=kind).eigh(1, tolerance=1e-6)[0][0]
            for kind in ("exact", "gauss-newton")
        )
        assert ratio == pytest.approx(float(exact / approximate), rel=0.05)
    assert len(found.figures) == 2
    # A network that is smooth by itself needs no labels.
    (tmp_path / "images" / "labels.csv").unlink()
    own = non_relu(Run(smooth, files, tmp_path / "own"))
    assert "as it is" in own.measured
    with pytest.raises(ss.InputError, match="labels are missing"):
        non_relu(Run(model, files, tmp_path / "none"))
    (tmp_path / "images" / "labels.csv").write_text("name\n1.png\n")
    with pytest.raises(ss.SecondsightError, match="must have the columns file and class_index"):
        non_relu(Run(model, files, tmp_path / "none"))


def test_non_relu_measures_a_smooth_network_as_it_is(tmp_path: Path) -> None:
    """Without labels, and against dense float64 Hessians by autograd."""
    model, files = small(tmp_path / "images")
    net = torch.nn.Sequential(*(torch.nn.GELU() if type(m) is torch.nn.ReLU else m for m in model.net))  # type: ignore[union-attr]
    smooth = ss.Classifier(net, size=12, name="gelu")
    found = non_relu(Run(smooth, files, tmp_path))
    assert found.numbers["settings"]["network"] == "gelu"
    assert found.numbers["accuracies"] == {}
    twin = copy.deepcopy(net).double()
    indefinite = 0
    for file, record in zip(files, found.numbers["photographs"], strict=True):
        x = smooth.tensor(file).double()
        target = twin(x[None]).argmax(1)
        hessian = torch.autograd.functional.hessian(
            lambda x, target=target: torch.nn.functional.cross_entropy(twin(x[None]), target), x
        ).reshape(432, 432)
        jacobian = torch.autograd.functional.jacobian(lambda x: twin(x[None])[0], x).reshape(30, 432)
        p = twin(x[None])[0].softmax(0).detach()
        newton = jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian
        g = jacobian.T @ (p - torch.eye(30, dtype=torch.float64)[target[0]])
        values = torch.linalg.eigvalsh(hessian)
        width = float(values[-1] - values[0])
        assert record["exact"]["L"] == pytest.approx(float(values[-1]), rel=0.02)
        assert record["smallest"] == pytest.approx(float(values[0]), abs=0.02 * width)
        indefinite += bool(values[0] < -0.01 * width)
        gap = hessian - newton
        assert record["difference"] == pytest.approx(float(gap.norm() / hessian.norm()), rel=0.3)
        assert record["difference_at_gradient"] == pytest.approx(
            float((gap @ g).norm() / (hessian @ g).norm()), rel=1e-3
        )
        maps = []
        for matrix in (hessian, newton):
            top = float(torch.linalg.eigvalsh(matrix)[-1])
            maps.append(torch.linalg.solve((top + 20) * torch.eye(432, dtype=torch.float64) - matrix, g))
        cosine = float(torch.nn.functional.cosine_similarity(*maps, dim=0))
        assert record["maps_apart"] == pytest.approx(math.degrees(math.acos(min(1.0, cosine))), abs=0.5)
        for kind in ("exact", "gauss-newton"):
            e = ss.explain(smooth, file, ss.CASO(curvature=kind))
            assert record[kind]["certified"] == e.certificate.holds
            assert record[kind]["map_products"] == e.products
    summary = found.numbers["summary"]
    assert indefinite > 0
    assert summary["indefinite"] == indefinite
    assert f"indefinite on {indefinite} of 6" in found.measured
    assert summary["maps_apart"] > 0.5


def test_the_direction_of_caso_does_not_hang_on_the_rank_one_part(tmp_path: Path) -> None:
    """H = p/(1-p) gg' + R: CASO is parallel to (2 lambda2 I - R)^-1 g, and sin(angle) <= |R| / (2 lambda2)."""
    model, files = small(tmp_path / "images")
    for file in files[:3]:
        record = measure(model, file, 0)
        h = ss.input_hessian(model, file)
        p, g = record["probability"], h.gradient
        dense = h.matmul(torch.eye(h.size, dtype=torch.float64))
        rest = dense - p / (1 - p) * torch.outer(g, g)
        values = torch.linalg.eigvalsh((rest + rest.T) / 2)
        assert float(values[0]) > -1e-5 * float(values[-1])
        assert record["rest"] <= float(values[-1]) * (1 + 1e-4)
        a = float(torch.linalg.eigvalsh((dense + dense.T) / 2)[-1]) + 20
        identity = torch.eye(h.size, dtype=torch.float64)
        caso, other = (torch.linalg.solve(a * identity - m, g) for m in (dense, rest))
        assert float(torch.nn.functional.cosine_similarity(caso, other, dim=0)) == pytest.approx(1, abs=1e-9)
        cosine = float(torch.nn.functional.cosine_similarity(caso, g, dim=0))
        assert math.degrees(math.acos(cosine)) == pytest.approx(record["angle"]["10.0"], abs=0.2)
        assert math.sqrt(1 - cosine**2) <= float(values[-1]) / a


def test_what_is_left_of_the_hessian_with_a_penalty_and_noise(tmp_path: Path) -> None:
    model, files = small(tmp_path / "images")
    found = hessian_survival(Run(model, files[:2], tmp_path))
    for record, file in zip(found.numbers["photographs"], files, strict=False):
        e = ss.explain(model, file)
        assert record["caso"]["dense"] == pytest.approx(e.second_order.angle, rel=1e-6)
        u, v = e.delta.double().flatten(), first_order_map(e).double().flatten()
        cosine = min(1.0, float(u @ v / u.norm() / v.norm()))
        assert record["caso"]["chosen"] == pytest.approx(math.degrees(math.acos(cosine)), abs=0.05)
        assert 0 <= record["caso"]["common"] <= 1
        shares = [point["share"] for point in record["caso"]["path"]]
        assert len(shares) >= 12
        assert shares[0] < 1
    assert found.verdict == "beyond the paper"


def test_maps_of_other_pictures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--show changes the figures and not the numbers; --pages adds figures."""
    model, files = small(tmp_path / "images")
    (tmp_path / "others").mkdir()
    for i in range(8):
        Image.fromarray(np.uint8(np.random.default_rng(90 + i).random((12, 12, 3)) * 255)).save(
            tmp_path / f"others/o{i}.png"
        )
    shown = sorted((tmp_path / "others").iterdir())
    plain, other = (hessian_examples(Run(model, files, tmp_path, shown=some)) for some in (None, shown))
    assert plain.measured == other.measured
    first, second = (np.asarray(found.figures[0].axes[0].images[0].get_array()) for found in (plain, other))
    assert not np.array_equal(first, second)
    found = comparison(Run(model, files[:1], tmp_path, shown=shown, pages=2))
    assert [len(figure.axes) for figure in found.figures] == [6 * 9, 2 * 9]
    assert [path.name for path in found.write(tmp_path)] == ["comparison.png", "comparison-2.png", "comparison.json"]


def test_se_resnet_50_with_random_weights_runs(tmp_path: Path) -> None:
    """A smoke test and nothing more: no trained SE-ResNet-50 is at hand."""
    import_torchvision()
    import timm

    torch.manual_seed(0)
    net = timm.create_model("seresnet50")
    for block in net.modules():
        # They start at zero, which cuts the gates off.
        if isinstance(block, torch.nn.BatchNorm2d):
            torch.nn.init.ones_(block.weight)
    weights = net.state_dict()
    safetensors.torch.save_file(weights, tmp_path / "random.safetensors")
    model = ss.load_model(f"timm:seresnet50@{tmp_path / 'random.safetensors'}")
    found = non_relu(Run(model, [ss.example_photograph()], tmp_path))
    assert "timm:seresnet50, as it is" in found.measured


def test_damaged_photographs_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, files = small(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ss, "load_model", lambda name: model)
    asked = ["paper", "hessian-impact", "--images", "images", "--out", "out"]
    files[1].write_bytes(files[1].read_bytes()[:60])
    assert main(asked) == 0
    said = capsys.readouterr()
    assert f"{len(files) - 1} photographs" in said.out
    assert len(said.err.splitlines()) == 1
    assert "left out: images/1.png" in said.err
    for file in files:
        file.write_text("no picture")
    assert main(asked) == 2
    assert "--images must be a folder with images that can be read" in capsys.readouterr().err


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 40, 80]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [5, 4, 3, -9]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3], [7, 7, 7]) == 0
    x, y = np.random.default_rng(0).integers(0, 9, (2, 50)).tolist()
    assert rank_correlation(x, y) == pytest.approx(float(scipy.stats.spearmanr(x, y).statistic))


def test_distance_of_unit_maps() -> None:
    for degrees in (0.0, 10.0, 90.0, 180.0):
        u, v = (np.array([math.cos(a), math.sin(a)]) for a in (0.0, math.radians(degrees)))
        assert distance(degrees) == pytest.approx(float(np.linalg.norm(u - v)), abs=1e-12)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file")
    assert main(["paper", "rank-one", "--out", "taken"]) == 2
    assert capsys.readouterr().err == "secondsight: error: --out must be a folder, not the file taken\n"
    Path("empty").mkdir()
    for folder, words in (("empty", "a folder with images"), ("nowhere", "a folder"), ("taken", "a folder")):
        assert main(["paper", "hessian-impact", "--images", folder]) == 2
        said = capsys.readouterr().err
        assert f"--images must be {words}" in said
        assert said.count("\n") == 1
    Path("some").mkdir()
    Image.new("RGB", (9, 9)).save("some/black.png")
    for asked, words in (
        (["hessian-impact", "--preset", "table-1"], "--preset must be none for hessian-impact"),
        (["comparison", "--preset", "table-4"], "preset must be one of none, table-1, table-2, table-3"),
        (["hessian-examples", "--pages", "2"], "--pages must be 1"),
        (["comparison", "--show", "empty"], "--show must be a folder with images"),
        (["non-relu"], "--images must be photographs with their classes in labels.csv"),
    ):
        assert main(["paper", *asked, "--images", "some"]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert main(["paper", "rank-two"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
