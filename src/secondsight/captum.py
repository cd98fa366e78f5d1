"""CAFO, CASO and their smooth versions as Captum attributions.

>>> import torch
>>> from secondsight.captum import CASO
>>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
>>> CASO(net).attribute(torch.rand(2, 8), target=1).shape
torch.Size([2, 8])

The sign: an attribution here is the perturbation that *raises the loss* of the target. Where it is positive, increasing
that feature works against the class; where it is negative, decreasing it does. Captum's gradient methods explain the
target's score, so there positive speaks for the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from captum.attr import Attribution
from captum.log import log_usage
from torch import Tensor, nn

from secondsight.api import explain
from secondsight.errors import InputError
from secondsight.model.classifier import Classifier
from secondsight.results.explanation import Explanation

Inputs = Tensor | tuple[Tensor, ...]
Targets = int | Tensor | Sequence[int] | None

__all__ = ["CAFO", "CASO", "SmoothCAFO", "SmoothCASO"]


class _Penalised(Attribution):  # type: ignore[misc]
    """The part that the four attributions share.

    Args:
        forward_func: a module or a function from a batch (or several) to logits of shape (N, classes). A module is used
            in eval mode with frozen parameters, and both are restored afterwards.
    """

    method: str

    def __init__(self, forward_func: Callable[..., Tensor]) -> None:
        super().__init__(forward_func)
        if not callable(forward_func):
            raise InputError("forward_func", "a module or a function", f"a {type(forward_func).__name__}")
        self._piecewise_linear: bool | None = None

    # Captum's NoiseTunnel asks for the function that this decorator wraps.
    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Inputs,
        target: Targets = None,
        additional_forward_args: Any = None,
        *,
        internal_batch_size: int | None = None,
        return_certificate: bool = False,
        **options: Any,
    ) -> Any:
        """Compute the map of each example, in the shape of the inputs.

        Args:
            inputs: one tensor of floats with a batch dimension, or a tuple of them. The tensors of a tuple are
                explained together, under one objective.
            target: the class: one for all examples, or one for each. None: the predicted one.
            additional_forward_args: further arguments of forward_func, after the inputs. If the first dimension of a
                tensor is the number of examples, each example gets its own row of it.
            internal_batch_size: noisy copies of an example that go through the network at a time (smooth methods).
            return_certificate: also return an `Explanation` for each example, with the gap, the path of lambda1 and
                whether second order matters. For a tuple of inputs its maps are flat, one input after the other.
            options: further options of `secondsight.explain`: lambda1, c1, groups, n, sigma, seed and so on.

        Returns:
            The attributions, a tensor for a tensor and a tuple for a tuple; with `return_certificate` also the list of
            explanations. Positive works *against* the target.

        Raises:
            InputError: if an input does not reach the output of forward_func, or an argument cannot be used.
        """
        parts = _parts(inputs)
        joined = _Joined(self.forward_func, parts, _args(additional_forward_args))
        model = Classifier(
            joined, input_shape=joined.shape, name=_name(self.forward_func), piecewise_linear=self._piecewise_linear
        )
        targets = _targets(target, len(parts[0]))
        options = {"method": self.method, "batch_size": internal_batch_size} | options
        explanations: list[Explanation] = []
        for i, one in enumerate(targets):
            joined.example = i
            if i == 0:
                joined.require_every_input(model)
            explanations.append(explain(model, joined.join(i), target=one, **options))
            self._piecewise_linear = model.facts.piecewise_linear
        deltas = torch.stack([e.delta for e in explanations]).to(parts[0].device)
        attributions = tuple(
            delta.reshape(part.shape).to(part) for delta, part in zip(joined.split(deltas), parts, strict=True)
        )
        result = attributions if isinstance(inputs, tuple) else attributions[0]
        return (result, explanations) if return_certificate else result


class CAFO(_Penalised):
    """First order, sparse: maximise g'D - lambda1 |D|_1 - lambda2 |D|^2. Positive is against the target."""

    method = "cafo"


class CASO(_Penalised):
    """Second order, sparse: maximise g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2. Positive is against the target."""

    method = "caso"


class SmoothCAFO(_Penalised):
    """CAFO with the gradient averaged over noisy copies. Positive is against the target."""

    method = "smooth-cafo"


class SmoothCASO(_Penalised):
    """CASO with gradient and Hessian averaged over noisy copies. Positive is against the target."""

    method = "smooth-caso"


class _Joined(nn.Module):
    """A forward function of several inputs as a network of one input, which holds the entries of all, flat.

    With a single input nothing is flattened.

    Attributes:
        example: the row of the additional arguments that belongs to the present example.
    """

    def __init__(self, forward_func: Callable[..., Tensor], parts: tuple[Tensor, ...], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.forward_func = forward_func
        self.parts, self.args = parts, args
        self.example = 0
        self.sizes = [part[0].numel() for part in parts]
        self.shape = parts[0].shape[1:] if len(parts) == 1 else (sum(self.sizes),)

    def join(self, i: int) -> Tensor:
        """Join the parts of example i into one input."""
        if len(self.parts) == 1:
            return self.parts[0][i].detach()
        return torch.cat([part[i].detach().flatten() for part in self.parts])

    def split(self, batch: Tensor) -> list[Tensor]:
        """Split a batch of joined inputs into the inputs of the forward function."""
        if len(self.parts) == 1:
            return [batch]
        pieces = batch.split(self.sizes, dim=1)
        return [piece.reshape(-1, *part.shape[1:]) for piece, part in zip(pieces, self.parts, strict=True)]

    def forward(self, batch: Tensor) -> Tensor:
        """Map a batch of joined inputs to logits."""
        return self.forward_func(*self.split(batch), *(self._of_example(arg, len(batch)) for arg in self.args))

    def _of_example(self, arg: Any, count: int) -> Any:
        if not isinstance(arg, Tensor) or arg.ndim == 0 or len(arg) != len(self.parts[0]):
            return arg
        return arg[self.example].expand(count, *arg.shape[1:])

    def require_every_input(self, model: Classifier) -> None:
        """Refuse an input that the output does not depend on."""
        with model.ready():
            leaves = [part[:1].detach().clone().requires_grad_() for part in self.parts]
            logits = self.forward_func(*leaves, *(self._of_example(arg, 1) for arg in self.args))
            if not isinstance(logits, Tensor) or not logits.requires_grad:
                return
            slopes = torch.autograd.grad(logits.sum(), leaves, allow_unused=True)
        unused = [i for i, slope in enumerate(slopes) if slope is None]
        if unused:
            raise InputError(
                "inputs",
                "all used by forward_func (pass others in additional_forward_args)",
                f"such that number {unused[0]} does not reach its output",
            )


def _parts(inputs: Inputs) -> tuple[Tensor, ...]:
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    for part in parts:
        if not isinstance(part, Tensor) or not part.is_floating_point() or part.ndim < 2:
            what = (
                f"{part.dtype} of shape {tuple(part.shape)}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            )
            raise InputError("inputs", "tensors of floats with a batch dimension", what)
    if not parts or len({len(part) for part in parts}) != 1:
        raise InputError("inputs", "tensors with the same number of examples", [len(part) for part in parts])
    if len({(part.dtype, part.device) for part in parts}) != 1:
        raise InputError("inputs", "of one type on one device", [f"{part.dtype} on {part.device}" for part in parts])
    return parts


def _args(additional_forward_args: Any) -> tuple[Any, ...]:
    if additional_forward_args is None:
        return ()
    return additional_forward_args if isinstance(additional_forward_args, tuple) else (additional_forward_args,)


def _targets(target: Targets, count: int) -> list[Any]:
    if isinstance(target, Tensor):
        target = target.tolist()
    if not isinstance(target, (list, tuple)):
        return [target] * count
    if len(target) == 1:
        return list(target) * count
    if len(target) != count:
        raise InputError("target", f"one class, or one for each of the {count} examples", f"{len(target)} of them")
    return list(target)


def _name(forward_func: object) -> str:
    return getattr(forward_func, "__name__", type(forward_func).__name__)
