"""The extreme eigenvalues of H: they fix lambda2, the certificate's mu and the shift of an indefinite H."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.solve.asking import Asking, Budget
from secondsight.solve.basis import Basis, top_of_factor

SETTLED = 0.125
"""Bounds within this share of 2 lambda2 - L (2 c1 by default), what keeps the problem concave, are good enough."""

LEAST_PRODUCTS = {True: 3, False: 6}
MOST_PRODUCTS = {True: 8, False: 16}
"""How many products an exploration takes, by whether H is semidefinite."""


@dataclass(frozen=True)
class Spectrum:
    """Estimated ends of H's spectrum.

    top: a lower bound of the largest eigenvalue L, nearly L.
    top_bound: the estimated upper bound of L: Ritz value plus residual, at least `top`.
    negative: the estimated bound of -(smallest eigenvalue); 0 for a semidefinite H.
    """

    top: float
    top_bound: float
    negative: float


def estimate(basis: Basis, semidefinite: bool) -> Spectrum:
    """What the basis tells. It would miss a top eigenvector orthogonal to all of it: hence the random probe."""
    low, high = basis.ritz()
    top = max(high.value, 0.0)
    if semidefinite:
        top = max(top, top_of_factor(basis.factor())[0])
        return Spectrum(top, max(top, high.value + high.residual), 0.0)
    return Spectrum(top, max(top, high.value + high.residual), max(0.0, low.residual - low.value))


def explore(
    budget: Budget,
    gradient: Tensor,
    basis: Basis,
    margin: Callable[[float], float],
    semidefinite: bool,
    seed: int,
) -> Asking[Spectrum]:
    """Take products until the ends of the spectrum are known well enough, starting from g and a random probe.

    `margin` gives 2 lambda2 - L for an L.

    For a semidefinite H each further product is taken at the top eigenvector of the Nystrom factor, which sees what
    the random probe has found; for an indefinite one by block Krylov steps, which find both ends.
    """
    generator = torch.Generator().manual_seed(seed)
    probe = torch.randn(len(gradient), generator=generator, dtype=torch.float64).to(gradient)
    rows = torch.stack([gradient, probe])
    rows = rows[rows.any(1)]
    taken = 0
    while True:
        products = yield from budget.products(rows)
        taken += len(rows)
        known = len(basis)
        basis.append(rows, products)
        spectrum = estimate(basis, semidefinite)
        enough = taken >= LEAST_PRODUCTS[semidefinite] and _settled(basis, spectrum, semidefinite, margin)
        if enough or taken >= MOST_PRODUCTS[semidefinite] or len(basis) == known:
            return spectrum
        rows = top_of_factor(basis.factor())[1][None] if semidefinite else basis.products[known:]


def _settled(basis: Basis, spectrum: Spectrum, semidefinite: bool, margin: Callable[[float], float]) -> bool:
    low, high = basis.ritz()
    uncertain = max(spectrum.top_bound - spectrum.top, spectrum.top - high.value)
    if not semidefinite:
        uncertain = max(uncertain, low.residual)
    return uncertain <= SETTLED * margin(spectrum.top)
