"""The input Hessian as an object: products, eigenpairs, factor and trace."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.curvature.hessian import GaussNewton, curvature_at
from secondsight.curvature.spectrum import eigh_of_factor, factor_blocks, full_factor, krylov_eigh
from secondsight.errors import InputError
from secondsight.model import Classifier, Item, Target


class InputHessian:
    """H, the second derivative of the loss in the flattened input, at one input. Made by `input_hessian`.

    Only `factor` and `eigh()` without a number hold a d x c matrix; the rest needs a few vectors of length d.
    """

    def __init__(self, model: Classifier, x: Tensor, target: Target, curvature: str) -> None:
        self.model = model
        with model.ready():
            self._curvature, self.notes = curvature_at(model, x, target, curvature)
        self.size = self._curvature.linear.size
        self.shape = (self.size, self.size)
        self.kind = self._curvature.kind

    @property
    def gradient(self) -> Tensor:
        """g, flat."""
        with self.model.ready():
            return self._curvature.gradient

    def matmul(self, v: Tensor) -> Tensor:
        """HV for V of shape (d,) or (d, k); float64."""
        if v.ndim not in (1, 2) or v.shape[0] != self.size:
            raise InputError("v", f"of shape ({self.size},) or ({self.size}, k)", f"of shape {tuple(v.shape)}")
        rows = v.reshape(self.size, -1).T.to(self.gradient)
        with self.model.ready():
            product = self._curvature.product(rows).T
        return product[:, 0] if v.ndim == 1 else product

    __matmul__ = matmul

    def eigh(self, k: int | None = None, *, tolerance: float = 1e-4, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Eigenvalues, falling, and eigenvectors as columns.

        Args:
            k: how many of the largest, by Krylov steps; each has a residual |Hv - lambda v| of at most `tolerance`
                times the largest. None: all that are not zero, from the full factor (Gauss-Newton only, appendix C).
        """
        with self.model.ready():
            if k is None:
                return eigh_of_factor(full_factor(self._gauss_newton("eigh(k)")))
            if not 1 <= k <= self.size:
                raise InputError("k", f"from 1 to {self.size}", k)
            return krylov_eigh(self._curvature, k, tolerance, seed)

    def factor(self) -> Tensor:
        """B of shape (d, classes) with H = BB', in the network's precision: column k is sqrt(p_k) grad log p_k."""
        with self.model.ready():
            return full_factor(self._gauss_newton("matmul"))

    def trace(self, samples: int | None = None, seed: int = 0) -> float:
        """The sum of the eigenvalues.

        Without `samples`: exact, one backward pass per class (Gauss-Newton only). With `samples`: Hutchinson's unbiased
        estimate from so many products with random signs.
        """
        with self.model.ready():
            if samples is None:
                linear = self._gauss_newton("trace(samples=100)").linear
                return sum(float(block.square().sum()) for block in factor_blocks(linear))
            generator = torch.Generator().manual_seed(seed)
            total = 0.0
            for _ in range(samples):
                signs = torch.randint(0, 2, (1, self.size), generator=generator).to(self.gradient) * 2 - 1
                total += float((signs * self._curvature.product(signs)).sum())
            return total / samples

    def _gauss_newton(self, instead: str) -> GaussNewton:
        if not isinstance(self._curvature, GaussNewton):
            raise InputError(
                "curvature",
                f"'gauss-newton' for this, or use {instead}: the exact Hessian here has no factor",
                "'exact'",
            )
        return self._curvature


def input_hessian(model: Classifier, x: Item, target: Target = None, curvature: str = "auto") -> InputHessian:
    """The Hessian of the cross-entropy loss in the input.

    For a piecewise-linear network it is W (diag p - pp') W', W the Jacobian of the logits: positive semidefinite and of
    rank below the number of classes.

    Example: a linear network with two equally likely classes has H = ww'/4, w the difference of its weights.

        >>> net = torch.nn.Linear(2, 2, bias=False).double()
        >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        >>> h = input_hessian(Classifier(net, input_shape=(2,)), torch.zeros(2).double())
        >>> h.matmul(torch.tensor([1.0, 0.0]))
        tensor([2.2500, 3.0000], dtype=torch.float64)
        >>> round(h.trace(), 6)
        6.25
    """
    return InputHessian(model, model.tensor(x), target, curvature)
