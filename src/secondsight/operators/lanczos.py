"""The largest eigenpairs of an operator: Lanczos steps, then fresh random starts that look for missed eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.operators.base import SymmetricOperator

INVARIANT = 1e-8
"""If less than this share of a direction is outside the basis, what is outside is float64 rounding."""

ROUNDING = 1e-13
"""Residuals need not be below this share of the largest |lambda| found: a few hundred units of float64 rounding."""

MISSED = 1e-3
"""The largest probability that a fresh start overlooks an eigenvalue. A tenth of it costs one or two products more."""


def lanczos_eigh(H: SymmetricOperator, start: Tensor, k: int, tolerance: float, seed: int) -> tuple[Tensor, Tensor]:
    """Compute the k largest eigenvalues, falling, and eigenvectors (columns), each as often as it is repeated.

    The steps from one vector see a single vector of each eigenspace, so they find a repeated eigenvalue once. When k
    pairs have converged, the basis is cut down to the converged vectors, and new steps start from a fresh random vector
    orthogonal to it. If these find an eigenvalue above the k-th, the search goes on with it. The sum of the k values
    rises each time, so the search ends. Else the k pairs are returned. A fresh start costs a few products, and more if
    many eigenvalues are close to the k-th.

    Guaranteed: orthonormal eigenvectors, and a residual |Hv - lambda v| of at most `tolerance` times the largest
    |lambda| of the k (or float64 rounding, where that is larger). So each value is within this limit of an eigenvalue
    of H, and the i-th value does not exceed the i-th largest eigenvalue.

    Probable: none is missed. With a probability of at least 0.999 for each fresh start, the i-th largest eigenvalue
    exceeds the i-th value by at most (1 + sqrt(k)) times the limit. If the basis grows to the whole space, that is
    certain.

    Args:
        H: the operator. It may be indefinite: the largest are those nearest to plus infinity.
        start: a vector that is likely to have parts along the eigenvectors sought, such as the gradient of the loss.
        k: how many pairs, from 1 to the size of H.
        tolerance: the largest |Hv - lambda v|, as a share of the largest |lambda| of the k.
        seed: of the fresh starts.

    Example: the identity. The steps from one vector find only one of its equal eigenvalues.

        >>> class Identity(SymmetricOperator):
        ...     size, psd = 5, True
        ...     def times_rows(self, rows):
        ...         return rows
        >>> values, vectors = lanczos_eigh(Identity(), torch.ones(5).double(), 3, 1e-4, seed=0)
        >>> values
        tensor([1.0000, 1.0000, 1.0000], dtype=torch.float64)
    """
    basis = _Basis(H, start, 2 * k + 8, seed)
    basis.extend(start)
    while True:
        values, rotation, limit = _converge(basis, k, tolerance)
        complete = len(basis) == H.size
        _restart(basis, values, rotation, k, limit)
        if complete or _nothing_above(basis, float(values[k - 1]) + limit / 2):
            return basis.matrix.diagonal()[:k].clone(), basis.vectors[:k].clone().T


class _Basis:
    """Orthonormal rows V with their products HV and the matrix VHV'.

    Args:
        H: the operator.
        like: a vector of the type and device of the rows.
        room: how many vectors are expected.
        seed: of random vectors.
    """

    def __init__(self, H: SymmetricOperator, like: Tensor, room: int, seed: int) -> None:
        self.H, self.matrix = H, like.new_zeros(0, 0)
        self._storage = like.new_empty(2, min(H.size, room), H.size)
        self._generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def vectors(self) -> Tensor:
        return self._storage[0, : len(self)]

    @property
    def products(self) -> Tensor:
        return self._storage[1, : len(self)]

    def random(self) -> Tensor:
        return torch.randn(self.H.size, generator=self._generator, dtype=torch.float64, device="cpu").to(self.matrix)

    def outside(self, direction: Tensor) -> Tensor:
        """Subtract the part of a direction in the basis, a second time because of rounding."""
        for _ in range(2):
            direction = direction - (self.vectors @ direction) @ self.vectors
        return direction

    def extend(self, direction: Tensor) -> None:
        """Add the new part of a direction and its product. If nothing of it is new, take a random direction."""
        vector = self.outside(direction)
        if not float(vector.norm()) > INVARIANT * float(direction.norm()):
            vector = self.outside(self.random())
        count = len(self)
        if count == self._storage.shape[1]:
            more = min(self.H.size - count, count)
            self._storage = torch.cat([self._storage, self._storage.new_empty(2, more, self.H.size)], 1)
        self._storage[0, count] = vector / vector.norm()
        self._storage[1, count] = self.H @ self._storage[0, count]
        self.matrix = torch.nn.functional.pad(self.matrix, (0, 1, 0, 1))
        self.matrix[count] = self.matrix[:, count] = self.vectors @ self.products[count]

    def ritz(self) -> tuple[Tensor, Tensor]:
        """Compute the eigenvalues of VHV', falling, and its eigenvectors (columns)."""
        values, rotation = torch.linalg.eigh(self.matrix)
        return values.flip(0), rotation.flip(1)

    def residuals(self, values: Tensor, rotation: Tensor) -> Tensor:
        """Compute Hv - lambda v, as rows, for vectors given by the columns of `rotation`."""
        return rotation.T @ self.products - values[:, None] * (rotation.T @ self.vectors)

    def replace(self, values: Tensor, rotation: Tensor) -> None:
        """Replace the basis by fewer vectors: the eigenpairs of VHV' with these values and columns."""
        self._storage[:, : len(values)] = rotation.T @ self._storage[:, : len(self)]
        self.matrix = torch.diag(values)


def _converge(basis: _Basis, k: int, tolerance: float) -> tuple[Tensor, Tensor, float]:
    """Extend the basis until the residuals of its k largest pairs are small enough, or until it is the whole space.

    Returns:
        The eigenvalues of VHV', its eigenvectors, and the limit that the residuals of the first k do not exceed.
    """
    while True:
        values, rotation = basis.ritz()
        limit = max(tolerance * float(values[:k].abs().max()), ROUNDING * float(values.abs().max()))
        residual = _residual_above(basis, values[:k], rotation[:, :k], limit)
        if len(basis) == basis.H.size or (residual is None and len(basis) >= k):
            return values, rotation, limit
        basis.extend(basis.random() if residual is None else residual)


def _residual_above(basis: _Basis, values: Tensor, rotation: Tensor, limit: float) -> Tensor | None:
    """Find a pair with a residual above the limit, from the smallest value on, because that usually converges last.

    In a Krylov space all residuals are parallel to the next Lanczos vector, so that any of them extends it.
    """
    for i in reversed(range(len(values))):
        residual = basis.residuals(values[i : i + 1], rotation[:, i : i + 1])[0]
        if float(residual.norm()) > limit:
            return residual
    return None


def _restart(basis: _Basis, values: Tensor, rotation: Tensor, k: int, limit: float) -> None:
    """Keep the k largest pairs and the converged pairs below them, so that a fresh start need not find them again.

    Let t be the k-th value plus the limit, and let no eigenvalue of H outside the kept vectors exceed t - limit / 2.
    Then the pairs below the k-th, with residuals r_i, cannot hide an eigenvalue above t if the sum of
    |r_i|^2 / (t - lambda_i) is at most limit / 2 (Schur complement).
    """
    coupling = basis.residuals(values, rotation).square().sum(1) / (values[k - 1] + limit - values)
    coupling[:k] = 0
    smallest, order = coupling.sort(stable=True)
    kept = order[smallest.cumsum(0) <= limit / 2].sort().values
    basis.replace(values[kept], rotation[:, kept])


def _nothing_above(basis: _Basis, bound: float) -> bool:
    """Let a fresh random start look for eigenvalues above the bound, of H outside the vectors of the basis.

    Its Lanczos steps extend the basis until they find one, or until they are unlikely to have missed one.
    """
    before = len(basis)
    basis.extend(basis.random())
    while True:
        steps = basis.matrix[before:, before:]
        if float(torch.linalg.eigvalsh(steps)[-1]) > bound:
            return False
        direction = basis.outside(basis.products[-1])
        hidden = _hidden_share(steps, float(direction.norm()), bound)
        # The squared inner product of a random unit vector in n dimensions with a given one is below e^2 / n with a
        # probability below e.
        if len(basis) == basis.H.size or hidden <= MISSED**2 / (basis.H.size - before):
            return True
        basis.extend(direction)


def _hidden_share(steps: Tensor, next_step: float, bound: float) -> float:
    """Compute the largest share of the start's square that eigenvectors with eigenvalues above the bound can hold.

    It is 1 / sum_j p_j(bound)^2 with the orthonormal polynomials p_j of the Lanczos steps (Chebyshev-Markov-Stieltjes).

    Args:
        steps: the tridiagonal matrix of the steps, with no eigenvalue above the bound.
        next_step: the length of what is new in the last product.
        bound: the bound.
    """
    last, polynomial, total, last_step = 0.0, 1.0, 1.0, 0.0
    for centre, step in zip(steps.diagonal().tolist(), [*steps.diagonal(1).tolist(), next_step], strict=True):
        if step == 0:
            return 0.0
        last, polynomial = polynomial, ((bound - centre) * polynomial - last_step * last) / step
        last_step = step
        total += polynomial * polynomial
    return 1 / total
