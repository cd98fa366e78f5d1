"""The extreme eigenvalues of H, found from products: they fix lambda2, and the bounds of a certificate start here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator
from secondsight.optim.krylov_basis import KrylovBasis

SETTLED = 0.125
"""Bounds within this share of 2 lambda2 - L (2 c1 by default) are good enough: gaps grow by at most a seventh."""

LEAST_PRODUCTS = {True: 3, False: 5}
"""The fewest products of an exploration, by whether H is semidefinite: g, a random probe and a look at what both found
(with two, the bound of L was too low on a test network). In an indefinite H the other end of the spectrum hides more of
the top."""

ROOMY_PRODUCTS = 3
"""The fewest products where 2 lambda2 - L is ROOMY times as large as both ends of the spectrum."""

VERY_ROOMY_PRODUCTS = {True: 2, False: 3}
"""The same where 2 lambda2 - L is VERY_ROOMY times as large. For a semidefinite H, g and the probe are enough."""

LOOSE = 0.25
"""The share to which the smallest eigenvalue is known when it counts as settled."""

UNSETTLED = 2.0
"""An unsettled bound of the smallest eigenvalue is multiplied by this. It only widens the proof of zeros, by little:
2 lambda2, which it is added to, is larger."""

MOST_PRODUCTS = {True: 8, False: 16}
"""The most products of an exploration, about three times the fewest. What is not settled then widens the bound."""

HIDING = 1.0
"""Where H orthogonal to g has a Frobenius norm of more than this share of L, one more product is taken there."""

ROOMY = 2.0
"""Where 2 lambda2 - L is this many times L, no hidden eigenvalue of the sizes that were met can matter."""

VERY_ROOMY = 4.0
"""Where 2 lambda2 - L is this many times L, only an eigenvalue of several times the size of all that g and a random
probe have shown could make a certificate wrong."""

COMPANION_PASS = 3
"""The pass over the network that also takes a companion: before, too little of H is known to choose one."""


@dataclass(frozen=True)
class Spectrum:
    """The ends of the spectrum of H as far as products show them.

    Attributes:
        top: a lower bound of the largest eigenvalue L, nearly L.
        top_bound: an estimated upper bound of L: Ritz value plus residual, at least `top`.
        negative: an estimated upper bound of -(smallest eigenvalue); 0 for a semidefinite H.
    """

    top: float
    top_bound: float
    negative: float


@dataclass(frozen=True)
class Search:
    """What an exploration is to find out.

    Attributes:
        margin: a function from L to 2 lambda2 - L.
        seed: of the random probe.
        both_ends: whether the bottom of an indefinite spectrum must be settled, too.
        companion: gives a vector that the caller will want to know the product of, given what is known so far. It is
            taken in the same pass as another product, where that costs less than a pass of its own. None: no companion.
    """

    margin: Callable[[float], float]
    seed: int
    both_ends: bool = False
    companion: Callable[[Spectrum], Tensor] | None = None


def estimate(basis: KrylovBasis, psd: bool) -> Spectrum:
    """Read the ends of the spectrum off the basis.

    A top eigenvector that is orthogonal to the whole basis would be missed. That is why `explore` adds a random probe.
    """
    low, high = basis.ritz()
    top = max(high.value, 0.0)
    if psd:
        top = max(top, basis.top()[0])
        return Spectrum(top, max(top, high.value + high.residual), 0.0)
    wider = 1.0 if low.residual <= LOOSE * abs(low.value) else UNSETTLED
    return Spectrum(top, max(top, high.value + high.residual), wider * max(0.0, low.residual - low.value))


def start(H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, seed: int) -> None:
    """Take the first two products: at g, and at a random probe orthogonal to it."""
    rows = basis.new_directions(torch.stack([gradient, random_vector(gradient, seed)]))
    basis.extend(rows, (H @ rows.T).T)
    # If there is only one direction, it is g, unless g is zero.
    basis.probe = len(basis) - 1 if len(basis) > 1 or not bool(gradient.any()) else None


def explore(H: SymmetricOperator, gradient: Tensor, basis: KrylovBasis, search: Search) -> Spectrum:
    """Take products until the top of the spectrum is known well enough, starting from g and a random probe.

    For a semidefinite H each further product is taken at the top eigenvector of the Nystrom factor, which sees what the
    random probe has found. For an indefinite H, the products of g and of the probe are multiplied with H once more.
    Then each product is taken at the residual of the largest Ritz value until this value is settled, and after that
    perhaps at the residual of the smallest Ritz value.

    Args:
        H: the operator.
        gradient: g, where the exploration starts.
        basis: takes in every product.
        search: what to find out.
    """
    start(H, gradient, basis, search.seed)
    known, looked_aside, passes = 0, not H.psd, 1
    while True:
        spectrum = estimate(basis, H.psd)
        margin = search.margin(spectrum.top)
        top_is_settled, all_is_settled = _settled(basis, spectrum, search.both_ends and not H.psd, margin)
        least = _least_products(H.psd, margin, max(spectrum.top_bound, spectrum.negative))
        enough = len(basis) >= least and all_is_settled
        aside = enough and not looked_aside and _may_hide(basis, spectrum.top, margin)
        if (enough and not aside) or len(basis) >= MOST_PRODUCTS[H.psd] or len(basis) == known:
            return spectrum
        if aside and basis.probe is not None:
            looked_aside, rows = True, basis.products[basis.probe][None]
        else:
            rows = basis.top()[1][None] if H.psd else _next_direction(basis, known, top_is_settled)
        passes += 1
        if passes == COMPANION_PASS and search.companion is not None:
            rows = torch.cat([rows, search.companion(spectrum)[None]])
        rows, known = basis.new_directions(rows), len(basis)
        basis.extend(rows, (H @ rows.T).T)


def random_vector(like: Tensor, seed: int) -> Tensor:
    """Draw a Gaussian vector, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(like), generator=generator, dtype=torch.float64, device="cpu").to(like)


def size_beside_gradient(basis: KrylovBasis, known: float = -1.0) -> float:
    """Estimate the Frobenius norm of H restricted to what is orthogonal to g, from the product of the random probe.

    Args:
        basis: what is known of H.
        known: eigenvectors that are known with a residual of at most this do not count.
    """
    if basis.probe is None:
        return 0.0
    # In the coordinates of the basis, because its vectors are long.
    along = basis.cross[:, basis.probe]
    known_part = along.clone()
    known_part[basis.probe :] = 0
    if known >= 0:
        values, coordinates, residuals = basis.ritz_coordinates()
        settled = coordinates[:, residuals <= known]
        known_part += settled @ (values[residuals <= known] * settled[basis.probe])
    square = float(basis.squares[basis.probe, basis.probe] - 2 * known_part @ along + known_part @ known_part)
    return math.sqrt(max(square, 0.0) * (basis.vectors.length - basis.probe))


def _least_products(psd: bool, margin: float, size: float) -> int:
    """Choose the fewest products for a 2 lambda2 - L of `margin`, and a spectrum of `size`."""
    if margin >= VERY_ROOMY * size:
        return VERY_ROOMY_PRODUCTS[psd]
    return ROOMY_PRODUCTS if margin >= ROOMY * size else LEAST_PRODUCTS[psd]


def _may_hide(basis: KrylovBasis, top: float, margin: float) -> bool:
    """Whether an eigenvalue that matters may be hidden orthogonal to g: H is large there, and the margin is not."""
    return size_beside_gradient(basis) > HIDING * top and margin < ROOMY * top


def _settled(basis: KrylovBasis, spectrum: Spectrum, both_ends: bool, margin: float) -> tuple[bool, bool]:
    """Whether the top of the spectrum is known well enough, and whether the bottom is, too, if it is wanted."""
    low, high = basis.ritz()
    most = SETTLED * margin
    top = max(spectrum.top_bound - spectrum.top, spectrum.top - high.value) <= most
    return top, top and (not both_ends or low.residual <= max(most, LOOSE * abs(low.value)))


def _next_direction(basis: KrylovBasis, known: int, top_is_settled: bool) -> Tensor:
    """Go on from the products of g and of the random probe; then from the residual of the end that is less known."""
    if known == 0:
        return basis.products.tensor()
    return basis.residual(bottom=top_is_settled)[None]
