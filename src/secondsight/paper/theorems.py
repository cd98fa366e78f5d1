"""Theorems 2 to 5, the corollary and section 4, checked on small dense problems: where they hold, and where they stop.

Everything is float64 and dense, on random networks, because the theorems assume no training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from secondsight.optim.penalties import L1
from secondsight.paper.finding import Finding

INPUTS = 200
"""d, the number of inputs of the linear models: so small that the eigenvalues of hundreds of Hessians take seconds."""

C1 = 10.0
"""The paper's value of c1."""

CLASSES = (2, 3, 5, 10, 30, 100, 300)
"""Numbers of classes, about evenly spaced on a logarithmic axis."""

TAILS = (1e-1, 1e-2, 1e-3, 1e-4)
"""Values of 1 - p, from a doubtful prediction to a sure one."""

ITERATIONS = 200
"""Steps of each method: enough to see the rates on logarithmic axes."""


@dataclass(frozen=True)
class Check:
    """One statement of the paper, checked.

    Attributes:
        statement: the statement.
        holds: whether it holds here.
        measured: the number that shows it, in words.
    """

    statement: str
    holds: bool
    measured: str


def theorems(quick: bool = False, seed: int = 0) -> Finding:
    """Check each statement on random problems.

    Args:
        quick: 2 instead of 10 random problems for a statement.
        seed: of the random problems.
    """
    torch_seed = torch.Generator().manual_seed(seed)
    repeats = 2 if quick else 10
    curves = _by_classes(torch_seed, repeats)
    descent = _descent(torch_seed)
    checks = [
        *_semidefinite(torch_seed, repeats),
        _concave(torch_seed, repeats),
        *_rank_one(curves, torch_seed),
        *_parallel(curves, torch_seed),
        *_rates(descent),
    ]
    failed = [check.statement for check in checks if not check.holds]
    return Finding(
        name="theorems",
        where="Theorems 2-5, corollary, section 4",
        claim="The input Hessian of a ReLU network is semidefinite; the objective is concave from L/2 on; with many "
        "classes and high confidence the Hessian has rank one and CASO is parallel to CAFO; FISTA converges as 1/t^2.",
        measured=f"{len(checks) - len(failed)} of {len(checks)} statements hold as written. "
        + (f"Not so: {'; '.join(failed)}." if failed else ""),
        verdict="holds in part" if failed else "holds",
        numbers={"seed": seed, "checks": [asdict(check) for check in checks], "curves": curves, "descent": descent},
        figures=[_figure(curves, descent)],
    )


def random_net(activation: Callable[[], nn.Module], generator: torch.Generator, classes: int = 6) -> nn.Module:
    """Make a network of three linear layers, from 20 inputs to logits, with random weights.

    Args:
        activation: makes the layer between two linear ones.
        generator: the source of randomness.
        classes: the number of logits.
    """
    net = nn.Sequential(
        nn.Linear(20, 30), activation(), nn.Linear(30, 30), activation(), nn.Linear(30, classes)
    ).double()
    for parameter in net.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data.copy_(noise * (2 / parameter.shape[-1]) ** 0.5)
    return net


def hessian(net: nn.Module, x: Tensor) -> Tensor:
    """Compute by autograd the Hessian in x of the cross-entropy loss of the predicted class."""
    y = net(x[None]).argmax(1)
    result: Tensor = torch.autograd.functional.hessian(lambda z: nn.functional.cross_entropy(net(z[None]), y), x)
    return result


def closed_form(net: nn.Module, x: Tensor) -> Tensor:
    """Compute the Hessian by proposition 1, W (diag p - pp') W', which holds for ReLU networks."""
    w: Tensor = torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x).T
    p = net(x[None])[0].detach().softmax(0)
    return w @ (torch.diag(p) - torch.outer(p, p)) @ w.T


def softmax_problem(classes: int, tail: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the gradient g and the Hessian H of a random linear model.

    Args:
        classes: the number of classes.
        tail: the probabilities of all classes but the first.
        generator: the source of randomness.
    """
    w = torch.randn(INPUTS, classes, generator=generator, dtype=torch.float64) / math.sqrt(INPUTS)
    p = torch.cat([1 - tail.sum(0, keepdim=True), tail])
    residual = torch.cat([-tail.sum(0, keepdim=True), tail])
    covariance = torch.diag(p) - torch.outer(p, p)
    covariance[0, 0] = p[0] * tail.sum()
    return w @ residual, w @ covariance @ w.T


def even_tail(classes: int, missing: float) -> Tensor:
    """Share the probability `missing` evenly among all classes but the first."""
    return torch.full((classes - 1,), missing / (classes - 1), dtype=torch.float64)


def cosine(u: Tensor, v: Tensor) -> float:
    """Return the cosine of the angle between two vectors."""
    return float(u @ v / u.norm() / v.norm())


def _semidefinite(generator: torch.Generator, repeats: int) -> list[Check]:
    lowest, error, curved = 0.0, 0.0, 0.0
    for _ in range(repeats):
        x = torch.randn(20, generator=generator, dtype=torch.float64)
        net = random_net(nn.ReLU, generator)
        h = hessian(net, x)
        values = torch.linalg.eigvalsh(h)
        lowest = min(lowest, float(values[0] / values[-1]))
        error = max(error, float((h - closed_form(net, x)).norm() / h.norm()))
        bent = torch.linalg.eigvalsh(hessian(random_net(nn.Softplus, generator), x))
        curved = min(curved, float(bent[0] / bent.abs().max()))
    return [
        Check("proposition 1: H = W (diag p - pp') W' for ReLU networks", error < 1e-10, f"relative error {error:.0e}"),
        Check(
            "theorem 2: H is semidefinite for ReLU networks", lowest > -1e-10, f"smallest eigenvalue {lowest:.0e} of L"
        ),
        Check(
            "and only for them: softplus networks have negative eigenvalues",
            curved < -1e-6,
            f"{curved:.2g} of the largest in size",
        ),
    ]


def _concave(generator: torch.Generator, repeats: int) -> Check:
    good = True
    for _ in range(repeats):
        _, h = softmax_problem(5, even_tail(5, 0.5), generator)
        top = float(torch.linalg.eigvalsh(h)[-1])
        eye = torch.eye(INPUTS, dtype=torch.float64)
        above, below = (
            float(torch.linalg.eigvalsh(2 * share * top / 2 * eye - h)[0]) for share in (1 + 1e-6, 1 - 1e-6)
        )
        good &= above > 0 > below
    return Check("theorem 3: strongly concave exactly when lambda2 > L/2", good, "checked at L/2 (1 +- 1e-6)")


def _by_classes(generator: torch.Generator, repeats: int) -> dict[str, Any]:
    """Compute the second eigenvalue over the first, and the angle of CASO and CAFO, by classes and 1 - p."""
    second: list[list[float]] = []
    angle: list[list[float]] = []
    for missing in TAILS:
        rows = [[_once(c, missing, generator) for _ in range(repeats)] for c in CLASSES]
        second.append([sum(pair[0] for pair in row) / repeats for row in rows])
        angle.append([sum(pair[1] for pair in row) / repeats for row in rows])
    return {"classes": list(CLASSES), "missing": list(TAILS), "second_eigenvalue": second, "angle": angle}


def _once(classes: int, missing: float, generator: torch.Generator) -> tuple[float, float]:
    g, h = softmax_problem(classes, even_tail(classes, missing), generator)
    values = torch.linalg.eigvalsh(h)
    # c1 in proportion to L, because a fixed c1 makes everything parallel as L goes to 0.
    lambda2 = float(values[-1]) / 2 * 1.1
    caso = torch.linalg.solve(2 * lambda2 * torch.eye(INPUTS, dtype=torch.float64) - h, g)
    return float(values[-2] / values[-1]), math.degrees(math.acos(min(1.0, cosine(caso, g))))


def _rank_one(curves: dict[str, Any], generator: torch.Generator) -> list[Check]:
    by_classes = curves["second_eigenvalue"][-1]
    uneven = torch.tensor([0.7, 0.3], dtype=torch.float64) * 1e-6
    values = torch.linalg.eigvalsh(softmax_problem(3, uneven, generator)[1])
    two = float(values[-2] / values[-1])
    return [
        Check(
            "theorem 4: rank one as the classes grow and p tends to 1",
            by_classes[-1] < 0.05,
            f"second eigenvalue {by_classes[-1]:.3f} of the first at {CLASSES[-1]} classes",
        ),
        Check(
            "theorem 4 needs many classes of equal probability, not p near 1 alone",
            two > 0.05,
            f"with two other classes, at 1 - p = 1e-6, the second eigenvalue is {two:.2f} of the first",
        ),
    ]


def _parallel(curves: dict[str, Any], generator: torch.Generator) -> list[Check]:
    angles = curves["angle"][-1]
    g, h = softmax_problem(2, even_tail(2, 0.3), generator)
    lambda2 = float(torch.linalg.eigvalsh(h)[-1]) / 2 + C1
    caso = torch.linalg.solve(2 * lambda2 * torch.eye(INPUTS, dtype=torch.float64) - h, g)
    m = 0.7 / 0.3 * float(g @ g)
    exact = float((caso - g / (2 * lambda2 - m)).norm() / caso.norm())
    paper = float(g @ g) / 0.3
    return [
        Check(
            "theorem 5: CASO is nearly parallel to CAFO with many classes and high p",
            angles[-1] < 5,
            f"{angles[-1]:.1f} degrees at {CLASSES[-1]} classes, {max(angles):.1f} at most",
        ),
        Check(
            "with two classes CASO = g / (2 lambda2 - m), m = p |g|^2 / (1 - p), exactly",
            exact < 1e-10,
            f"relative error {exact:.0e}",
        ),
        Check(
            "theorem 5's own m = |g|^2 / (eps (c - 1)) at p = 0.7",
            abs(paper - m) < 0.01 * m,
            f"{paper / m:.2f} times too large: it is the limit as p tends to 1",
        ),
    ]


def _descent(generator: torch.Generator) -> dict[str, list[float]]:
    """Run FISTA, proximal steps and subgradient steps on one problem.

    Returns:
        The gap of each method after every step, the corollary's bound, and the share of zeros in the last maps.
    """
    g, h = softmax_problem(10, even_tail(10, 0.6), generator)
    g, h = g * 20, h * 400
    lambda2 = float(torch.linalg.eigvalsh(h)[-1]) / 2 + 1.0
    lambda1 = 0.6 * float(g.abs().max())
    step = 1 / (2 * lambda2)

    def value(delta: Tensor) -> float:
        smooth = g @ delta + delta @ h @ delta / 2 - lambda2 * delta @ delta
        return float(smooth - lambda1 * delta.abs().sum())

    def slope(delta: Tensor) -> Tensor:
        return g + h @ delta - 2 * lambda2 * delta

    def proximal(delta: Tensor) -> Tensor:
        return L1().threshold(delta + step * slope(delta), step * lambda1)

    best = torch.zeros_like(g)
    for _ in range(200_000):
        new = proximal(best)
        if torch.equal(new, best):
            break
        best = new
    zero = torch.zeros_like(g)
    plain, sub, fista, y, t = zero, zero, zero, zero, 1.0
    gaps: dict[str, list[float]] = {"fista": [], "proximal": [], "subgradient": []}
    for _ in range(ITERATIONS):
        plain = proximal(plain)
        sub = sub + step * (slope(sub) - lambda1 * sub.sign())
        new = proximal(y)
        t_new = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y, fista, t = new + (t - 1) / t_new * (new - fista), new, t_new
        for name, delta in (("fista", fista), ("proximal", plain), ("subgradient", sub)):
            gaps[name].append(max(0.0, value(best) - value(delta)))
    bound = [2 * float(best @ best) / (step * (i + 2) ** 2) for i in range(ITERATIONS)]
    zeros = {
        "zeros_proximal": [float((plain == 0).double().mean())],
        "zeros_subgradient": [float((sub == 0).double().mean())],
    }
    return gaps | {"bound": bound} | zeros


def _rates(descent: dict[str, list[float]]) -> list[Check]:
    inside = all(gap <= bound * (1 + 1e-9) for gap, bound in zip(descent["fista"], descent["bound"], strict=True))
    ratio = descent["subgradient"][-1] / max(descent["fista"][-1], 1e-300)
    kept, lost = descent["zeros_proximal"][0], descent["zeros_subgradient"][0]
    return [
        Check(
            "corollary: FISTA with step 1/(2 lambda2) stays below 2 |D*|^2 / (step (t+1)^2)",
            inside,
            f"gap {descent['fista'][-1]:.0e} after {ITERATIONS} steps, bound {descent['bound'][-1]:.0e}",
        ),
        Check(
            "section 4: gradient steps on the L1 term converge poorly and leave no zeros",
            ratio > 100 and lost < 0.5 * kept,
            f"zeros {lost:.0%} against {kept:.0%} by proximal steps; gap {descent['subgradient'][-1]:.0e}",
        ),
    ]


def _figure(curves: dict[str, Any], descent: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(13, 3.8), dpi=120, layout="constrained")
    first, second, third = figure.subplots(1, 3)
    for i, missing in enumerate(TAILS):
        first.semilogx(CLASSES, curves["second_eigenvalue"][i], "o-", label=f"1 - p = {missing:g}")
        second.semilogx(CLASSES, curves["angle"][i], "o-", label=f"1 - p = {missing:g}")
    first.set(xlabel="classes", ylabel="second eigenvalue / first", title="Theorem 4")
    second.set(xlabel="classes", ylabel="degrees between CASO and CAFO", title="Theorem 5, c1 = L / 20")
    first.legend()
    for name in ("fista", "proximal", "subgradient"):
        third.loglog(range(1, ITERATIONS + 1), [max(gap, 1e-16) for gap in descent[name]], label=name)
    third.loglog(range(1, ITERATIONS + 1), descent["bound"], "k:", label="the corollary's bound")
    third.set(xlabel="iterations", ylabel="distance from the optimum", title="Corollary and section 4")
    third.legend()
    return figure
