"""What is known of H from exact products: a growing orthonormal basis V and HV."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST = 1e-7
"""Smallest kept eigenvalue of the basis' correlation matrix in H: below it float32 products are noise."""

NOISE = 1e-3
"""Largest share of H's size that rounding may add to its factor in one direction."""


@dataclass(frozen=True)
class RitzPair:
    """An approximate eigenvalue, the norm of its residual (an exact eigenvalue lies within it), and its vector."""

    value: float
    residual: float
    vector: Tensor


class Basis:
    """Rows V, orthonormal, with their exact products HV.

    dtype: the precision the products were computed in.
    shares: how much of each vector was new when it came; its product's rounding was magnified by the inverse.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self.vectors = like.new_empty(0, len(like))
        self.products = like.new_empty(0, len(like))
        self.shares = like.new_empty(0)
        eps = torch.finfo(dtype).eps
        self.rounding = 10 * eps
        # A vector of which less than this is new adds only rounding.
        self.dependent = max(1e-5, 1e4 * eps)
        self._forget()

    def _forget(self) -> None:
        """What was computed from the vectors so far holds no more."""
        self._projected: Tensor | None = None
        self._ritz: tuple[RitzPair, RitzPair] | None = None
        self._factors: dict[float, Tensor] = {}

    def __len__(self) -> int:
        return len(self.vectors)

    def append(self, rows: Tensor, products: Tensor) -> None:
        """Take in vectors with their exact products; what is already spanned is left out."""
        for row, product in zip(rows, products, strict=True):
            norm = row.norm()
            if norm == 0:
                continue
            v, hv = row / norm, product / norm
            for _ in range(2):
                overlap = self.vectors @ v
                v = v - overlap @ self.vectors
                hv = hv - overlap @ self.products
            new = v.norm()
            if new < self.dependent:
                continue
            self.shares = torch.cat([self.shares, new[None]])
            self.vectors = torch.cat([self.vectors, (v / new)[None]])
            self.products = torch.cat([self.products, (hv / new)[None]])
            self._forget()

    def projected(self) -> Tensor:
        """V'HV, symmetric."""
        if self._projected is None:
            matrix = self.vectors @ self.products.T
            self._projected = (matrix + matrix.T) / 2
        return self._projected

    def ritz(self) -> tuple[RitzPair, RitzPair]:
        """The bottom and the top Ritz pair. The top value never exceeds the largest eigenvalue of H."""
        if self._ritz is None:
            values, coefficients = torch.linalg.eigh(self.projected())
            self._ritz = self._pair(values[0], coefficients[:, 0]), self._pair(values[-1], coefficients[:, -1])
        return self._ritz

    def _pair(self, value: Tensor, coefficients: Tensor) -> RitzPair:
        vector = coefficients @ self.vectors
        residual = coefficients @ self.products - value * vector
        return RitzPair(float(value), float(residual.norm()), vector)

    def factor(self, shift: float = 0.0) -> Tensor:
        """Rows U with U'U = GV (V'GV)^-1 V'G <= G, the Nystrom approximation of a semidefinite G = H + shift I.

        Exact on span(V). An indefinite H is made semidefinite by a shift of at least -(its smallest eigenvalue).
        """
        if shift not in self._factors:
            self._factors[shift] = self._factor(shift)
        return self._factors[shift]

    def _factor(self, shift: float) -> Tensor:
        products = self.products + shift * self.vectors if shift else self.products
        matrix = self.projected() + shift * torch.eye(len(self)).to(products)
        scale = matrix.diagonal().clamp(min=0).sqrt()
        sizes = products.norm(dim=1)
        noise = self.rounding * sizes.max() / self.shares
        # A product that may be mostly rounding stands for a null vector. Divided by nearly nothing, rounding would pass
        # for curvature.
        kept = (scale > 0) & (sizes > 10 * noise) & (noise.square() <= NOISE * (scale * scale.max()).square())
        if not bool(kept.any()):
            return products[:0]
        scale, products, noise = scale[kept], products[kept], noise[kept]
        correlation = matrix[kept][:, kept] / scale[:, None] / scale
        values, rotation = torch.linalg.eigh(correlation)
        mixing = rotation / values.clamp(min=SMALLEST).sqrt() / scale[:, None]
        # So for combinations of them.
        rounding = (mixing * noise[:, None]).square().sum(0)
        large = (values > SMALLEST) & (rounding <= NOISE * scale.max() ** 2)
        mixing = mixing[:, large]
        factor: Tensor = mixing.T @ products
        return factor


def top_of_factor(factor: Tensor) -> tuple[float, Tensor]:
    """Largest eigenvalue and unit eigenvector of U'U: a lower bound of L, never below the Ritz value."""
    if len(factor) == 0:
        return 0.0, factor.new_zeros(factor.shape[1])
    values, rotation = torch.linalg.eigh(factor @ factor.T)
    vector = rotation[:, -1] @ factor
    return float(values[-1]), vector / vector.norm()
