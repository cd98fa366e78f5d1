"""Windows of N x N pixels at every position of a picture: the one penalty whose groups overlap.

Windows meet the picture in (h + N - 1)(w + N - 1) positions, and every pixel lies in N^2 of them. A sums over the
pixels and channels of each window, W = sqrt(channels) N, and a = 2 lambda2:

    n = sqrt(A y^2)      f = (1 - lambda1 W / n)_+      S_j = f_j y_j on window j      S(y, lambda1) = y (A'f) / N^2

Without H the best map is D = S(g, lambda1) / a, with H it is the solution of D = S(g + HD, lambda1) / a. S / a is the
proximal operator of an average: the proximal average of N^2 group penalties, one for each way to cut the picture into
squares of side N. With Psi the sum of this average and a/2 |D|^2,

    Psi*(y) = 1 / (2 a N^2) sum_j (n_j - lambda1 W)_+^2       and       grad Psi* = S / a.

The average has no closed form, and it depends on a. A window that lies partly outside of the picture has the weight of
a whole one: weighed by what is inside, a few pixels at the border could outweigh whole windows.

If H is indefinite, H + shift I takes its place and a is 2 lambda2 + shift. The objective is the same but for the
average, which is taken at that a.

The proof. D is the mean of the maps of the N^2 cuts, whose blocks are d_j = S_j / a + e, where e is the rounding of D.
With y = g + HD, S'_j and v'_j = y_j - S'_j at that y, and t = S(y, lambda1) / a - D,

    gap(D) <= 1/N^2 sum_j (a/2 |S'_j / a - d_j|^2 + lambda1 W |d_j| - v'_j d_j)
              + (a |t| + |error|)^2 / (2 mu) - a/2 |t|^2.

The sum is at least Psi(D) + Psi*(y) - y'D. The second line is what D'HD can add, where mu <= 2 lambda2 - L.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from secondsight.optim.penalties import DUAL_ROUNDING, Penalty, Shrunk, path_end
from secondsight.optim.proof import Evidence, Origin, Proof, Support
from secondsight.optim.small_matrices import inner_products


class SlidingWindows(Penalty):
    """The proximal average of the group penalties of all squares of one side.

    Args:
        shape: channels, height and width of the picture.
        side: N, at least 2 and at most the height and the width. A window of one pixel is a `GroupLasso`.
    """

    overlapping = True

    def __init__(self, shape: tuple[int, int, int], side: int) -> None:
        """Weigh all windows alike."""
        self.shape, self.side = shape, side
        self.weight = math.sqrt(shape[0]) * side
        self.times = side * side

    def value(self, delta: Tensor, origin: Origin | None = None) -> float:
        """Bound the average from above by the maps of the N^2 cuts that have this one as their mean.

        The bound is equal to the average where the map is S(y, lambda1) / a, but for the rounding of the map.
        """
        if origin is None:
            raise ValueError("origin is needed: windows overlap")
        if origin.lambda1 == 0:
            return 0.0
        a, lengths = origin.a, self._blocks(delta, origin).lengths()
        spread = a / 2 * (float(lengths.square().sum()) / self.times - float(delta @ delta))
        return self.weight * float(lengths.sum()) / self.times + max(spread, 0.0) / origin.lambda1

    def lambda1_max(self, gradient: Tensor) -> float:
        """The largest length of a window of the gradient, over its weight."""
        return float(self._norms(gradient).max()) / self.weight

    def group_norms(self, y: Tensor) -> Tensor:
        """The norm of each window, flat."""
        return self._norms(y).flatten()

    def path_end(self, gradient: Tensor) -> float:
        """Where CAFO keeps three windows of four."""
        return path_end(self.group_norms(gradient))

    def shrink(self, y: Tensor, lambda1: float) -> Shrunk:
        """Shorten every window by lambda1 W, and take the mean of the N^2 windows of each pixel."""
        norms = self._norms(y)
        kept = self._kept(norms, lambda1)
        weights = self._spread(kept)
        excess = (norms - lambda1 * self.weight).clamp_(min=0)
        energy = excess.square().sum() / self.times

        def curvature(factor: Tensor) -> Tensor:
            """Add up (A'f) / N^2 on the diagonal and y A'(c A(y u)) / N^2, with c = lambda1 W / n^3 where f > 0."""
            pulls = self.sums(factor * y)
            turn = torch.where(kept > 0, lambda1 * self.weight / norms**3, 0.0)
            turned = inner_products((pulls * turn).flatten(1), pulls.flatten(1)) / self.times
            return inner_products(factor * weights, factor) + turned

        # Adding 0 turns -0 into 0.
        return Shrunk(y * weights + 0.0, energy, curvature)

    def zero_share(self, origin: Origin) -> float:
        """Compute the share of windows that were shortened to zero."""
        kept = self._norms(origin.y) > origin.lambda1 * self.weight
        return 1 - int(kept.count_nonzero()) / kept.numel()

    def pixel_norms(self, origin: Origin) -> Tensor:
        """Compute the mean norm of the windows that contain each pixel: (height, width).

        It is zero exactly where all windows of a pixel are, and so is the map there.
        """
        excess = (self._norms(origin.y) - origin.lambda1 * self.weight).clamp_(min=0)
        return _boxes(excess, self.side) / (origin.a * self.times)

    def prove(self, evidence: Evidence) -> Proof:
        """Prove by the bound in the docstring of this file."""
        delta, lambda1, mu, origin = evidence.delta, evidence.lambda1, evidence.mu, evidence.origin
        if origin is None:
            raise ValueError("origin is needed: windows overlap")
        a, edge = origin.a, lambda1 * self.weight
        pull = evidence.pull + evidence.shift * delta
        norms = self._norms(pull)
        kept = self._kept(norms, lambda1)
        missing = float((pull * self._spread(kept) / a - delta).norm())
        blocks = self._blocks(delta, origin)
        fenchel = a / 2 * float(blocks.square_distance(kept / a, pull).sum())
        slack = edge * blocks.lengths() - (1 - kept) * blocks.times(pull)
        fenchel += float(slack.clamp_(min=0).sum())
        without = fenchel / self.times + ((a * missing) ** 2 / mu - a * missing**2) / 2
        gap = fenchel / self.times + ((a * missing + evidence.error) ** 2 / mu - a * missing**2) / 2
        # |H + shift I| from the bounds of H.
        largest = max(2 * evidence.lambda2 - mu + evidence.shift, evidence.negative - evidence.shift)
        radius = math.sqrt(2 * gap / mu)
        of_entries = torch.full_like(delta, largest * radius)
        of_windows = torch.full_like(norms, largest * radius)
        if evidence.diagonal is not None:
            # |(HD)_j| <= sqrt(trace of H on window j) sqrt(D'HD) for H >= 0.
            length = math.sqrt(max(largest, 0.0)) * radius
            of_entries = torch.minimum(of_entries, evidence.diagonal.clamp(min=0).sqrt() * length)
            of_windows = torch.minimum(of_windows, self.sums(evidence.diagonal.clamp(min=0)).sqrt() * length)
        zero = norms + (of_windows + evidence.error) <= edge * (1 - DUAL_ROUNDING)
        nonzero = norms - (of_windows + evidence.error) > edge * (1 + DUAL_ROUNDING)
        kept = self._spread(nonzero.to(norms)) > 0
        # An entry is zero if all its windows are zero. It is not zero if one window and the pull on it are not zero.
        support = Support(
            nonzero=(kept & (pull.abs() > of_entries + evidence.error)) | (delta.abs() > radius),
            zero=self._spread(zero.to(norms)) * self.times > self.times - 0.5,
        )
        return Proof(gap, without, support)

    def sums(self, values: Tensor) -> Tensor:
        """Compute A: sum flat values, perhaps several rows of them, over the pixels and channels of each window."""
        images = values.reshape(*values.shape[:-1], *self.shape).sum(-3)
        border = self.side - 1
        return _boxes(pad(images, (border,) * 4), self.side)

    def _norms(self, y: Tensor) -> Tensor:
        return self.sums(y.square()).sqrt_()

    def _kept(self, norms: Tensor, lambda1: float) -> Tensor:
        """Compute f, the share of each window that is left."""
        edge = lambda1 * self.weight
        return torch.where(norms > edge, 1 - edge / norms, 0.0)

    def _spread(self, windows: Tensor) -> Tensor:
        """Compute A'f / N^2: the mean over the windows of each pixel, for all its channels, flat."""
        means: Tensor = _boxes(windows, self.side) / self.times
        return means.expand(self.shape).flatten()

    def _blocks(self, delta: Tensor, origin: Origin) -> _Blocks:
        """The blocks d_j whose means are the map: S_j / a plus the rounding of the map."""
        kept = self._kept(self._norms(origin.y), origin.lambda1)
        rounding = delta - origin.y * self._spread(kept) / origin.a
        return _Blocks(self, kept / origin.a, origin.y, rounding)


class _Blocks:
    """Blocks d_j = factor_j y + e on window j, never written out. e is the same for all windows."""

    def __init__(self, windows: SlidingWindows, factor: Tensor, y: Tensor, e: Tensor) -> None:
        self.windows, self.factor, self.y, self.e = windows, factor, y, e

    def lengths(self) -> Tensor:
        """Compute |d_j|."""
        return self.square_distance(torch.zeros_like(self.factor), self.y).sqrt_()

    def times(self, other: Tensor) -> Tensor:
        """Compute the inner product of d_j with another map on window j."""
        y, e = self.windows.sums(torch.stack([self.y * other, self.e * other]))
        products: Tensor = self.factor * y + e
        return products

    def square_distance(self, factor: Tensor, other: Tensor) -> Tensor:
        """Compute |factor_j other - d_j|^2, from small differences, so that little cancels."""
        change, r = factor - self.factor, other - self.y
        parts = torch.stack([other * other, r * r, self.e * self.e, other * r, other * self.e, r * self.e])
        oo, rr, ee, oor, oe, re = self.windows.sums(parts)
        f = self.factor
        # factor o - f y - e = (factor - f) o + f r - e
        square: Tensor = change**2 * oo + f**2 * rr + ee + 2 * (change * f * oor - change * oe - f * re)
        return square.clamp_(min=0)


def _boxes(images: Tensor, side: int) -> Tensor:
    """Sum over squares of this side that lie inside of the images (..., h, w)."""
    return _runs(_runs(images, side, -1), side, -2)


def _runs(values: Tensor, side: int, dim: int) -> Tensor:
    """Sum over `side` neighbours along a dimension, by doubling. Differences of running sums would cancel."""
    count = values.shape[dim] - side + 1
    total, start, width = None, 0, 1
    while True:
        if side & width:
            part = values.narrow(dim, start, count)
            total, start = part if total is None else total + part, start + width
        if 2 * width > side:
            break
        size = values.shape[dim] - width
        values, width = values.narrow(dim, 0, size) + values.narrow(dim, width, size), 2 * width
    assert total is not None
    return total
