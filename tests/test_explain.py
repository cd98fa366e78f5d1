"""explain() end to end: small networks at their numerical edges, and the embedded one on real photographs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import skimage.data
import torch
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case
from reference import Quadratic, gauss_newton, gradient, hessian
from secondsight.config import method_of
from secondsight.operators.jacobian import solver_device
from secondsight.results.first_order import first_order_map


@pytest.fixture(scope="module")
def embedded() -> ss.Classifier:
    return ss.load_model("efficientnet-lite0")


def coffee() -> Image.Image:
    return Image.fromarray(skimage.data.coffee())


def dense_problem(case: Case, e: ss.Explanation, curved: bool = True) -> Quadratic:
    g = gradient(case.net, case.x, e.target)
    h = hessian(case.net, case.x, e.target) if curved else torch.zeros(len(g), len(g), dtype=torch.float64)
    return Quadratic(g, h, e.lambda1, e.lambda2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_caso_is_the_optimum_of_the_papers_objective(case: Case) -> None:
    method = ss.CASO(
        c1=10.0, lambda1="auto", tolerance=1e-7, sparsity_range=(0.3, 1.0), certify="path", bound="estimated"
    )
    e = ss.explain(case.classifier(), case.x, method)
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    exact = dense_problem(case, e)
    best = exact.optimum()
    assert exact.objective(best) - exact.objective(e.delta.flatten()) <= e.certificate.gap + 1e-12
    top = float(torch.linalg.eigvalsh(exact.h)[-1])
    assert e.lambda2 == pytest.approx(max(top, 0) / 2 + 10, rel=0.05)
    assert e.certificate.top_eigenvalue_bound >= top * (1 - 1e-6) - 1e-9
    for point in e.path:
        here = Quadratic(exact.g, exact.h, point.lambda1, e.lambda2)
        assert point.objective == pytest.approx(here.objective(here.optimum()), rel=1e-5)


@pytest.mark.parametrize("case", PIECEWISE_LINEAR, ids=str)
def test_a_proven_bound_is_the_top_eigenvalue(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.CASO(c1=10.0, bound="proven"))
    top = float(torch.linalg.eigvalsh(gauss_newton(case.net, case.x))[-1])
    assert e.certificate.holds
    assert e.certificate.basis == "proven"
    assert e.top_eigenvalue == pytest.approx(top, rel=1e-5)
    assert e.lambda2 == pytest.approx(top / 2 + 10, rel=1e-5)
    relative = ss.explain(case.classifier(), case.x, ss.CASO(bound="proven"))
    assert relative.certificate.holds
    assert relative.lambda2 == pytest.approx(top * (1 / 2 + 0.25), rel=1e-5)


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_a_proven_bound_of_a_small_indefinite_hessian(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.CASO(bound="proven"))
    top = float(torch.linalg.eigvalsh(hessian(case.net, case.x, e.target))[-1])
    assert e.certificate.holds
    assert e.certificate.basis == "proven"
    assert e.top_eigenvalue == pytest.approx(max(top, 0), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cafo_is_exact(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.CAFO(c1=10.0, lambda1=0.3 * 1e-2), target=0)
    best = dense_problem(case, e, curved=False).optimum()
    torch.testing.assert_close(e.delta.flatten(), best, rtol=1e-9, atol=1e-12)
    proof = e.certificate
    assert (proof.gap, proof.relative_gap, proof.tolerance, proof.top_eigenvalue_bound) == (0, 0, 0, 0)
    assert proof.holds
    assert proof.basis == "exact"
    assert e.lambda2 == 10
    assert not bool(proof.support.undecided.any())
    owners = dict.fromkeys(("products", "curvature", "top_eigenvalue"), "caso, smooth-caso")
    for name, methods in (owners | {"second_order": "caso, smooth-caso, picture"}).items():
        with pytest.raises(AttributeError, match=f"the result of cafo has no {name}: only {methods} have one"):
            getattr(e, name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cafo_of_inputs_with_units_is_as_long_as_its_gradient_is_short(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.CAFO(lambda1=0.3 * 1e-2), target=0)
    problem = dense_problem(case, e, curved=False)
    torch.testing.assert_close(e.delta.flatten(), problem.optimum(), rtol=1e-9, atol=1e-12)
    assert e.lambda2 == pytest.approx(0.25 * float(problem.g @ problem.g), rel=1e-9)


def test_cafo_of_a_caso_explanation_shares_its_penalties() -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x)
    cafo = ss.explain(case.classifier(), case.x, ss.CAFO(lambda1=e.lambda1, lambda2=e.lambda2))
    torch.testing.assert_close(first_order_map(e), cafo.delta)


def test_gauss_newton_on_request() -> None:
    case = CURVED[0]
    e = ss.explain(case.classifier(), case.x, ss.CASO(curvature="gauss-newton", lambda1=0.0, tolerance=1e-10))
    h = gauss_newton(case.net, case.x)
    expected = torch.linalg.solve(2 * e.lambda2 * torch.eye(len(h)) - h, gradient(case.net, case.x, e.target))
    torch.testing.assert_close(e.delta, expected, rtol=1e-5, atol=1e-9)
    assert e.curvature == "gauss-newton"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_gives_what_its_items_give(case: Case) -> None:
    model = case.classifier()
    batch = torch.stack([case.x, case.x * 0.5, 1 - case.x])
    together = ss.explain(model, list(batch), target=[0, None, 1])
    assert [e.target for e in together][::2] == [0, 1]
    for x, target, e in zip(batch, (0, None, 1), together, strict=True):
        alone = ss.explain(case.classifier(), x, target=target)
        torch.testing.assert_close(e.delta, alone.delta, rtol=1e-9, atol=1e-12)
        assert e.lambda1 == pytest.approx(alone.lambda1, rel=1e-9)


def test_targets_as_tensors() -> None:
    case = PIECEWISE_LINEAR[0]
    assert ss.explain(case.classifier(), case.x, target=torch.tensor(2)).target == 2
    batch = ss.explain(case.classifier(), [case.x, case.x], target=torch.tensor([2, 0]))
    assert [e.target for e in batch] == [2, 0]


def test_devices_without_float64_leave_the_solver_to_the_cpu() -> None:
    assert solver_device(torch.device("cpu")) == torch.device("cpu")
    if not torch.backends.mps.is_available():
        assert solver_device(torch.device("mps")) == torch.device("cpu")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("curvature", "nonsense"),
        ("sparsity_range", 0.9),
        ("sparsity_range", (0.9, "x")),
        ("sparsity_range", (0.5, 0.6, 0.7)),
        ("path_smallest", "x"),
        ("path_smallest", float("nan")),
    ],
)
@pytest.mark.parametrize("method", ["cafo", "caso"])
def test_every_option_is_checked_for_every_method(method: str, option: str, value: object) -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError, match=option):
        ss.explain(case.classifier(), case.x, method_of(method, **{option: value}))


def test_a_random_network_is_refused() -> None:
    first, last = nn.Linear(6, 64), nn.Linear(64, 3)
    model = ss.Classifier(lambda x: last(nn.functional.dropout(first(x), training=True)), input_shape=(6,))
    for _ in range(2):
        with pytest.raises(ss.ModelError, match="random"):
            ss.explain(model, torch.rand(6))


def test_a_single_input_is_no_batch_of_one() -> None:
    case = PIECEWISE_LINEAR[0]
    assert isinstance(ss.explain(case.classifier(), case.x), ss.Explanation)
    results = ss.explain(case.classifier(), [case.x])
    assert isinstance(results, list)
    assert len(results) == 1
    expected = r"x must be one input or a list of them: type list\(x\), or ss.explain_batches\(model, x\), not a batch"
    with pytest.raises(ss.InputError, match=expected):
        ss.explain(case.classifier(), case.x[None])


def test_the_seed_decides() -> None:
    case = PIECEWISE_LINEAR[3]
    first, again, other = (ss.explain(case.classifier(), case.x, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.delta, again.delta)
    torch.testing.assert_close(first.delta, other.delta, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("margin", [25.0, 90.0, 400.0])
def test_a_prediction_that_rounds_to_certainty(margin: float) -> None:
    """p_y = 1 in float32: the map is finite, certified, and the same up to scale as just below that."""
    torch.manual_seed(0)
    net = nn.Linear(50, 6)

    def explained(bias: float) -> ss.Explanation:
        with torch.no_grad():
            net.bias.copy_(torch.tensor([bias, 0.0, 0.0, 0.0, 0.0, 0.0]))
        return ss.explain(ss.Classifier(net, input_shape=(50,)), torch.full((50,), 0.5))

    e, reference = explained(margin), explained(12.0)
    assert float(torch.tensor(e.probability, dtype=torch.float32)) == 1
    assert e.certificate.holds
    assert bool(torch.isfinite(e.delta).all())
    shape, expected = (d.delta.double() / d.delta.double().abs().max() for d in (e, reference))
    torch.testing.assert_close(shape, expected, rtol=1e-3, atol=1e-3)
    assert e.delta.dtype == (torch.float64 if margin > 80 else torch.float32)


def test_a_constant_network() -> None:
    net = nn.Linear(8, 3)
    nn.init.zeros_(net.weight)
    e = ss.explain(ss.Classifier(net, input_shape=(8,)), torch.ones(8))
    assert not bool(e.delta.any())
    assert e.certificate.holds
    assert e.sparsity == 1
    assert any("gradient of the loss is zero" in note for note in e.notes)


def conv(channels: int, classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, classes)
    )


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 5, 9), (1, 6, 6), (4, 6, 6)])
def test_unusual_pictures(shape: tuple[int, int, int]) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    model = ss.Classifier(conv(shape[0]), channels=shape[0], size=shape[1:])
    e = ss.explain(model, x)
    assert e.delta.shape == shape
    assert e.certificate.holds
    assert e.map().shape == shape[1:]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precisions(dtype: torch.dtype) -> None:
    x = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(2))
    e = ss.explain(ss.Classifier(conv(3).to(dtype)), x)
    exact = ss.explain(ss.Classifier(conv(3).to(dtype).double()), x)
    assert e.delta.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert e.certificate.holds
    torch.testing.assert_close(e.delta.double(), exact.delta, rtol=1e-2, atol=1e-3 * float(exact.delta.abs().max()))


def test_two_classes_and_a_user_target() -> None:
    case = PIECEWISE_LINEAR[1]
    for_, against = (
        ss.explain(case.classifier(), case.x, ss.CASO(lambda1=0.0, tolerance=1e-10), target=t) for t in (0, 1)
    )
    assert for_.probability + against.probability == pytest.approx(1)
    # What raises the loss of one class lowers that of the other.
    assert float(nn.functional.cosine_similarity(for_.delta, against.delta, dim=0)) == pytest.approx(-1)


def test_delta_raises_the_loss_of_the_target() -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x)
    step = 1e-3 * e.delta / e.delta.norm()
    with torch.no_grad():
        losses = [-float(case.net(x[None]).log_softmax(1)[0, e.target]) for x in (case.x, case.x + step)]
    assert losses[1] > losses[0]


def test_running_out_of_products_says_so() -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, ss.CASO(max_products=3, bound="estimated"))
    assert e.certificate.holds is False
    assert any("max_products = 3" in note for note in e.notes)
    assert bool(e.delta.any())


def test_lambda1_beyond_its_maximum() -> None:
    case = PIECEWISE_LINEAR[0]
    e = ss.explain(case.classifier(), case.x, ss.CASO(lambda1=1e3))
    assert not bool(e.delta.any())
    assert e.certificate.holds
    assert any("lambda1_max" in note for note in e.notes)
    below = ss.explain(case.classifier(), case.x, ss.CASO(lambda1=0.999 * e.lambda1_max))
    assert bool(below.delta.any())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cas0"}, "method must be one of"),
        ({"lambda1": -1.0}, "lambda1 must be a finite number of at least 0, not -1.0"),
        ({"lambda1": math.nan}, "lambda1"),
        ({"lambda1": "knee"}, "lambda1 must be one of auto, paper or a number or a share .* such as .10%., not 'knee'"),
        ({"c1": 0.0}, "c1 must be a finite number above 0, not 0.0"),
        ({"lambda2": -3.0}, "lambda2"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"certify": "all"}, "certify must be one of chosen, path"),
        ({"bound": "guessed"}, "bound must be one of"),
        ({"max_products": 0}, "max_products"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 2**70}, "seed"),
        ({"curvature": "hutchinson"}, "curvature must be one of"),
        ({"path_points": 3}, "path_points must be a whole number of at least 12"),
        ({"path_smallest": 2.0}, "path_smallest"),
        ({"sparsity_range": (0.9, 0.1)}, "sparsity_range"),
        ({"target": 99}, "target must be a class index from 0 to 3"),
        ({"target": [0, 1]}, "target must be one class"),
    ],
)
def test_bad_requests(options: dict[str, Any], message: str) -> None:
    case = PIECEWISE_LINEAR[0]
    beside = {name: options[name] for name in ("target", "seed") if name in options}
    own = {name: value for name, value in options.items() if name not in ("target", "seed", "method")}
    with pytest.raises(ss.InputError, match=message):
        ss.explain(case.classifier(), case.x, method_of(options.get("method", "caso"), **own), **beside)


def test_an_option_beside_the_method_is_led_to_it() -> None:
    case = PIECEWISE_LINEAR[0]
    with pytest.raises(ss.InputError) as refusal:
        ss.explain(case.classifier(), case.x, "cafo", c1=1.0)
    remedy = "an option of the method, as in explain(model, x, CAFO(c1=...))"
    assert str(refusal.value) == f"c1 must be {remedy}, not an argument of explain"
    with pytest.raises(ss.InputError, match=r"colour must be target, seed or progress, .* not an argument of explain"):
        ss.explain(case.classifier(), case.x, "cafo", colour="red")


def test_a_method_may_be_a_string() -> None:
    case = PIECEWISE_LINEAR[3]
    written = ss.explain(case.classifier(), case.x, "caso(c1=2,groups=pixel)")
    built = ss.explain(case.classifier(), case.x, ss.CASO(c1=2, groups="pixel"))
    assert torch.equal(written.delta, built.delta)
    assert written.method == built.method == ss.CASO(c1=2, groups="pixel")


def test_tangled_activations() -> None:
    """Functional, in-place and reused activations in one network."""

    class Tangled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.relu = nn.Linear(10, 10), nn.Linear(10, 3), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            y = self.relu(self.a(x))
            y = self.relu(self.a(y) + x)
            return self.b(nn.functional.relu_(y.clone()).clone().clamp_(max=2.0))

    torch.manual_seed(0)
    net = Tangled().double()
    x = torch.rand(10, dtype=torch.float64)
    e = ss.explain(ss.Classifier(net, input_shape=(10,)), x, ss.CASO(lambda1=0.0, tolerance=1e-10))
    h = hessian(net, x, e.target)
    expected = torch.linalg.solve(2 * e.lambda2 * torch.eye(10) - h, gradient(net, x, e.target))
    torch.testing.assert_close(e.delta, expected, rtol=1e-5, atol=1e-9)


def test_a_network_that_cannot_be_differentiated() -> None:
    class Spoilt(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.exp()
            logits = y[:, :3] * 2
            y.mul_(2)
            return logits

    with pytest.raises(ss.ModelError, match="cannot differentiate"):
        ss.explain(ss.Classifier(Spoilt(), input_shape=(5,)), torch.rand(5))


def test_the_embedded_network_on_a_photograph(embedded: ss.Classifier, tmp_path: Path) -> None:
    coffee().save(tmp_path / "coffee.png")
    e = ss.explain(embedded, tmp_path / "coffee.png")
    assert e.label in {"espresso", "cup", "coffee mug"}
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    assert e.certificate.relative_gap <= 1e-4
    assert 0.75 <= e.sparsity < 1
    assert e.products <= 8
    assert len(e.path) >= 12
    assert e.curvature == "gauss-newton"
    from_picture = ss.explain(embedded, coffee())
    assert torch.equal(e.delta, from_picture.delta)


def test_float32_batch_agrees_within_the_certificate(embedded: ss.Classifier) -> None:
    pictures = [coffee(), Image.fromarray(skimage.data.chelsea())]
    batch = torch.stack([embedded.load(picture) for picture in pictures])
    for e, picture in zip(ss.explain(embedded, list(batch)), pictures, strict=True):
        alone = ss.explain(embedded, picture)
        mu = 2 * e.lambda2 - e.certificate.top_eigenvalue_bound
        radius = math.sqrt(2 * e.certificate.gap / mu) + math.sqrt(2 * alone.certificate.gap / mu)
        assert float((e.delta - alone.delta).norm()) <= radius + 1e-12


def test_certified_path_on_a_photograph(embedded: ss.Classifier) -> None:
    e = ss.explain(embedded, coffee(), ss.CASO(certify="path"))
    assert all(point.relative_gap is not None and point.relative_gap <= 1e-4 for point in e.path)
    assert e.products <= len(e.path) + 12


def test_paper_rule_on_a_photograph(embedded: ss.Classifier) -> None:
    e = ss.explain(embedded, coffee(), ss.CASO(lambda1="paper"))
    assert 0.75 <= e.sparsity < 1
    exponent = math.log10(e.lambda1 / 1e-5)
    halvings = math.log2(10 ** math.ceil(exponent) / 10**exponent)
    assert halvings == pytest.approx(round(halvings), abs=1e-6)
