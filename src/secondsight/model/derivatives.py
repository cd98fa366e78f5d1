"""Derivatives that torch may lack: found out by trying, and told apart from other failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class NotDifferentiableError(Exception):
    """Torch lacks the derivative that was asked for. The message says in one line which."""


@contextmanager
def derivatives() -> Iterator[None]:
    """Turn torch's RuntimeErrors into NotDifferentiableError, except those about memory."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise NotDifferentiableError(str(error).splitlines()[0]) from error


def differentiable_gradient(logits: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    """Compute the gradient of weights'logits in x, with a graph of its own.

    Functions marked once-differentiable leave an error node in the graph with nothing behind it. Autograd would walk
    round such a node and return zeros for everything that it leads to.

    Raises:
        RuntimeError: if the graph is cut.
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
