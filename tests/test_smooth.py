"""SmoothCASO, SmoothCAFO and Picture: averages over noisy copies against dense ones, their error, and their batches."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skimage.data
import torch
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
from cases import CASES, CURVED, PIECEWISE_LINEAR, Case, configured
from reference import Quadratic, gauss_newton, gradient, hessian, probabilities
from secondsight.config import METHODS, method_of
from secondsight.operators.averaged import AveragedHessian
from secondsight.operators.exact_hessian import ExactHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.linearisation import linearise
from secondsight.operators.loss_hessian import LossHessian
from secondsight.operators.noise import CHECKPOINTS, Noise, fitting_batch_size, graph_bytes
from test_operators import Once

SMOOTH = ("smooth-cafo", "smooth-caso")


def copies(x: Tensor, n: int, sigma: float, seed: int = 0, antithetic: bool = False) -> list[Tensor]:
    """The noisy copies, drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    size = sigma * float(x.max() - x.min())
    noise = [size * torch.randn(x.shape, generator=generator).double() for _ in range(n)]
    return [y for z in noise for y in (x + z, x - z)][:n] if antithetic else [x + z for z in noise]


def dense(
    case: Case, target: int, n: int, sigma: float, seed: int = 0, antithetic: bool = False
) -> tuple[Tensor, Tensor]:
    """g and H averaged over the copies."""
    points = copies(case.x, n, sigma, seed, antithetic)
    g = torch.stack([gradient(case.net, z, target) for z in points]).mean(0)
    return g, torch.stack([hessian(case.net, z, target) for z in points]).mean(0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_smooth_caso_is_the_optimum_of_the_averaged_objective(case: Case) -> None:
    method = ss.SmoothCASO(
        c1=10.0, n=5, sigma=0.15, batch_size=2, tolerance=1e-7, sparsity_range=(0.3, 1.0), bound="estimated"
    )
    e = ss.explain(case.classifier(), case.x, method)
    clean = int(probabilities(case.net, case.x).argmax())
    g, h = dense(case, clean, 5, 0.15)
    exact = Quadratic(g, h, e.lambda1, e.lambda2)
    best = exact.optimum()
    assert e.target == clean
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    assert exact.objective(best) - exact.objective(e.delta.flatten()) <= e.certificate.gap + 1e-12
    torch.testing.assert_close(e.delta.flatten(), best, rtol=1e-2, atol=1e-3 * float(best.abs().max()))
    torch.testing.assert_close(e.gradient.flatten(), g, rtol=1e-9, atol=1e-12)
    top = float(torch.linalg.eigvalsh(h)[-1])
    assert e.lambda2 == pytest.approx(max(top, 0) / 2 + 10, rel=0.05)
    assert e.certificate.top_eigenvalue_bound >= top * (1 - 1e-6) - 1e-9
    assert e.lambda1_max == pytest.approx(float(g.abs().max()), rel=1e-9)
    assert e.curvature == ("gauss-newton" if case.piecewise_linear else "exact")
    assert e.probability == pytest.approx(float(probabilities(case.net, case.x)[clean]))
    assert torch.equal(e.input, case.x)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_smooth_cafo_is_exact(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.SmoothCAFO(c1=10.0, n=5, sigma=0.3), target=1, seed=7)
    g, h = dense(case, 1, 5, 0.3, seed=7)
    best = Quadratic(g, torch.zeros_like(h), e.lambda1, e.lambda2).optimum()
    torch.testing.assert_close(e.delta.flatten(), best, rtol=1e-9, atol=1e-12)
    proof = e.certificate
    assert (proof.gap, proof.relative_gap, proof.basis, proof.top_eigenvalue_bound) == (0, 0, "exact", 0)
    assert proof.holds
    assert e.lambda2 == 10
    assert type(e) is ss.SparseExplanation
    for name, methods in (("products", "caso, smooth-caso"), ("second_order", "caso, smooth-caso, picture")):
        with pytest.raises(AttributeError, match=f"the result of smooth-cafo has no {name}: only {methods} have one"):
            getattr(e, name)


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_gauss_newton_on_request(case: Case) -> None:
    e = ss.explain(
        case.classifier(), case.x, ss.SmoothCASO(curvature="gauss-newton", n=4, sigma=0.3, lambda1=0.0, tolerance=1e-10)
    )
    g, _ = dense(case, e.target, 4, 0.3)
    h = torch.stack([gauss_newton(case.net, z) for z in copies(case.x, 4, 0.3)]).mean(0)
    expected = torch.linalg.solve(2 * e.lambda2 * torch.eye(len(h)) - h, g)
    torch.testing.assert_close(e.delta.flatten(), expected, rtol=1e-4, atol=1e-9)
    assert e.curvature == "gauss-newton"


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("method", SMOOTH)
def test_without_noise_nothing_is_smoothed(case: Case, method: str) -> None:
    smooth = ss.explain(case.classifier(), case.x, configured(method, sigma=0.0, bound="estimated"))
    plain = ss.explain(case.classifier(), case.x, configured(method.removeprefix("smooth-"), bound="estimated"))
    torch.testing.assert_close(smooth.delta, plain.delta, rtol=1e-12, atol=1e-15)
    second_order = ("products", "curvature", "top_eigenvalue") if method == "smooth-caso" else ()
    for name in ("lambda1", "lambda1_max", "lambda2", *second_order):
        assert getattr(smooth, name) == getattr(plain, name)
    for name in ("holds", "basis", "tolerance", "top_eigenvalue_bound"):
        assert getattr(smooth.certificate, name) == getattr(plain.certificate, name)
    assert smooth.certificate.gap == pytest.approx(plain.certificate.gap, rel=1e-6, abs=1e-20)


@pytest.mark.parametrize("method", SMOOTH)
def test_an_input_without_range(method: str) -> None:
    """All pixels alike: the noise, a share of the range, is none."""
    case = PIECEWISE_LINEAR[3]
    grey = torch.full_like(case.x, 0.5)
    smooth = ss.explain(case.classifier(), grey, configured(method, n=5, bound="estimated"))
    plain = ss.explain(case.classifier(), grey, configured(method.removeprefix("smooth-"), bound="estimated"))
    assert torch.equal(smooth.delta, plain.delta)
    assert smooth.certificate.holds


def seen_by(net: nn.Module, act: Callable[[], Any]) -> tuple[Any, int]:
    """What an act gives, and how many inputs the network was given at a time, at most."""
    sizes: list[int] = []
    handle = net.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    try:
        return act(), max(sizes)
    finally:
        handle.remove()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("method", SMOOTH)
def test_batches_of_copies_change_nothing(case: Case, method: str) -> None:
    found, largest = [], []
    for size in (1, 2, 5, 9, None):
        config = configured(method, n=5, lambda1=1e-3, batch_size=size)
        e, most = seen_by(case.net, lambda config=config: ss.explain(case.classifier(), case.x, config))
        found.append(e)
        largest.append(most)
    scale = float(found[0].delta.abs().max())
    assert scale > 0
    for e in found[1:]:
        torch.testing.assert_close(e.delta, found[0].delta, rtol=1e-9, atol=1e-9 * scale)
        assert e.lambda2 == pytest.approx(found[0].lambda2, rel=1e-9)
    assert [e.method.batch_size for e in found] == [1, 2, 5, 9, None]
    assert largest == [1, 2, 5, 5, 5]


@pytest.mark.parametrize("batch_size", [1, 3, 4, 9])
def test_antithetic_copies_are_pairs(batch_size: int) -> None:
    """Also where a pair is in two batches. The last of an odd number is alone."""
    x = PIECEWISE_LINEAR[3].x
    noise = Noise(7, 0.3 * float(x.max() - x.min()), 4, batch_size, antithetic=True)
    found = torch.cat(list(noise.copies(x)))
    assert torch.equal(found, torch.stack(copies(x, 7, 0.3, seed=4, antithetic=True)))
    torch.testing.assert_close(found[:6:2] + found[1::2], (2 * x).expand(3, *x.shape), rtol=1e-14, atol=0)
    assert len(found) == 7


@pytest.mark.parametrize("n", [5, 6])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("method", SMOOTH)
def test_antithetic_copies_average_to_their_dense_average(case: Case, method: str, n: int) -> None:
    config = configured(method, n=n, sigma=0.3, antithetic=True, batch_size=4, lambda1=0.0, tolerance=1e-12)
    e = ss.explain(case.classifier(), case.x, config, seed=7)
    g, h = dense(case, e.target, n, 0.3, seed=7, antithetic=True)
    h = h if method == "smooth-caso" else torch.zeros_like(h)
    torch.testing.assert_close(e.gradient.flatten(), g, rtol=1e-9, atol=1e-12)
    expected = torch.linalg.solve(2 * e.lambda2 * torch.eye(len(g)) - h, g)
    torch.testing.assert_close(e.delta.flatten(), expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))
    assert e.smoothing.copies == n


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("groups", ["none", "pixel"])
@pytest.mark.parametrize("method", SMOOTH)
def test_auto_takes_copies_until_the_error_is_small(method: str, groups: str, antithetic: bool) -> None:
    """The same copies in whatever batches, and the map of as many copies asked for by number."""
    case, tolerance = PIECEWISE_LINEAR[3], 0.12 if groups == "none" else 0.08
    plain = configured(method, antithetic=antithetic, groups=groups, lambda1="10%")

    def explained(**options: Any) -> ss.SparseExplanation:
        e = ss.explain(case.classifier(), case.x, plain.with_options(**options))
        assert isinstance(e, ss.SparseExplanation)
        return e

    found = [explained(n="auto", noise_tolerance=tolerance, batch_size=size) for size in (1, 3, None)]
    n = found[0].smoothing.copies
    earlier = CHECKPOINTS[CHECKPOINTS.index(n) - 1]
    assert CHECKPOINTS[1] < n < CHECKPOINTS[-1]
    assert explained(n=earlier).smoothing.standard_error > tolerance
    found.append(explained(n=n))
    for e in found:
        assert e.smoothing.copies == n
        assert e.smoothing.standard_error <= tolerance
        assert e.smoothing.standard_error == pytest.approx(found[0].smoothing.standard_error, rel=1e-6)
        scale = float(found[0].delta.abs().max())
        assert scale > 0
        torch.testing.assert_close(e.delta, found[0].delta, rtol=1e-9, atol=1e-9 * scale)
        assert e.lambda2 == pytest.approx(found[0].lambda2, rel=1e-9)


def test_auto_ends_at_the_last_checkpoint() -> None:
    case = PIECEWISE_LINEAR[0]
    e = ss.explain(case.classifier(), case.x, ss.SmoothCAFO(n="auto", noise_tolerance=1e-6))
    assert e.smoothing.copies == CHECKPOINTS[-1] == 248
    assert e.smoothing.standard_error > 1e-6


def jackknife(gradients: Tensor, view: Callable[[Tensor], Tensor]) -> float:
    """The standard error of a view of the mean gradient over its length: leave out one pair after the other."""
    pairs = (gradients[:-1:2] + gradients[1::2]) / 2
    count = len(pairs)
    views = torch.stack([view(pairs[torch.arange(count) != k].mean(0)) for k in range(count)])
    variance = (count - 1) / count * (views - views.mean(0)).square().sum()
    return float(variance.sqrt() / view(pairs.mean(0)).norm())


@pytest.mark.parametrize(("n", "antithetic"), [(8, False), (8, True), (9, False)])
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[3], PIECEWISE_LINEAR[4], CURVED[1]], ids=str)
@pytest.mark.parametrize("method", SMOOTH)
def test_the_standard_error_is_a_jackknife_over_pairs(method: str, case: Case, n: int, antithetic: bool) -> None:
    points = copies(case.x, n, 0.3, antithetic=antithetic)
    gradients = torch.stack([gradient(case.net, z, 1) for z in points])
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "none": lambda g: g,
        "pixel": lambda g: g.reshape(case.x.shape).norm(dim=0).flatten(),
    }
    for groups, view in views.items():
        config = configured(method, n=n, sigma=0.3, antithetic=antithetic, groups=groups, batch_size=3)
        e = ss.explain(case.classifier(), case.x, config, target=1)
        # Pairs are kept in float32.
        assert e.smoothing.standard_error == pytest.approx(jackknife(gradients, view), rel=1e-5)


@pytest.mark.parametrize("antithetic", [False, True])
def test_the_standard_error_is_what_other_noise_does_and_falls_with_its_root(antithetic: bool) -> None:
    case, errors = PIECEWISE_LINEAR[3], []
    for n in (16, 64):
        config = ss.SmoothCAFO(n=n, antithetic=antithetic)
        found = [ss.explain(case.classifier(), case.x, config, seed=seed) for seed in range(30)]
        gradients = torch.stack([e.gradient.flatten() for e in found])
        moved = gradients.var(0).sum().sqrt() / gradients.mean(0).norm()
        errors.append(sum(e.smoothing.standard_error for e in found) / len(found))
        assert errors[-1] == pytest.approx(float(moved), rel=0.2)
    assert 1.6 < errors[0] / errors[1] < 2.5


def test_too_few_copies_tell_nothing_of_their_error() -> None:
    case = PIECEWISE_LINEAR[3]
    for options, n in (({"n": 3}, 3), ({"n": 8, "sigma": 0.0}, 1), ({"n": "auto", "sigma": 0.0}, 1)):
        smoothing = ss.explain(case.classifier(), case.x, ss.SmoothCAFO(**options)).smoothing
        assert smoothing == ss.Smoothing(copies=n, standard_error=None)
    assert ss.explain(case.classifier(), case.x, ss.SmoothCAFO(n=4)).smoothing.standard_error > 0
    assert ss.explain(case.classifier(), case.x, ss.CASO()).smoothing is None


@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[3], PIECEWISE_LINEAR[5], CURVED[1]], ids=str)
@pytest.mark.parametrize("in_units", [False, True])
def test_a_picture_is_smooth_cafo_and_the_second_order_of_the_clean_input(case: Case, in_units: bool) -> None:
    model = case.classifier() if in_units else ss.Classifier(case.net, channels=len(case.x))
    options: dict[str, Any] = {"groups": "window:2", "n": 6, "sigma": 0.3, "sparsity_range": (0.3, 1.0)}
    e = ss.explain(model, case.x, ss.Picture(**options), target=1, seed=3)
    twin = ss.explain(model, case.x, ss.SmoothCAFO(**options, antithetic=True), target=1, seed=3)
    assert type(e) is ss.PictureExplanation
    assert e.method.antithetic
    for name in ("delta", "gradient", "window_norms"):
        assert torch.equal(getattr(e, name), getattr(twin, name))
    for name in ("target", "sparsity", "lambda1", "lambda1_max", "lambda2", "smoothing", "zero_pixels"):
        assert getattr(e, name) == getattr(twin, name)
    assert (e.certificate.gap, e.certificate.basis, e.certificate.holds) == (0, "exact", True)
    few, full = (ss.explain(model, case.x, method, 1, seed=3) for method in (ss.CASO(max_products=1), ss.CASO()))
    # The products that fix lambda2, and no more.
    assert e.second_order == few.second_order
    assert e.second_order.angle > 0
    assert e.second_order.angle == pytest.approx(full.second_order.angle, abs=e.second_order.error)
    assert in_units or e.second_order.sentence == full.second_order.sentence
    with pytest.raises(AttributeError, match="the result of picture has no products: only caso, smooth-caso have one"):
        e.products  # noqa: B018


def test_a_picture_is_saved_and_summed_up(tmp_path: Path) -> None:
    case = PIECEWISE_LINEAR[3]
    e = ss.explain(case.classifier(), case.x, configured("picture", n=4))
    e.save(tmp_path / "e.npz")
    loaded = ss.Explanation.load(tmp_path / "e.npz")
    assert isinstance(loaded, ss.PictureExplanation)
    for name in ("method", "smoothing", "second_order", "zero_pixels", "notes"):
        assert getattr(loaded, name) == getattr(e, name)
    for name in ("delta", "gradient", "window_norms"):
        assert torch.equal(getattr(loaded, name), getattr(e, name))
    record = e.summary()
    assert loaded.summary() == record
    assert (record["copies"], record["standard_error"]) == (4, e.smoothing.standard_error)
    assert (record["second_order"], record["zero_pixels"]) == (e.second_order.sentence, e.zero_pixels)
    assert not {"products", "curvature", "top_eigenvalue"} & record.keys()


def test_the_class_is_that_of_the_clean_input() -> None:
    """Noise so strong that most copies are taken for something else."""
    case = PIECEWISE_LINEAR[0]
    clean = int(probabilities(case.net, case.x).argmax())
    seen = [int(probabilities(case.net, z).argmax()) for z in copies(case.x, 8, 3.0)]
    assert seen[0] != clean
    assert len(set(seen)) > 1
    for method in SMOOTH:
        e = ss.explain(case.classifier(), case.x, configured(method, n=8, sigma=3.0, lambda1=0.0, tolerance=1e-10))
        g, h = dense(case, clean, 8, 3.0)
        h = h if method == "smooth-caso" else torch.zeros_like(h)
        assert e.target == clean
        expected = torch.linalg.solve(2 * e.lambda2 * torch.eye(len(g)) - h, g)
        torch.testing.assert_close(e.delta, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("method", ["smoothgrad", *SMOOTH])
def test_the_seed_decides(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    first, again, other = (
        ss.explain(case.classifier(), case.x, configured(method, n=4, sigma=0.3), seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(first.delta, again.delta)
    assert not torch.allclose(first.delta, other.delta, rtol=1e-3, atol=0)


@pytest.mark.parametrize("method", ["smoothgrad", *SMOOTH])
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[0], PIECEWISE_LINEAR[3], CURVED[2]], ids=str)
def test_each_item_of_a_batch_starts_from_the_seed_anew(case: Case, method: str) -> None:
    batch = torch.stack([case.x, case.x, 1 - case.x * 0.5])
    together = ss.explain(case.classifier(), list(batch), configured(method, n=4), seed=3, target=[None, 0, 1])
    for x, target, e in zip(batch, (None, 0, 1), together, strict=True):
        alone = ss.explain(case.classifier(), x, configured(method, n=4), seed=3, target=target)
        torch.testing.assert_close(e.delta, alone.delta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_the_global_random_state_is_left_alone(method: str) -> None:
    case = PIECEWISE_LINEAR[0]
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = ss.explain(case.classifier(), case.x, configured(method, n=3, groups="none"))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    again = ss.explain(case.classifier(), case.x, configured(method, n=3, groups="none"))
    assert torch.equal(again.delta, first.delta)


def averaged(case: Case, kind: type[LossHessian], batch_size: int = 2) -> tuple[Tensor, Tensor]:
    """g and all of H as the package averages them."""
    model = case.classifier()
    with model.ready():
        linear = linearise(model, case.x[None], 0)
        noise = Noise(5, 0.2 * float(case.x.max() - case.x.min()), 4, batch_size)
        average = AveragedHessian(linear, kind, noise, record=False)
        return average.gradient, average @ torch.eye(case.x.numel(), dtype=torch.float64)


@pytest.mark.parametrize("case", PIECEWISE_LINEAR, ids=str)
def test_the_averaged_matrix_is_symmetric_and_semidefinite(case: Case) -> None:
    g, h = averaged(case, GaussNewton)
    torch.testing.assert_close(h, h.T, rtol=1e-9, atol=1e-11)
    values = torch.linalg.eigvalsh((h + h.T) / 2)
    assert float(values[0]) >= -1e-10 * float(values[-1])
    expected = dense(case, 0, 5, 0.2, seed=4)
    torch.testing.assert_close(g, expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(h, expected[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_the_averaged_matrix_of_curved_networks(case: Case) -> None:
    g, h = averaged(case, ExactHessian)
    expected = dense(case, 0, 5, 0.2, seed=4)
    torch.testing.assert_close(g, expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(h, expected[1], rtol=1e-9, atol=1e-11)


def test_batches_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    case = PIECEWISE_LINEAR[3]
    model = case.classifier()
    with model.ready():
        one = graph_bytes(model, case.x)
        for memory, size in ((1, 1), (one, 1), (3 * one, 3), (10**12, 20)):
            monkeypatch.setattr("secondsight.operators.noise.GRAPH_MEMORY", memory)
            assert fitting_batch_size(model, case.x, 20) == size
    for method in (*SMOOTH, "smoothgrad", "integrated-gradients"):
        config = configured(method, n=4, n_steps=4)
        for memory, size in ((1, 1), (3 * one, 3), (10**12, 4)):
            monkeypatch.setattr("secondsight.operators.noise.GRAPH_MEMORY", memory)
            _, most = seen_by(case.net, lambda config=config: ss.explain(case.classifier(), case.x, config))
            assert most == size


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_of_the_network_stays_behind(method: str, activation: type[nn.Module]) -> None:
    """No activation outlives its explanation, not even in a circle that the garbage collector cannot see."""
    seen: list[weakref.ref[Tensor]] = []
    first, last = nn.Linear(6, 8), nn.Linear(8, 3)

    def net(x: Tensor) -> Tensor:
        hidden = activation()(first(x))
        seen.append(weakref.ref(hidden))
        return last(hidden)

    ss.explain(ss.Classifier(net, input_shape=(6,)), torch.rand(6), configured(method, n=3, groups="none"))
    gc.collect()
    assert seen
    assert not any(reference() is not None for reference in seen)


def test_weights_are_no_part_of_a_copys_memory() -> None:
    wide = ss.Classifier(nn.Sequential(nn.Linear(1000, 3000), nn.ReLU(), nn.Linear(3000, 4)), input_shape=(1000,))
    x = torch.rand(1000)
    with wide.ready():
        taken = graph_bytes(wide, x)
    weights = sum(tensor.nbytes for tensor in wide.weights())
    # What ReLU keeps of its output is the least that any graph of this network holds.
    assert 3000 * 4 <= taken <= weights / 100


def test_memory_grows_with_the_graph() -> None:
    def taken(depth: int) -> int:
        net = nn.Sequential(*[nn.Sequential(nn.Linear(50, 50), nn.Tanh()) for _ in range(depth)], nn.Linear(50, 3))
        model = ss.Classifier(net, input_shape=(50,))
        with model.ready():
            return graph_bytes(model, torch.rand(50))

    assert taken(20) - taken(10) >= 10 * 50 * 4


class Cramped(nn.Module):
    """Runs out of memory with more than `most` inputs at a time, or with any but the one it knows."""

    def __init__(self, net: nn.Module, most: int, known: Tensor | None = None) -> None:
        super().__init__()
        self.net, self.most, self.known = net, most, known
        self.largest = 0

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most or (self.known is not None and not torch.equal(x.detach()[0], self.known)):
            raise torch.OutOfMemoryError("out of memory")
        self.largest = max(self.largest, len(x))
        return self.net(x)


@pytest.mark.parametrize("method", SMOOTH)
@pytest.mark.parametrize("case", [PIECEWISE_LINEAR[3], CURVED[0]], ids=str)
def test_out_of_memory_takes_smaller_batches(case: Case, method: str) -> None:
    def explained(batch_size: int, most: int) -> tuple[ss.Explanation, int]:
        net = Cramped(case.net, most)
        model = ss.Classifier(net, input_shape=case.x.shape, piecewise_linear=case.piecewise_linear)
        return ss.explain(model, case.x, configured(method, n=8, batch_size=batch_size)), net.largest

    (cramped, largest), (roomy, _) = explained(8, 2), explained(2, 100)
    assert largest == 2
    torch.testing.assert_close(cramped.delta, roomy.delta, rtol=1e-12, atol=1e-15)
    assert cramped.lambda1 == pytest.approx(roomy.lambda1, rel=1e-12)


def test_out_of_memory_midway_counts_no_copy_twice() -> None:
    case = PIECEWISE_LINEAR[3]

    def explained(short: bool) -> ss.SparseExplanation:
        batches: list[int] = []

        def net(x: Tensor) -> Tensor:
            batches.append(len(x))
            if short and len(x) == 4 and batches.count(4) == 2:
                raise torch.OutOfMemoryError("out of memory")
            return case.net(x)

        model = ss.Classifier(net, input_shape=case.x.shape, piecewise_linear=True)
        e = ss.explain(model, case.x, ss.SmoothCAFO(n="auto", noise_tolerance=0.1, batch_size=4))
        assert batches.count(4) == (2 if short else e.smoothing.copies // 4)
        return e

    cramped, roomy = explained(short=True), explained(short=False)
    assert roomy.smoothing.copies > 8
    assert cramped.smoothing.copies == roomy.smoothing.copies
    assert cramped.smoothing.standard_error == pytest.approx(roomy.smoothing.standard_error, rel=1e-6)
    torch.testing.assert_close(cramped.delta, roomy.delta, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("method", SMOOTH)
def test_out_of_memory_with_a_single_copy(method: str) -> None:
    case = PIECEWISE_LINEAR[3]
    net = Cramped(case.net, 100, known=case.x)
    model = ss.Classifier(net, input_shape=case.x.shape, piecewise_linear=True)
    with pytest.raises(ss.ModelError, match="out of memory") as refusal:
        ss.explain(model, case.x, configured(method, n=8, batch_size=8))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_where_torch_differentiates_only_once(batch_size: int) -> None:
    """Neither forward mode nor double backward, so the Jacobian of each copy, row by row; said once."""
    torch.manual_seed(0)
    net, x = Once().double(), torch.rand(6, dtype=torch.float64)
    twin = nn.Sequential(net.first, nn.Tanh(), net.last)
    model = ss.Classifier(net, input_shape=(6,))
    e = ss.explain(model, x, ss.SmoothCASO(n=5, batch_size=batch_size, lambda1=0.0, tolerance=1e-10))
    points = copies(x, 5, 0.15)
    g = torch.stack([gradient(twin, z, e.target) for z in points]).mean(0)
    h = torch.stack([gauss_newton(twin, z) for z in points]).mean(0)
    torch.testing.assert_close(e.delta, torch.linalg.solve(2 * e.lambda2 * torch.eye(6) - h, g), rtol=1e-4, atol=1e-9)
    assert e.certificate.holds
    assert e.curvature == "gauss-newton"
    assert sum("Jacobian" in note for note in e.notes) == 1
    assert sum("twice" in note for note in e.notes) == 1


def test_what_torch_lacks_is_found_out_once() -> None:
    """Not anew for every copy: then each would go through the network twice."""
    torch.manual_seed(0)
    net, calls = Once().double(), []
    net.register_forward_pre_hook(lambda *_: calls.append(1))
    model = ss.Classifier(net, input_shape=(6,))
    e = ss.explain(model, torch.rand(6, dtype=torch.float64), ss.SmoothCASO(n=20, batch_size=1, bound="estimated"))
    assert len(calls) <= 20 * (e.products + 1) + 10


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_proven_bound_is_the_top_eigenvalue(case: Case) -> None:
    e = ss.explain(case.classifier(), case.x, ss.SmoothCASO(bound="proven", n=4))
    top = float(torch.linalg.eigvalsh(dense(case, e.target, 4, 0.15)[1])[-1])
    assert e.certificate.holds
    assert e.certificate.basis == "proven"
    assert e.top_eigenvalue == pytest.approx(max(top, 0), rel=1e-5, abs=1e-12)
    assert e.certificate.top_eigenvalue_bound == pytest.approx(max(top, 0), rel=1e-5, abs=1e-12)


class TestProvenBoundOfManyInputs:
    """All of an averaged H is one pass over the copies for each input: refused beyond a size."""

    def refusal(self, **options: Any) -> str:
        model = ss.Classifier(nn.Sequential(nn.Linear(3000, 4), nn.Tanh(), nn.Linear(4, 3)), input_shape=(3000,))
        with pytest.raises(ss.InputError) as refusal:
            ss.explain(model, torch.rand(3000), ss.SmoothCASO(bound="proven", n=2, **options))
        assert refusal.value.argument == "bound"
        return str(refusal.value)

    def test_in_one_line(self) -> None:
        message = self.refusal()
        assert message.startswith("bound must be 'estimated'")
        assert "\n" not in message

    @pytest.mark.parametrize("curvature", ["auto", "gauss-newton"])
    def test_nothing_is_advised_that_is_refused_as_well(self, curvature: str) -> None:
        assert "gauss-newton" not in self.refusal(curvature=curvature)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_progress_rises_to_the_number_of_products(batch_size: int) -> None:
    case = PIECEWISE_LINEAR[3]
    seen: list[float] = []
    e = ss.explain(case.classifier(), case.x, ss.SmoothCASO(n=5, batch_size=batch_size), progress=seen.append)
    assert seen
    assert seen == sorted(seen)
    assert seen[-1] == e.products
    assert min(seen) > 0


def test_progress_without_copies() -> None:
    case = PIECEWISE_LINEAR[3]
    seen: list[float] = []
    e = ss.explain(case.classifier(), case.x, progress=seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == e.products


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": -1.0}, "sigma must be a finite number of at least 0, not -1.0"),
        ({"sigma": math.nan}, "sigma must be a finite number of at least 0, not nan"),
        ({"sigma": math.inf}, "sigma"),
        ({"n": 0}, "n must be a whole number of at least 1, not 0"),
        ({"n": 1.5}, "n must be a whole number of at least 1, not 1.5"),
        ({"n": True}, "n must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, not 0"),
        ({"batch_size": 2.0}, "batch_size"),
    ],
)
def test_bad_requests(method: str, options: dict[str, Any], message: str) -> None:
    """Refused by whichever method, also one that has no use for them, which then says whose they are."""
    case = PIECEWISE_LINEAR[0]
    (name,) = options
    if name not in METHODS[method].options():
        message = f"{name} must be an option of .*smooth-cafo, smooth-caso, picture, not of {method}"
    with pytest.raises(ss.InputError, match=message) as refusal:
        ss.explain(case.classifier(), case.x, method_of(method, **options))
    assert refusal.value.argument in options
    assert "\n" not in str(refusal.value)


@pytest.fixture(scope="module")
def smoothed() -> dict[str, ss.Explanation]:
    model = ss.load_model("efficientnet-lite0")
    coffee = Image.fromarray(skimage.data.coffee())
    return {method: ss.explain(model, coffee, configured(method, n=4)) for method in SMOOTH}


def test_the_embedded_network_on_a_photograph(smoothed: dict[str, ss.Explanation]) -> None:
    e = smoothed["smooth-caso"]
    assert e.certificate.holds
    assert e.certificate.basis == "estimated"
    assert e.certificate.relative_gap <= 1e-4
    assert e.label in {"espresso", "cup", "coffee mug"}
    assert e.curvature == "gauss-newton"
    assert 0.75 <= e.sparsity < 1
    assert e.products <= 10
    assert e.second_order.sentence.count("Smooth") == 2


def test_first_order_on_a_photograph(smoothed: dict[str, ss.Explanation]) -> None:
    first, second = smoothed["smooth-cafo"], smoothed["smooth-caso"]
    torch.testing.assert_close(first.gradient, second.gradient)
    assert first.certificate.holds
    assert first.certificate.basis == "exact"
    assert 0.75 <= first.sparsity < 1
    expected = (first.gradient.double().abs() - first.lambda1).clamp(min=0) * first.gradient.sign() / 20
    torch.testing.assert_close(first.delta.double(), expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))


class LargeBatchesUnrecorded(nn.Module):
    """The same function of each input, but an operation without a rule in batches of several."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x if len(x) == 1 else x + 0 * x.cumsum(1))


def test_a_pass_over_copies_takes_each_once_whichever_leave_a_tape() -> None:
    """The last batch has one copy: it leaves a tape to keep, the one before does not."""
    x = torch.rand(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = [
        ss.explain(ss.Classifier(LargeBatchesUnrecorded(), input_shape=(6,)), x, ss.SmoothCASO(n=5, batch_size=size))
        for size in (4, 1)
    ]
    assert found[0].top_eigenvalue == pytest.approx(found[1].top_eigenvalue, rel=1e-9)
    torch.testing.assert_close(found[0].delta, found[1].delta, rtol=1e-6, atol=1e-9)
