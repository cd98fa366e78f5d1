"""Upper bounds of the Hessian's largest eigenvalue L: what a certificate rests on.

proven      from all of H
probable    from a random start: wrong with a stated probability at most
estimated   from what the products have shown, with a margin: it rests on experience only
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.optim.extreme_eigenvalues import (
    Search,
    Spectrum,
    estimate,
    explore,
    random_vector,
    size_beside_gradient,
    start,
)
from secondsight.optim.krylov_basis import MOSTLY_NOISE, KrylovBasis
from secondsight.optim.small_matrices import identity

Basis = Literal["exact", "proven", "probable", "estimated"]
"""What a proof rests on: a closed form, or one of these bounds."""

CROWDED = 2.0
"""Many eigenvalues crowd the top if H orthogonal to g has a Frobenius norm of this many times the largest found."""

UNSEEN = 0.15
"""In a crowd, L may be above what few products have shown by this share."""

MOST_RANDOM_STEPS = 10
"""Steps from a random start. Each takes a product."""

OTHER_SEED = 982451653
"""Added to the seed, for a random start that does not depend on the first probe. torch looks at 32 bits only."""

SETTLED = 0.25
"""Steps end when the bound is above L by no more than this share of 2 lambda2 - L."""


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of L, of -(smallest eigenvalue) and, where all of a semidefinite H is known, of its diagonal.

    If `top` is infinite, L has no bound, and `negative` is only an estimate.
    """

    top: float
    negative: float
    diagonal: Tensor | None = None


class TopBound(ABC):
    """A way to bound the spectrum of H."""

    name: ClassVar[Basis]

    @abstractmethod
    def explore(self, H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, search: Search) -> Spectrum:
        """Take the products that fix lambda2, and those that the bound needs."""

    @abstractmethod
    def at(self, basis: KrylovBasis, psd: bool, lambda2: float) -> Bounds:
        """Bound the spectrum by what the basis knows now."""


@dataclass(frozen=True)
class Proven(TopBound):
    """Bounds that were computed from all of H."""

    name = "proven"

    bounds: Bounds

    def explore(self, H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, search: Search) -> Spectrum:
        """Only start the basis: L is known."""
        start(H, gradient, basis, search.seed)
        return Spectrum(self.bounds.top, self.bounds.top, self.bounds.negative)

    def at(self, basis: KrylovBasis, psd: bool, lambda2: float) -> Bounds:
        """Return what was computed."""
        return self.bounds


@dataclass(frozen=True)
class Estimated(TopBound):
    """Ritz value plus residual, plus a margin: half of the distance from there to 2 lambda2.

    The margin makes gaps at most twice as large. The bound holds if L is underestimated by no more than the margin.
    """

    name = "estimated"

    def explore(self, H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, search: Search) -> Spectrum:
        """Take products until L is settled."""
        return explore(H, gradient, basis, search)

    def at(self, basis: KrylovBasis, psd: bool, lambda2: float) -> Bounds:
        """Add the margin. No bound can be given where many eigenvalues crowd the top and the margin is small."""
        spectrum = estimate(basis, psd)
        margin = max(0.0, lambda2 - spectrum.top_bound / 2)
        if margin < UNSEEN * spectrum.top and _is_crowded(basis, spectrum.top, margin, psd):
            return Bounds(math.inf, spectrum.negative)
        return Bounds(spectrum.top_bound + margin, 0.0 if psd else spectrum.negative + margin)


def _is_crowded(basis: KrylovBasis, top: float, margin: float, psd: bool) -> bool:
    """Whether many eigenvalues may crowd the top.

    H orthogonal to g is then large. An indefinite H is always large there, because it has thousands of small
    eigenvalues of either sign. For such an H, the second Ritz value must be near the top, too.
    """
    if size_beside_gradient(basis, margin) <= CROWDED * top:
        return False
    values = torch.linalg.eigvalsh(basis.projected())
    return psd or len(values) < 2 or float(values[-2]) > (1 - UNSEEN) * top


@dataclass
class Probable(TopBound):
    """A bound that a random start gives, wrong with probability `failure` at most.

    Let P project on what is orthogonal to the earlier vectors V of the basis. k Lanczos steps on PHP from a random
    start give a Ritz value theta, and with probability 1 - failure the largest eigenvalue of PHP is at most

        rest = theta cosh^2( arccosh(sqrt(2d / pi) / failure) / (2k - 1) )        (H >= 0)

    for every k at once. With A = V'HV and C the part of HV outside of V, H is at most [[A, C'], [C, rest I]], whose
    largest eigenvalue is that of a small matrix. A crude bound of the rest will do: it enters with C^2 / (L - rest).
    """

    name = "probable"

    failure: float
    rest: Bounds = field(init=False)

    def explore(self, H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, search: Search) -> Spectrum:
        """Take products until L is settled, then steps from a fresh random start until the bound is settled."""
        explore(H, gradient, basis, search)
        known = len(basis)
        # The start is independent of the vectors before it.
        rows = basis.new_directions(random_vector(gradient, search.seed + OTHER_SEED)[None])
        self.rest = Bounds(0.0, 0.0) if len(rows) == 0 else Bounds(math.inf, math.inf)
        steps = 0
        while len(rows) and steps < MOST_RANDOM_STEPS:
            basis.extend(rows, (H @ rows.T).T)
            steps += 1
            rows = basis.new_directions(basis.products[len(basis) - 1][None], least=MOSTLY_NOISE * basis.rounding)
            self.rest = self._rest(basis, known, H.psd, exhausted=len(rows) == 0)
            spectrum = estimate(basis, H.psd)
            bounds = self._bounds(basis, H.psd)
            if bounds.top - spectrum.top <= SETTLED * search.margin(spectrum.top):
                break
        return estimate(basis, H.psd)

    def at(self, basis: KrylovBasis, psd: bool, lambda2: float) -> Bounds:
        """Bound by all products so far."""
        return self._bounds(basis, psd)

    def _rest(self, basis: KrylovBasis, known: int, psd: bool, exhausted: bool) -> Bounds:
        """Bound the spectrum of PHP by the steps since `known`."""
        values = torch.linalg.eigvalsh(basis.projected()[known:, known:])
        low, high = float(values[0]), float(values[-1])
        if exhausted:
            return Bounds(max(high, 0.0), 0.0 if psd else max(-low, 0.0))
        k, size = len(values), basis.vectors.length - known
        # For an indefinite H, the bound may fail at either end of the spectrum.
        failure = self.failure if psd else self.failure / 2
        angle = math.acosh(max(1.0, math.sqrt(2 * size / math.pi) / failure)) / (2 * k - 1)
        if psd:
            return Bounds(max(high, 0.0) * math.cosh(min(angle, 300.0)) ** 2, 0.0)
        share = math.tanh(angle) ** 2
        if share >= 0.5:
            return Bounds(math.inf, math.inf)
        spread = share / (1 - 2 * share) * (high - low)
        return Bounds(max(high + spread, 0.0), max(spread - low, 0.0))

    def _bounds(self, basis: KrylovBasis, psd: bool) -> Bounds:
        matrix = basis.projected()
        # The inner products of HV - V V'HV, the part of HV outside of V.
        gram = basis.squares - matrix @ basis.cross - basis.cross.T @ matrix + matrix @ basis.overlaps @ matrix
        top = max(_largest(matrix, gram, self.rest.top), 0.0)
        if psd:
            return Bounds(top, 0.0)
        negative = _largest(-matrix, gram, self.rest.negative)
        return Bounds(top, max(negative, 0.0) if math.isfinite(negative) else estimate(basis, psd).negative)


def _largest(matrix: Tensor, gram: Tensor, rest: float) -> float:
    """Compute the largest eigenvalue of [[A, C'], [C, rest I]], given A and C'C."""
    if not math.isfinite(rest):
        return math.inf
    values, vectors = torch.linalg.eigh(gram)
    root = values.clamp(min=0).sqrt()[:, None] * vectors.T
    whole = torch.cat([torch.cat([matrix, root.T], 1), torch.cat([root, rest * identity(root)], 1)])
    return float(torch.linalg.eigvalsh(whole)[-1])
