"""What a certificate claims, held against the truth."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import secondsight as ss
from bench.certificates.problems import Problem, problem
from bench.certificates.truth import Dense, Surrogate, surrogate

SEED = 0
"""Of the random numbers of explanations, the default of `explain`."""

SMALL = 1e-100
"""Gradients below this are scaled before they are squared."""


@dataclass(frozen=True)
class Verdict:
    """One problem by one basis.

    Attributes:
        number: of the problem.
        kind: of its network.
        traits: what else was drawn.
        asked: the basis that was asked for.
        basis: the basis that the certificate names.
        holds: whether the certificate says that the map is certified.
        relative_gap: as reported; None: not finite.
        true_gap: best objective minus that of the map, over |objective|.
        products: how many products it took.
        gap_wrong: the reported gap is below the true one, or there is no optimum at all.
        support_wrong: how many zeros or non-zeros are claimed that are none.
        bound_wrong: the bound of L is below L.
        path_wrong: how many objectives of the path, documented as lower bounds, exceed the truth.
        path_points: how many points the path has.
        ratio: the true gap over the reported one.
        shortfall: (L - its bound) / L; positive where the bound is wrong.
        unsettled: the truth was not found well enough to judge the gap.
    """

    number: int
    kind: str
    traits: list[str]
    asked: str
    basis: str
    holds: bool
    relative_gap: float | None
    true_gap: float
    products: int
    gap_wrong: bool
    support_wrong: int
    bound_wrong: bool
    path_wrong: int
    path_points: int
    ratio: float
    shortfall: float
    unsettled: bool

    @property
    def wrong(self) -> bool:
        """Whether the certificate claims something false of the map."""
        return self.gap_wrong or self.support_wrong > 0


def judge(seed: int, number: int, bounds: list[str]) -> list[dict[str, Any]]:
    """Explain a problem with each basis, and compare with the truth."""
    drawn = problem(seed, number)
    truth = surrogate(drawn, SEED)
    return [asdict(_judged(drawn, number, truth, bound)) for bound in bounds]


def _judged(drawn: Problem, number: int, truth: Surrogate, bound: str) -> Verdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.SecondsightWarning)
        method = drawn.method.with_options(bound=bound)
        e = ss.explain(drawn.classifier(), drawn.x, method, target=drawn.target, seed=SEED)
    assert isinstance(e, ss.SecondOrderExplanation)
    certificate = e.certificate
    # Objectives are squares of gradients, which may underflow. With g and lambda1 times a scale, maps are times it.
    largest = float(abs(truth.g).max())
    scale = 2.0 ** -math.floor(math.log2(largest)) if 0 < largest < SMALL else 1.0
    truth = replace(truth, g=truth.g * scale)
    dense = Dense(truth, e.groups, e.lambda1 * scale, e.lambda2)
    delta = e.delta.double().flatten().numpy() * scale
    value, noise = dense.value(delta), dense.rounding(delta)
    finite = math.isfinite(certificate.gap)
    gap = certificate.gap if scale == 1 or not finite else certificate.relative_gap * abs(value)
    missing, support_wrong, unsettled = 0.0, 0, False
    if dense.mu > 0:
        optimum = dense.optimum()
        noise = max(noise, dense.rounding(optimum.delta))
        missing = max(0.0, optimum.value - value)
        zero, nonzero = (mask.flatten().numpy() for mask in (certificate.support.zero, certificate.support.nonzero))
        support_wrong = int((zero & optimum.nonzero).sum() + (nonzero & optimum.zero).sum())
        unsettled = finite and missing <= gap + noise < missing + optimum.gap - noise
    points = [
        (p, Dense(truth, e.groups, p.lambda1 * scale, e.lambda2), p.delta.double().flatten().numpy() * scale)
        for p in e.path
    ]
    return Verdict(
        number=number,
        kind=drawn.kind,
        traits=list(drawn.traits),
        asked=bound,
        basis=certificate.basis,
        holds=certificate.holds,
        relative_gap=certificate.relative_gap if math.isfinite(certificate.relative_gap) else None,
        true_gap=missing / abs(value) if value else 0.0,
        products=e.products,
        gap_wrong=finite and (dense.mu <= 0 or missing > gap + noise),
        support_wrong=support_wrong,
        bound_wrong=certificate.top_eigenvalue_bound < truth.top * (1 - 1e-12),
        path_wrong=sum(p.objective * scale * scale > d.value(map_) + d.rounding(map_) for p, d, map_ in points),
        path_points=len(points),
        ratio=missing / gap if gap and missing > noise else 0.0,
        shortfall=1 - certificate.top_eigenvalue_bound / truth.top if truth.top > 0 else 0.0,
        unsettled=bool(unsettled),
    )
