"""The Jacobian of the logits as a pair of products. The subclasses define how the products are computed.

All vectors that leave a Jacobian are float64. A vector that passes through the network is first scaled to unit size and
rounded to the network's precision, so that neither tiny nor huge vectors leave its range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor

AGREEMENT = 1e-3
"""Largest relative difference between two computations of a product in float32: another order of sums makes 1e-4."""

AGREEMENT_FLOAT64 = 1e-8
"""The same in float64: far above its rounding, and far below what a wrong derivative gives."""


class Jacobian(ABC):
    """W, the d x c Jacobian of the logits, at each of n inputs. For use inside `model.ready()`.

    Args:
        x: the inputs, with batch dimension.
        logits: what the network returned for them, without a graph.

    Attributes:
        shareable: whether products do not run the network. Then the products of several inputs can share one pass, and
            several threads can take products at the same time.
        piecewise_linear: whether the network is known to be linear around each of the inputs.
        constant: whether the logits do not depend on the input, so that W is zero.
        directions: the number of directions that one pass takes efficiently.
        curved_directions: the same for `curved_products`, which keeps the tangents of curved steps.
        solver_device: where the vectors that leave the Jacobian live.
        notes: what a reader of the result should know.
        has_curvature: whether nothing was left out that `curved_products` needs.
    """

    shareable = False
    piecewise_linear = False
    constant = False
    directions = 1
    curved_directions = 1

    def __init__(self, x: Tensor, logits: Tensor) -> None:
        """Keep the inputs and their logits."""
        self.x, self.logits = x.detach(), logits.detach()
        self.solver_device = solver_device(x.device)
        self.notes: list[str] = []
        self.has_curvature = True

    @property
    def nbytes(self) -> int:
        """Bytes that are kept for these inputs."""
        return self.x.nbytes

    @property
    def agreement(self) -> float:
        """The largest relative difference between two computations of a product, in the precision of the network."""
        return AGREEMENT_FLOAT64 if self.x.dtype == torch.float64 else AGREEMENT

    def are_transposes(self, u: Tensor, change: Tensor, v: Tensor, slopes: Tensor) -> bool:
        """Whether <u, W'v> = <Wu, v> for change = W'v and slopes = Wu.

        If u and v are random, wrong products almost surely fail this test.
        """
        u, change, v, slopes = (tensor.detach().cpu().double() for tensor in (u, change, v, slopes))
        error = float(((u * change).sum() - (slopes * v).sum()).abs())
        return error <= self.agreement * float(change.norm())

    def jvp(self, v: Tensor) -> Tensor:
        """Compute W'v, the change of the logits along each of k directions v.

        v has the shape (k, n, d), or (k, 1, d) if all inputs share the directions. The result has the shape (k, n, c).
        """
        sizes = unit_sizes(v)
        units = (v / sizes[..., None]).to(self.x.dtype).to(self.x.device)
        changes = self._jvp(units.reshape(*v.shape[:2], *self.x.shape[1:]))
        return changes.cpu().double() * sizes.cpu()[..., None]

    def vjp(self, u: Tensor, last: bool = False) -> Tensor:
        """Compute W u for weights u of the classes: from (k, n, c) to (k, n, d).

        Args:
            u: the weights.
            last: whether this is the last product, so that memory can be freed on the way.
        """
        sizes = unit_sizes(u)
        units = (u / sizes[..., None]).to(self.x.dtype).to(self.x.device)
        slopes = self._vjp(units, last).flatten(2).to(self.solver_device).double()
        return slopes.mul_(sizes.to(self.solver_device)[..., None])

    def curvature_agrees(self) -> bool:
        """Whether `curved_products` can be relied on."""
        return False

    def leave_out_curvature(self) -> None:
        """Free what only `curved_products` needs. It cannot be relied on afterwards."""
        self.has_curvature = False

    def curved_products(self, v: Tensor, weights: Tensor, covariance: Callable[[Tensor], Tensor]) -> Tensor:
        """Multiply the exact Hessian at each input with v: from (k, n or 1, d) to (k, n, d).

        Args:
            v: the directions.
            weights: p - y, one row for each input.
            covariance: multiplies with diag p - pp'.
        """
        raise NotImplementedError

    @abstractmethod
    def graph(self) -> tuple[Tensor, Tensor]:
        """Return the inputs as a leaf, and the logits with autograd's graph: what a second derivative needs."""

    def joined(self, others: Sequence[Self]) -> Self | None:
        """Join with the Jacobians of the same network at other inputs. None: they cannot share a pass."""
        return None

    @abstractmethod
    def _jvp(self, units: Tensor) -> Tensor:
        """Compute W'v in the network's precision, from (k, n or 1, *shape) to (k, n, c)."""

    @abstractmethod
    def _vjp(self, units: Tensor, last: bool) -> Tensor:
        """Compute W u in the network's precision, from (k, n, c) to (k, n, *shape)."""


def unit_sizes(vectors: Tensor) -> Tensor:
    """Find the largest absolute entry of each vector, or 1 for a zero vector."""
    sizes = vectors.abs().amax(-1)
    return torch.where(sizes > 0, sizes, 1)


def solver_device(device: torch.device) -> torch.device:
    """Choose where float64 vectors live: beside the network if its device has float64, else on the CPU."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.device("cpu")
    return device


def random_like(tensor: Tensor) -> Tensor:
    """Draw a random tensor of this shape from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float32, device="cpu").to(tensor)
