"""Batch and instance norms of a single input: a fault of torch is kept away from their gradients.

On the CPU, torch (2.13) computes a wrong gradient of a norm of one input, without a warning, where its strides are not
those of a contiguous tensor, or where those of the gradient are not. A network that turns a picture into tokens by
`flatten(2).transpose(1, 2)` makes such a gradient. Torch takes it for channels last in one place, and not in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm


@contextmanager
def right_gradients(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Bring single inputs of these norms, and their gradients, into a layout that torch handles."""
    with ExitStack() as stack:
        for norm in (module for module in modules if isinstance(module, _NormBase)):
            stack.callback(norm.register_forward_pre_hook(_before).remove)
            stack.callback(norm.register_forward_hook(_after).remove)
        yield


def _before(norm: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    x, *others = arguments
    return _laid_out(norm, x), *others


def _after(norm: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
    if isinstance(result, Tensor) and result.requires_grad and len(result) == 1:
        result.register_hook(lambda gradient: _laid_out(norm, gradient))


def _laid_out(norm: nn.Module, values: Any) -> Any:
    """Copy a single input unless it is contiguous, or certain to be taken for channels last where it is."""
    if not isinstance(values, Tensor) or values.ndim == 0 or len(values) != 1:
        return values
    # Strides of other dimensions of length 1 mislead torch, too. Instance norms take no other layout.
    certain = values.stride(0) == values.numel() and 1 not in values.shape[1:] and not isinstance(norm, _InstanceNorm)
    return values if certain else values.contiguous()
