"""Derivatives that torch may lack: found out by trying, and told apart from other failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class NotDifferentiableError(Exception):
    """Torch lacks the derivative that was asked for. The message is the first line of torch's own."""


@contextmanager
def derivatives() -> Iterator[None]:
    """Turn torch's RuntimeErrors into NotDifferentiableError, except torch.OutOfMemoryError."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise NotDifferentiableError(str(error).splitlines()[0]) from error


def differentiable_gradient(logits: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    """Compute the gradient of weights'logits in x, with a graph of its own, so that it can be differentiated again.

    Functions marked once-differentiable leave an error node in that graph, which ends there. Autograd would skip the
    error node and return zeros for the inputs of the function. So such a node is looked for here.

    Args:
        logits: the logits, with a graph that leads to x.
        x: the inputs.
        weights: the weights of the logits, of their shape.

    Raises:
        RuntimeError: if the gradient cannot be differentiated.
    """
    (slope,) = torch.autograd.grad(logits, x, weights, create_graph=True, materialize_grads=True)
    seen, pending = set(), [slope.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        if "Error" in node.name() or "NotImplemented" in node.name():
            raise RuntimeError(f"cannot differentiate twice through {node.name()}")
        seen.add(node)
        pending.extend(function for function, _ in node.next_functions)
    return slope
