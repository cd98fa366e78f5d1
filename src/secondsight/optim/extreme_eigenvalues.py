"""The extreme eigenvalues of H: they fix lambda2, the certificate's mu and the shift of an indefinite H."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.optim.krylov_basis import KrylovBasis, top_of_factor

SETTLED = 0.125
"""Bounds within this share of 2 lambda2 - L (2 c1 by default) are good enough: gaps grow by at most a seventh."""

LEAST_PRODUCTS = {True: 3, False: 6}
"""The fewest products of an exploration, by whether H is semidefinite: g, a random probe and a look at what both found
(with two, the bound of L was too low on a test network). An indefinite H has two ends to find: three blocks of two."""

MOST_PRODUCTS = {True: 8, False: 16}
"""The most products of an exploration, about three times the fewest. What is not settled then widens the bound."""


@dataclass(frozen=True)
class Spectrum:
    """The estimated ends of the spectrum of H.

    Attributes:
        top: a lower bound of the largest eigenvalue L, nearly L.
        top_bound: the estimated upper bound of L: Ritz value plus residual, at least `top`.
        negative: the estimated upper bound of -(smallest eigenvalue); 0 for a semidefinite H.
    """

    top: float
    top_bound: float
    negative: float


def estimate(basis: KrylovBasis, psd: bool) -> Spectrum:
    """Read the ends of the spectrum off the basis.

    A top eigenvector that is orthogonal to the whole basis would be missed. That is why `explore` adds a random probe.
    """
    low, high = basis.ritz()
    top = max(high.value, 0.0)
    if psd:
        top = max(top, top_of_factor(basis.factor())[0])
        return Spectrum(top, max(top, high.value + high.residual), 0.0)
    return Spectrum(top, max(top, high.value + high.residual), max(0.0, low.residual - low.value))


def explore(
    H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, margin: Callable[[float], float], seed: int
) -> Spectrum:
    """Take products until the ends of the spectrum are known well enough, starting from g and a random probe.

    For a semidefinite H each further product is taken at the top eigenvector of the Nystrom factor, which sees what the
    random probe has found. For an indefinite H block Krylov steps find both ends.

    Args:
        H: the operator.
        gradient: g, where the exploration starts.
        basis: takes in every product.
        margin: gives 2 lambda2 - L for an L.
        seed: of the random probe.
    """
    generator = torch.Generator().manual_seed(seed)
    probe = torch.randn(len(gradient), generator=generator, dtype=torch.float64).to(gradient)
    rows = torch.stack([gradient, probe])
    rows = rows[rows.any(1)]
    taken = 0
    while True:
        products = (H @ rows.T).T
        taken += len(rows)
        known = len(basis)
        basis.append(rows, products)
        spectrum = estimate(basis, H.psd)
        enough = taken >= LEAST_PRODUCTS[H.psd] and _settled(basis, spectrum, H.psd, margin)
        if enough or taken >= MOST_PRODUCTS[H.psd] or len(basis) == known:
            return spectrum
        rows = top_of_factor(basis.factor())[1][None] if H.psd else basis.products[known:]


def _settled(basis: KrylovBasis, spectrum: Spectrum, psd: bool, margin: Callable[[float], float]) -> bool:
    low, high = basis.ritz()
    uncertain = max(spectrum.top_bound - spectrum.top, spectrum.top - high.value)
    if not psd:
        uncertain = max(uncertain, low.residual)
    return uncertain <= SETTLED * margin(spectrum.top)
