"""Questions to a network: is it random, does it cut its graph, is it piecewise linear? Each is asked once."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from secondsight.errors import ModelError
from secondsight.model.classifier import Classifier
from secondsight.model.derivatives import NotDifferentiableError, derivatives, differentiable_gradient

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Logits that differ by no more are the same but for rounding, also on devices that sum in another order each time."""

STEP = 0.1
"""How far an input is moved to see whether the logits follow: enough to switch ReLUs, for pixels in [0, 1]."""


def refuse_randomness(model: Classifier, x: Tensor, logits: Tensor) -> None:
    """Raise ModelError if a second pass over x gives other logits than the first one did."""
    if model.facts.deterministic:
        return
    with torch.no_grad():
        model.facts.deterministic = torch.allclose(model.logits(x), logits, rtol=RELATIVE, atol=ABSOLUTE)
    if not model.facts.deterministic:
        raise ModelError(
            "two passes over the same input gave different logits, though the network is in eval mode: "
            "it draws random numbers (dropout that ignores the mode?)"
        )


def refuse_hidden_dependence(model: Classifier, x: Tensor) -> None:
    """Raise ModelError if the logits change with the input although autograd knows of no connection."""
    with torch.no_grad():
        moved = model.logits(x + STEP * torch.ones_like(x).cumsum(-1).sin())
        if not torch.equal(moved, model.logits(x)):
            raise ModelError(
                "the logits change with the input, but no gradient connects them: "
                "the network cuts its graph (detach, no_grad, numpy or rounding inside)"
            )


def is_piecewise_linear(model: Classifier, x: Tensor) -> bool:
    """Whether the second derivative of the logits vanishes at x and at a noisy x. Found out once per network."""
    if model.facts.piecewise_linear is None:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(x.shape, generator=generator).to(x) * STEP
        model.facts.piecewise_linear = all(_is_flat(model, point) for point in (x, x + noise))
    return model.facts.piecewise_linear


def _is_flat(model: Classifier, x: Tensor) -> bool:
    x = x[None].detach().clone().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    with suppress(NotDifferentiableError), derivatives():
        logits = model.logits(x)
        # Weights that require a gradient: without, once-differentiable functions would leave no trace in the graph.
        weights = torch.randn(logits.shape, generator=generator).to(logits).requires_grad_()
        slope = differentiable_gradient(logits, x, weights)
        direction = torch.randn(x.shape, generator=generator).to(x)
        (curved,) = torch.autograd.grad(slope, x, direction, materialize_grads=True)
        return not bool(curved.any())
    return False
