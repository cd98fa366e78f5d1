"""What is known of H from exact products: a growing orthonormal basis V with HV."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.optim.long_rows import LongRows
from secondsight.optim.small_matrices import identity

SMALLEST_CORRELATION = 1e-7
"""Smallest kept eigenvalue of the basis' correlation matrix in H: below float32's precision, products are noise."""

LARGEST_NOISE = 1e-3
"""Largest share of H's size that rounding may add to its factor in one direction: it then moves L by a thousandth."""

ROUNDING_STEPS = 10
"""Rounding of a product in units of its precision: the network's sums leave a few of them."""

MOSTLY_NOISE = 10
"""A product that is not this many times as long as its rounding may be nothing but rounding."""

DEPENDENT = 1e-5
"""A vector of which less than this share is new adds more rounding than curvature, also in float64."""

DEPENDENT_STEPS = 1e4
"""The same threshold in units of the precision, for products in less than float64: 1e-3 in float32."""

AT_A_TIME = 4
"""Rows of a factor that are computed in one product. More are hardly faster, and each takes as much memory as a map."""

MOSTLY_NEW = 0.5
"""A unit vector that keeps this share of its length need not be made orthogonal twice (Kahan; Parlett, chapter 6)."""

ORTHOGONAL = 1e-15
"""Unit vectors whose product is below this are orthogonal, as far as float64 can tell."""

ORTHOGONAL_STEPS = 0.1
"""The same threshold in units of the precision, for vectors that are kept in less than float64: 1e-8 in float32."""

LARGEST_ROUNDING = 1e-2
"""A product whose rounding was magnified to more than this share of H's size is left out."""

DEVIATIONS = 3
"""Measured rounding is multiplied by this, because there are few measurements."""


@dataclass(frozen=True)
class RitzPair:
    """An approximate eigenpair.

    Attributes:
        value: the approximate eigenvalue.
        residual: |Hv - value v| for its unit vector v. An exact eigenvalue of H lies within this distance of `value`.
    """

    value: float
    residual: float


class KrylovBasis:
    """Orthonormal vectors V with their exact products HV.

    In formulas the vectors are the columns of V. They are kept as rows, in the precision of the products, because the
    network does not know them any better. So V'V is the identity up to that rounding.

    Args:
        like: a vector of the length and device of the rows, in float64.
        dtype: the precision that products are computed in.

    Attributes:
        vectors: V, one vector per row.
        products: HV, one product per row.
        overlaps: V'V.
        cross: V'HV as computed: entry (i, j) is <v_i, Hv_j>. Rounding makes it slightly asymmetric.
        squares: the inner products <Hv_i, Hv_j>.
        magnified: how many times larger the rounding of each product is than that of a product with a unit vector. A
            vector that lies mostly in the basis is divided by its small new part, which magnifies its rounding.
        probe: the index of the vector that was drawn at random, orthogonal to those before it; None: none was drawn.
        factor_error: how far rounding may have moved the factor that was computed last.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype = torch.float64) -> None:
        """Start with no vectors."""
        self.vectors, self.products = LongRows(like, dtype), LongRows(like, dtype)
        self.magnified = like.new_empty(0)
        self.overlaps, self.cross, self.squares = (like.new_empty(0, 0) for _ in range(3))
        self.probe: int | None = None
        self.factor_error = 0.0
        eps = torch.finfo(dtype).eps
        self.rounding = ROUNDING_STEPS * eps
        self.dependent = max(DEPENDENT, DEPENDENT_STEPS * eps)
        self.orthogonal = max(ORTHOGONAL, ORTHOGONAL_STEPS * eps)
        self._dtype = dtype
        self._invalidate()

    def _invalidate(self) -> None:
        """Drop what was computed from fewer vectors."""
        self._projected: Tensor | None = None
        self._size: float | None = None
        self._measured: float | None = None
        self._top: tuple[float, Tensor] | None = None
        self._ritz: tuple[RitzPair, RitzPair] | None = None

    def __len__(self) -> int:
        """The number of vectors."""
        return len(self.vectors)

    def new_directions(self, rows: Tensor, least: float | None = None) -> Tensor:
        """Turn rows into unit vectors orthogonal to the basis and to each other. Leave out rows with no new part.

        A product that is taken at such a vector has no more rounding than any other. The product of a vector that is
        made orthogonal afterwards has more, which grows from step to step. The result is rounded as it will be kept.

        Args:
            rows: the vectors.
            least: the share of a vector that must be new.
        """
        least = self.dependent if least is None else least
        found = rows[:0]
        for row in rows[rows.any(1)]:
            v, new = row / row.norm(), 0.0
            for _ in range(2):
                v = v - self.vectors.combine(self.vectors.inner(v[None]).T)[0]
                v = v - (found @ v) @ found
                new = float(v.norm())
                # What is left of a vector that was nearly orthogonal is orthogonal to rounding.
                if new > MOSTLY_NEW:
                    break
            if new >= least:
                found = torch.cat([found, (v / new).to(self._dtype).double()[None]])
        return found

    def extend(self, rows: Tensor, products: Tensor) -> None:
        """Add the result of `new_directions` with its exact products."""
        if len(rows):
            self._add(rows, products, [1.0] * len(rows))

    def append(self, rows: Tensor, products: Tensor) -> None:
        """Add any vectors with their exact products, except those that the basis already spans."""
        for row, product in zip(rows, products, strict=True):
            norm = row.norm()
            if norm == 0:
                continue
            v, hv, rounding = row / norm, product / norm, 1.0
            for _ in range(2):
                overlap = self.vectors.inner(v[None])[:, 0]
                if not bool((overlap.abs() > self.orthogonal).any()):
                    break
                v = v - self.vectors.combine(overlap[None])[0]
                hv = hv - self.products.combine(overlap[None])[0]
                rounding += float(overlap.abs() @ self.magnified)
            new = v.norm()
            if new < self.dependent or self.rounding * rounding > LARGEST_ROUNDING * float(new):
                continue
            self._add(v.div_(new)[None], hv.div_(new)[None], [rounding / float(new)])

    def _add(self, vectors: Tensor, products: Tensor, magnified: list[float]) -> None:
        """Write rows behind the others."""
        self._invalidate()
        known, count = len(self), len(vectors)
        for vector, product in zip(vectors, products, strict=True):
            self.vectors.append(vector)
            self.products.append(product)
        self.magnified = torch.cat([self.magnified, self.magnified.new_tensor(magnified)])
        # The small matrices are those of the rows as they are kept. They grow by their new rows and columns, because
        # computing them anew would read all pairs of long vectors.
        new = torch.stack([rows[known + i] for rows in (self.vectors, self.products) for i in range(count)])
        along, across = self.vectors.inner(new), self.products.inner(new)
        self.overlaps = _grown(self.overlaps, along[:, :count], along[:, :count])
        self.cross = _grown(self.cross, along[:, count:], across[:, :count])
        self.squares = _grown(self.squares, across[:, count:], across[:, count:])

    @property
    def size(self) -> float:
        """The length of the longest product with a unit vector: a lower bound of H's norm, usually close to it."""
        if self._size is None:
            self._size = math.sqrt(float(self.squares.diagonal().max())) if len(self) else 0.0
        return self._size

    def measured_rounding(self) -> float:
        """Measure the rounding of products as a share of H's size, once for this basis."""
        if self._measured is None:
            self._measured = self._measure_rounding()
        return self._measured

    def _measure_rounding(self) -> float:
        """Measure the rounding of products as a share of H's size, by transposes: <z, Hv> = <Hz, v>.

        z is the random probe. In a random direction every error of a product shows with the same share of its length.
        """
        if self.probe is None or self.size == 0 or len(self) < 2:
            return self.rounding
        errors = (self.cross[self.probe] - self.cross[:, self.probe]) / self.magnified
        others = len(self) - 1
        typical = math.sqrt(float(errors.square().sum()) / others * self.vectors.length) / self.size
        return max(self.rounding, DEVIATIONS * typical)

    def rounding_of(self, delta: Tensor, product: Tensor) -> float:
        """Estimate the length of the error of one product HD, from <z, HD> = <Hz, D> for the random probe z."""
        if self.probe is None:
            return 0.0
        error = float(self.vectors[self.probe] @ product - self.products[self.probe] @ delta)
        return abs(error) * math.sqrt(len(delta))

    def projected(self) -> Tensor:
        """Compute V'HV, made symmetric."""
        if self._projected is None:
            self._projected = (self.cross + self.cross.T) / 2
        return self._projected

    def asymmetry(self) -> float:
        """Find the largest entry of V'HV - (V'HV)'. Only rounding makes it differ from 0, if H is symmetric."""
        return float((self.cross - self.cross.T).abs().max())

    def ritz(self) -> tuple[RitzPair, RitzPair]:
        """Compute the bottom and the top Ritz pair. The top value never exceeds the largest eigenvalue of H."""
        if self._ritz is None:
            values, _, residuals = self.ritz_coordinates()
            low, high = (RitzPair(float(values[i]), float(residuals[i])) for i in (0, -1))
            self._ritz = low, high
        return self._ritz

    def ritz_values(self) -> Tensor:
        """Compute the eigenvalues of V'HV, rising: what is known of the spectrum of H."""
        values: Tensor = torch.linalg.eigvalsh(self.projected())
        return values

    def residual(self, bottom: bool) -> Tensor:
        """Compute Hv - value v for the unit vector v of the bottom or the top Ritz value."""
        values, coordinates = torch.linalg.eigh(self.projected())
        i = 0 if bottom else -1
        one = coordinates[None, :, i]
        result: Tensor = (self.products.combine(one) - values[i] * self.vectors.combine(one))[0]
        return result

    def ritz_coordinates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Compute all Ritz values, the coordinates of their unit vectors in V as columns, and their residuals' lengths.

        Residuals come from a difference of squares, so they are accurate to some 1e-8 of H's size.
        """
        values, coordinates = torch.linalg.eigh(self.projected())
        squares, lengths = ((coordinates * (matrix @ coordinates)).sum(0) for matrix in (self.squares, self.overlaps))
        return values, coordinates, (squares + (lengths - 2) * values.square()).clamp(min=0).sqrt()

    def factor(self, shift: float = 0.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Compute rows U with U'U = GV (V'GV)^-1 V'G <= G, the Nystrom approximation of G = H + shift I >= 0.

        It is exact on span(V). A shift of at least -(smallest eigenvalue of H) makes an indefinite H semidefinite.

        Args:
            shift: makes H semidefinite.
            dtype: the precision that the rows are rounded to.
        """
        mixing = self._mixing(shift)
        factor = mixing.new_empty(len(mixing), self.vectors.length, dtype=dtype)
        for rows, some in zip(factor.split(AT_A_TIME), mixing.split(AT_A_TIME), strict=True):
            rows.copy_(self.products.combine(some, dtype))
            if shift:
                rows.add_(self.vectors.combine(some, dtype), alpha=shift)
        return factor

    def _mixing(self, shift: float) -> Tensor:
        """Compute the coefficients of the factor's rows in GV with G = H + shift I."""
        unit = identity(self.cross)
        matrix = self.projected() + shift * unit
        squares = self.squares + 2 * shift * self.projected() + shift**2 * unit
        scale, sizes = (square.diagonal().clamp(min=0).sqrt() for square in (matrix, squares))
        noise = self.rounding * sizes.max() * self.magnified
        # A product that may be mostly rounding comes from a null vector. Divided by nearly nothing, its rounding would
        # look like curvature.
        kept = (
            (scale > 0)
            & (sizes > MOSTLY_NOISE * noise)
            & (noise.square() <= LARGEST_NOISE * (scale * scale.max()).square())
        )
        if not bool(kept.any()):
            return unit[:0]
        scale, noise = scale[kept], noise[kept]
        correlation = matrix[kept][:, kept] / scale[:, None] / scale
        values, rotation = torch.linalg.eigh(correlation)
        mixing = rotation / values.clamp(min=SMALLEST_CORRELATION).sqrt() / scale[:, None]
        # The same test for combinations of vectors.
        rounding = (mixing * noise[:, None]).square().sum(0)
        large = (values > SMALLEST_CORRELATION) & (rounding <= LARGEST_NOISE * scale.max() ** 2)
        self.factor_error = math.sqrt(float(rounding[large].sum()))
        coefficients: Tensor = mixing[:, large].T @ unit[kept]
        return coefficients

    def interpolant(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """Compute orthonormal rows B, those of V first, and a matrix T with B'TB = H - PHP, P = I - VV'.

        This matrix agrees with H on span(V), also where H is indefinite, and is zero between vectors outside of it.
        Parts of HV outside of span(V) that may be rounding are left out: each would add a row to B.

        Args:
            dtype: the precision that the rows of B are rounded to.
        """
        _, mixing = self._outside()
        small = self.interpolant_in_coordinates()
        rows = mixing.new_empty(len(small), self.vectors.length, dtype=dtype)
        self.vectors.copy_to(rows[: len(self)])
        within = self.vectors.combine(mixing @ self.cross.T, dtype)
        torch.sub(self.products.combine(mixing, dtype), within, out=rows[len(self) :])
        return rows, small

    def interpolant_in_coordinates(self) -> Tensor:
        """Compute T of the interpolant alone, without long vectors."""
        coupling, _ = self._outside()
        below = torch.nn.functional.pad(coupling.T, (0, coupling.shape[1]))
        return torch.cat([torch.cat([self.projected(), coupling], 1), below])

    def factor_in_coordinates(self, shift: float) -> Tensor:
        """Compute the factor's rows in coordinates: their inner products with the rows B of the interpolant."""
        coupling, _ = self._outside()
        return self._mixing(shift) @ torch.cat([self.projected() + shift * identity(self.cross), coupling], 1)

    def _outside(self) -> tuple[Tensor, Tensor]:
        """Find orthonormal vectors that span the parts of HV outside of span(V).

        Returns:
            The inner products of each row of HV with these vectors, and the coefficients of the vectors in these parts.
        """
        # The inner products of the parts of HV outside of span(V). If V comes from products with H, these parts have
        # few dimensions. `cross` is taken as computed: V'HV made symmetric differs from it by rounding, and the square
        # root of that difference would look like such a part.
        gram = self.squares - self.cross.T @ (2 * self.cross - self.overlaps @ self.cross)
        squares, rotation = torch.linalg.eigh((gram + gram.T) / 2)
        kept = squares > (self.rounding * self.size) ** 2
        sizes, rotation = squares[kept].sqrt(), rotation[:, kept]
        return rotation * sizes, (rotation / sizes).T

    def top(self) -> tuple[float, Tensor]:
        """Compute the largest eigenvalue and unit eigenvector of the factor's U'U, for H >= 0.

        It is a lower bound of L, never below the Ritz value.
        """
        if self._top is None:
            self._top = self._top_of_factor()
        return self._top

    def _top_of_factor(self) -> tuple[float, Tensor]:
        mixing = self._mixing(0.0)
        if len(mixing) == 0:
            return 0.0, self.cross.new_zeros(self.vectors.length)
        values, rotation = torch.linalg.eigh(mixing @ self.squares @ mixing.T)
        vector = self.products.combine((rotation[:, -1] @ mixing)[None])[0]
        return float(values[-1]), vector / vector.norm()


def _grown(matrix: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """Add columns to a square matrix, and rows, which are given as columns, too."""
    return torch.cat([torch.cat([matrix, columns[: len(matrix)]], 1), rows.T])
