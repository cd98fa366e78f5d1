"""What is known of H from exact products: a growing orthonormal basis V with HV."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secondsight.optim.small_matrices import identity, inner_products

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

FIRST_ROOM = 8
"""Rows that there is room for at first: most maps take fewer products."""

MOSTLY_NEW = 0.5
"""A unit vector that keeps this share of its length need not be made orthogonal twice (Kahan; Parlett, chapter 6)."""

ORTHOGONAL = 1e-15
"""Unit vectors whose product is below this are orthogonal, as far as float64 can tell."""

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

    In formulas the vectors are the columns of V. They are stored as rows.

    Args:
        like: a vector of the length, type and device of the rows.
        dtype: the precision that products are computed in.

    Attributes:
        vectors: V, one vector per row.
        products: HV, one product per row.
        cross: V'HV as computed: entry (i, j) is <v_i, Hv_j>. Rounding makes it slightly asymmetric.
        squares: the inner products <Hv_i, Hv_j>.
        magnified: how many times larger the rounding of each product is than that of a product with a unit vector. A
            vector that lies mostly in the basis is divided by its small new part, which magnifies its rounding.
        probe: the index of the vector that was drawn at random, orthogonal to those before it; None: none was drawn.
        factor_error: how far rounding may have moved the factor that was computed last.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype = torch.float64) -> None:
        """Start with no vectors."""
        self.vectors = like.new_empty(0, len(like))
        self.products = like.new_empty(0, len(like))
        self._room = [self.vectors, self.products]
        self.magnified = like.new_empty(0)
        self.cross, self.squares = like.new_empty(0, 0), like.new_empty(0, 0)
        self.probe: int | None = None
        self.factor_error = 0.0
        eps = torch.finfo(dtype).eps
        self.rounding = ROUNDING_STEPS * eps
        self.dependent = max(DEPENDENT, DEPENDENT_STEPS * eps)
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
        made orthogonal afterwards has more, which grows from step to step.

        Args:
            rows: the vectors.
            least: the share of a vector that must be new.
        """
        least = self.dependent if least is None else least
        found = self.vectors[:0]
        for row in rows[rows.any(1)]:
            v, new = row / row.norm(), 0.0
            for _ in range(2):
                v = v - (self.vectors @ v) @ self.vectors
                v = v - (found @ v) @ found
                new = float(v.norm())
                # What is left of a vector that was nearly orthogonal is orthogonal to rounding.
                if new > MOSTLY_NEW:
                    break
            if new >= least:
                found = torch.cat([found, (v / new)[None]])
        return found

    def extend(self, rows: Tensor, products: Tensor) -> None:
        """Add the result of `new_directions` with its exact products."""
        for row, product in zip(rows, products, strict=True):
            self._add(row, product, 1.0)

    def append(self, rows: Tensor, products: Tensor) -> None:
        """Add any vectors with their exact products, except those that the basis already spans."""
        for row, product in zip(rows, products, strict=True):
            norm = row.norm()
            if norm == 0:
                continue
            v, hv, rounding = row / norm, product / norm, 1.0
            for _ in range(2):
                overlap = self.vectors @ v
                if not bool((overlap.abs() > ORTHOGONAL).any()):
                    break
                v = v - overlap @ self.vectors
                hv = hv - overlap @ self.products
                rounding += float(overlap.abs() @ self.magnified)
            new = v.norm()
            if new < self.dependent or self.rounding * rounding > LARGEST_ROUNDING * float(new):
                continue
            self._add(v / new, hv / new, rounding / float(new))

    def _add(self, vector: Tensor, product: Tensor, magnified: float) -> None:
        """Write a row behind the others. The storage grows by doubling, because copying all each time is slower."""
        self._invalidate()
        self.magnified = torch.cat([self.magnified, self.magnified.new_tensor([magnified])])
        count, room = len(self), len(self._room[0])
        if count == room:
            self.vectors = self._room[0] = _roomier(self.vectors)
            self.products = self._room[1] = _roomier(self.products)
        self._room[0][count], self._room[1][count] = vector, product
        self.vectors, self.products = (rows[: count + 1] for rows in self._room)
        # These matrices grow by a row and a column, because computing them anew would read all pairs of long vectors.
        along, pair = inner_products(self.vectors, product[None]), torch.stack([vector, product])
        across, squares = inner_products(self.products, pair).T
        self.cross = _grown(self.cross, along[:, 0], across)
        self.squares = _grown(self.squares, squares, squares)

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
        typical = math.sqrt(float(errors.square().sum()) / others * self.vectors.shape[1]) / self.size
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
        result: Tensor = coordinates[:, i] @ self.products - values[i] * (coordinates[:, i] @ self.vectors)
        return result

    def ritz_coordinates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Compute all Ritz values, the coordinates of their unit vectors in V as columns, and their residuals' lengths.

        Residuals come from a difference of squares, so they are accurate to some 1e-8 of H's size.
        """
        values, coordinates = torch.linalg.eigh(self.projected())
        squares = (coordinates * (self.squares @ coordinates)).sum(0)
        return values, coordinates, (squares - values.square()).clamp(min=0).sqrt()

    def factor(self, shift: float = 0.0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Compute rows U with U'U = GV (V'GV)^-1 V'G <= G, the Nystrom approximation of G = H + shift I >= 0.

        It is exact on span(V). A shift of at least -(smallest eigenvalue of H) makes an indefinite H semidefinite.

        Args:
            shift: makes H semidefinite.
            dtype: the precision that the rows are rounded to.
        """
        mixing = self._mixing(shift)
        factor = self.vectors.new_empty(len(mixing), self.vectors.shape[1], dtype=dtype)
        for rows, some in zip(factor.split(AT_A_TIME), mixing.split(AT_A_TIME), strict=True):
            exact = some @ self.products
            rows.copy_(exact.addmm_(some, self.vectors, alpha=shift) if shift else exact)
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
        rows = self.vectors.new_empty(len(small), self.vectors.shape[1], dtype=dtype)
        outside = mixing @ self.products - (mixing @ self.cross.T) @ self.vectors
        rows[: len(self)], rows[len(self) :] = self.vectors, outside
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
        gram = self.squares - self.cross.T @ self.cross
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
            return 0.0, self.vectors.new_zeros(self.vectors.shape[1])
        values, rotation = torch.linalg.eigh(mixing @ self.squares @ mixing.T)
        vector = (rotation[:, -1] @ mixing) @ self.products
        return float(values[-1]), vector / vector.norm()


def _roomier(rows: Tensor) -> Tensor:
    """Copy rows into a tensor with room for as many more."""
    result = rows.new_empty(max(FIRST_ROOM, 2 * len(rows)), rows.shape[1])
    result[: len(rows)] = rows
    return result


def _grown(matrix: Tensor, column: Tensor, row: Tensor) -> Tensor:
    """Add a column and a row. The last entry of both is the new corner."""
    return torch.cat([torch.cat([matrix, column[:-1, None]], 1), row[None]])
