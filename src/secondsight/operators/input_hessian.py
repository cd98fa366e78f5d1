"""The input Hessian as an object: products, eigenpairs, factor and trace."""

from __future__ import annotations

import torch
from torch import Tensor

from secondsight.errors import InputError
from secondsight.model.classifier import Classifier, Item, Target, require_classifier
from secondsight.model.classifier_checks import require_dense
from secondsight.model.failures import telling_overflow
from secondsight.operators.full_factor import eigh_of_factor, full_factor
from secondsight.operators.hessian_choice import hessian_at
from secondsight.operators.lanczos import lanczos_eigh
from secondsight.option_types import number, whole

MOST_SAMPLES = 10**6
"""Most products for an estimate of the trace. Its error falls like 1 / sqrt(samples), so more would hardly help."""


class InputHessian:
    """H, the second derivative of the loss in the flattened input, at one input. Made by `input_hessian`.

    `factor()` and `eigh()` without `k` hold a d x c matrix, where c is the number of classes. The other methods hold a
    few vectors of length d.

    Example:
        >>> import secondsight as ss
        >>> h = ss.input_hessian(ss.load_model(), ss.example_photograph())
        >>> h.shape, h.kind
        ((150528, 150528), 'gauss-newton')

    Attributes:
        size: the number d of entries of the input.
        shape: (d, d).
        kind: "gauss-newton" or "exact".
        notes: remarks for the reader of a result, such as that the Gauss-Newton matrix stands for the exact Hessian.
    """

    def __init__(self, model: Classifier, x: Item, target: Target, curvature: str) -> None:
        """Run the network at x."""
        require_classifier(model)
        self.model = model
        with model.ready():
            self._hessian, self.notes = hessian_at(model, model.tensor(x), target, curvature)
        self.size, self.shape = self._hessian.size, self._hessian.shape
        self.kind = self._hessian.kind

    @property
    def gradient(self) -> Tensor:
        """The gradient g of the loss, flat."""
        with self.model.ready():
            return self._hessian.gradient

    def matmul(self, v: Tensor) -> Tensor:
        """Compute HV. `h @ v` does the same.

        Args:
            v: V, of shape (d,) or (d, k).

        Returns:
            The product, in the shape of V, in float64.

        Raises:
            InputError: if V has another shape.
        """
        require_dense("v", v)
        if v.is_complex() or v.ndim not in (1, 2) or v.shape[0] != self.size:
            may_be = f"real, of shape ({self.size},) or ({self.size}, k)"
            raise InputError("v", may_be, f"{v.dtype} of shape {tuple(v.shape)}")
        with self.model.ready():
            return self._hessian @ v.to(self._hessian.gradient)

    __matmul__ = matmul

    def eigh(self, k: int | None = None, *, tolerance: float = 1e-4, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Compute eigenvalues, falling, and eigenvectors as columns.

        With k, each pair (lambda, v) has a residual |Hv - lambda v| of at most `tolerance` times the largest |lambda|
        among the k. A repeated eigenvalue is returned as often as it is repeated. A fresh random start, which costs a
        few products, confirms that no larger eigenvalue was missed. Its error probability is below 0.001.

        Args:
            k: how many of the largest eigenvalues to compute, by Lanczos steps. None: all eigenvalues that are not
                zero, from the full factor (Gauss-Newton only, appendix C).
            tolerance: the largest residual, as a share of the largest |lambda|.
            seed: of the random starts.

        Returns:
            The eigenvalues, of shape (k,), and the eigenvectors, of shape (d, k).

        Raises:
            InputError: if k is None and the Hessian has no factor.

        Example: three equally likely classes with orthogonal weights have H = (I - 11'/3) / 3.

            >>> net = torch.nn.Linear(3, 3, bias=False).double()
            >>> _ = net.weight.data.copy_(torch.eye(3))
            >>> h = input_hessian(Classifier(net, input_shape=(3,)), torch.zeros(3).double())
            >>> h.eigh(2)[0]
            tensor([0.3333, 0.3333], dtype=torch.float64)
        """
        seed = whole(0)("seed", seed)
        tolerance = number(0.0)("tolerance", tolerance)
        with self.model.ready():
            if k is None:
                return eigh_of_factor(self._factor("eigh(k)"))
            k = whole(1, self.size)("k", k)
            with telling_overflow():
                return lanczos_eigh(self._hessian, self._hessian.gradient, k, tolerance, seed)

    def factor(self) -> Tensor:
        """Compute a factor B of H = BB', by one backward pass for each class (Gauss-Newton only).

        Returns:
            B, of shape (d, classes), in the network's precision. Column k is sqrt(p_k) times the gradient of log p_k,
            where p_k is the probability of class k.

        Raises:
            InputError: if the Hessian has no factor, because it is the exact one.
        """
        with self.model.ready():
            return self._factor("matmul")

    def trace(self, samples: int | None = None, seed: int = 0) -> float:
        """Compute the sum of the eigenvalues.

        Without `samples` it is exact, by one backward pass per class (Gauss-Newton only). With `samples` it is
        Hutchinson's unbiased estimate from this many products with random signs.

        Args:
            samples: how many products are taken. None: the trace is exact.
            seed: of the random signs.

        Returns:
            The trace.

        Raises:
            InputError: if `samples` is None and the Hessian has no factor.
        """
        samples = whole(1, MOST_SAMPLES, optional=True)("samples", samples)
        seed = whole(0)("seed", seed)
        with self.model.ready():
            if samples is None:
                blocks = self._hessian.factor_blocks()
                if blocks is None:
                    raise self._has_no_factor("trace(samples=100)")
                return sum(float(block.square().sum()) for block in blocks)
            generator = torch.Generator().manual_seed(seed)
            total = 0.0
            for _ in range(samples):
                signs = torch.randint(0, 2, (1, self.size), generator=generator).to(self.gradient) * 2 - 1
                total += float((signs * self._hessian.times_rows(signs)).sum())
            return total / samples

    def _factor(self, instead: str) -> Tensor:
        factor = full_factor(self._hessian)
        if factor is None:
            raise self._has_no_factor(instead)
        return factor

    def _has_no_factor(self, instead: str) -> InputError:
        may_be = f"'gauss-newton' for this, or use {instead}: the exact Hessian here has no factor"
        return InputError("curvature", may_be, "'exact'")


def input_hessian(model: Classifier, x: Item, target: Target = None, curvature: str = "auto") -> InputHessian:
    """Make the Hessian of the cross-entropy loss in the input.

    For a piecewise-linear network it is W (diag p - pp') W', where W is the Jacobian of the logits and p holds the
    probabilities of the classes. It is then positive semidefinite, and its rank is below the number of classes.

    Args:
        model: the network, as a Classifier.
        x: one input, as for `explain`.
        target: index or name of the class whose loss is differentiated; None: the predicted class.
        curvature: "gauss-newton", "exact" (the true Hessian), or "auto", as for `explain`.

    Returns:
        The Hessian, as an object that computes products with it.

    Raises:
        InputError: if an argument cannot be used, or the input does not fit the network.
        ModelError: if the network cannot be explained as it is.

    Example: a linear network with two equally likely classes has H = ww'/4, where w is the difference of the weights of
    the classes.

        >>> net = torch.nn.Linear(2, 2, bias=False).double()
        >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        >>> h = input_hessian(Classifier(net, input_shape=(2,)), torch.zeros(2).double())
        >>> h.matmul(torch.tensor([1.0, 0.0]))
        tensor([2.2500, 3.0000], dtype=torch.float64)
        >>> round(h.trace(), 6)
        6.25
    """
    return InputHessian(model, x, target, curvature)
