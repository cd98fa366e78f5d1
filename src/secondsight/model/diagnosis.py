"""Questions to a network: is it random, does it cut its graph, is it piecewise linear, does it hide its curvature?"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from secondsight.errors import ModelError
from secondsight.model.classifier import Classifier
from secondsight.model.derivatives import NotDifferentiableError, derivatives, differentiable_gradient

SAME = 1e-3
"""Logits that differ by no more than this share of the largest one count as the same: the difference is rounding, also
on devices that sum in another order each time."""

STEPS = (1e-3, 1e-2, 1e-1, 1.0)
"""How far an input is moved to see whether the logits follow, as shares of its largest entry, or of 1 if it is smaller.

The small steps find a detached value. The large steps find a rounded one, which small steps may leave unchanged.
"""

HALVINGS = 30
"""How often the way to a changed score is halved in search of a slope. A change within 1e-9 of the way is a jump."""

ROUNDING = 1000
"""Scores that differ by no more than this many units of rounding count as the same."""

CURVATURE_STEPS = {torch.float64: (1e-4, 1e-6, 1e-8), torch.float32: (1e-2, 1e-3, 1e-4)}
"""Steps of the differences of a gradient, as multiples of the direction. Small steps fit between two kinks."""

DIFFERENCE_STEPS = (1e-6, 1e-8, 1e-10)
"""Steps of `gradient_differences`. At 1e-6 nearly all photographs meet a kink of MobileNetV3, at 1e-8 one in twenty."""

CURVATURE_NOISE = 0.1
"""Standard deviation of the noise on the second point at which curvature is looked for, as a share of the largest entry
of the input."""

BEYOND_STEP_ERROR = 10
"""Halving the step shows the error of a difference. What is missing must exceed this many times that error."""

SLIGHT = 1e-2
"""The share of a curvature that may be missing: float32 rounds a second derivative of a deep network to 1e-3."""

SUMS_AND_KINKS = """
    Add Sub Rsub Neg Sum Mean Cumsum Cat Stack Where MaskedFill MaskedScatter MaskedSelect
    View UnsafeView ReshapeAlias T Transpose Permute Unsqueeze Squeeze Expand Slice Select Split SplitWithSizes Unbind
    AsStrided Alias Clone Copy ToCopy Diagonal Unfold Flip Roll Repeat Tril Triu Index IndexSelect IndexPut Gather
    Scatter ScatterAdd Im2Col Col2Im PixelShuffle PixelUnshuffle ChannelShuffle
    ConstantPadNd ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D ReplicationPad2D ReplicationPad3D
    UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleLinear1D UpsampleBilinear2D UpsampleTrilinear3D
    AvgPool2D AvgPool3D AdaptiveAvgPool2D AdaptiveAvgPool3D MkldnnAdaptiveAvgPool2D
    MaxPool2DWithIndices MaxPool3DWithIndices AdaptiveMaxPool2D AdaptiveMaxPool3D
    Relu LeakyRelu Threshold Hardtanh Hardsigmoid Hardshrink Softshrink Abs Clamp ClampMin ClampMax
    Maximum Minimum Max Min Amax Amin Sort Topk
"""
"""Nodes of autograd's graph that are piecewise linear in all their inputs together: their names before "Backward"."""

PRODUCTS = {
    **dict.fromkeys(("Mul", "Mm", "Bmm", "Mv", "Dot", "Linear", "Convolution", "PreluKernel"), slice(2)),
    **dict.fromkeys(("Addmm", "Addmv", "Baddbmm", "Addbmm"), slice(1, 3)),
}
"""Nodes that multiply two of their inputs, with the places of the two. They are piecewise linear if one of the two is
fixed."""

MIXED = 1e-3
"""A second input in the batch changes logits by more than this share only if they depend on it. Rounding is less."""

BATCH_NORMS = ("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm")
"""Nodes that are linear in their first input, if the statistics are not computed from that input."""


def mixes_inputs(model: Classifier, x: Tensor, logits: Tensor) -> bool:
    """Whether the logits of an input change with the other inputs of its batch. Tried once for a network.

    Batch norm without running statistics mixes inputs. A network that takes no batch of two counts as one that mixes.

    Args:
        model: the network.
        x: an input, without batch dimension.
        logits: what the network gave for x alone.
    """
    if model.facts.mixes_inputs is None:
        model.facts.mixes_inputs = True
        # What torch raises for a shape that a network cannot take.
        with suppress(RuntimeError, ValueError, IndexError), torch.no_grad():
            together = model.logits(torch.stack([x, x.flip(-1) / 2]))[:1]
            model.facts.mixes_inputs = bool((together - logits).abs().max() > MIXED * logits.abs().max())
        if model.facts.mixes_inputs:
            model.notes.append("the network mixes the inputs of a batch: they went through it one at a time")
    return model.facts.mixes_inputs


def refuse_randomness(model: Classifier, x: Tensor, logits: Tensor) -> None:
    """Raise ModelError if a second pass over x gives other logits than the first one did.

    A network that has passed is not tried again.

    Args:
        model: the network.
        x: inputs, with batch dimension.
        logits: what the first pass over x gave.
    """
    if model.facts.deterministic:
        return
    with torch.no_grad():
        change = (model.logits(x) - logits).abs().amax(1)
        model.facts.deterministic = bool((change <= SAME * logits.abs().amax(1)).all())
    if not model.facts.deterministic:
        raise ModelError(
            "two passes over the same input gave different logits, though the network is in eval mode: "
            "it draws random numbers (dropout that ignores the mode?)"
        )


def refuse_hidden_dependence(model: Classifier, x: Tensor, weights: Tensor | None = None) -> None:
    """Raise ModelError if a score changes with the input although its gradient is zero everywhere on the way.

    The score is a weighted sum of the logits. Inputs around x are tried until one has another score. The way from x to
    that input is halved in search of a place with a gradient. A network with a dead ReLU or a saturated sigmoid has
    such a place and is not refused. A network that detaches, rounds or quantises has none.

    Args:
        model: the network.
        x: one input with batch dimension, at which the map or the gradient was zero.
        weights: the weights of the logits in the score, with batch dimension; None: random ones.

    Raises:
        ModelError: if the network cuts its graph.
    """
    here = _sample(model, x, weights)
    for there in _samples_around(model, x, weights):
        if there.has_slope or (here.differs(there) and _has_slope_between(model, here, there, weights)):
            return
        if here.differs(there):
            raise ModelError(
                "the logits change with the input, but their gradient is zero: the network cuts its graph "
                "(detach, no_grad, numpy, rounding or quantisation inside). Explain the network without that, "
                "such as the float network that a quantised one was made from"
            )


class _Sample(NamedTuple):
    """A score of the logits at an input, whether it has a slope there, and the rounding of the score."""

    x: Tensor
    score: float
    has_slope: bool
    rounding: float

    def differs(self, other: _Sample) -> bool:
        """Whether the scores differ by more than rounding. NaN does not differ."""
        return abs(self.score - other.score) > ROUNDING * max(self.rounding, other.rounding)


def _sample(model: Classifier, x: Tensor, weights: Tensor | None) -> _Sample:
    leaf = x.detach().clone().requires_grad_()
    logits = model.logits(leaf)
    precise = logits.cpu().double()
    weights = _random(logits).cpu().double() if weights is None else weights / weights.abs().max()
    has_slope = False
    if logits.requires_grad:
        with suppress(NotDifferentiableError), derivatives():
            (slope,) = torch.autograd.grad((weights * precise).sum(), leaf, materialize_grads=True)
            has_slope = bool(slope.any())
    precise = precise.detach()
    rounding = torch.finfo(x.dtype).eps * float((weights * precise).abs().sum())
    return _Sample(leaf.detach(), float((weights * precise).sum()), has_slope, rounding)


def _samples_around(model: Classifier, x: Tensor, weights: Tensor | None) -> Iterator[_Sample]:
    """Take samples at small steps from x, then at large ones."""
    generator = torch.Generator().manual_seed(0)
    direction = _draw(x, generator) * max(1.0, _scale(x))
    for step in (sign * size for size in STEPS for sign in (1, -1)):
        # A network may fail at inputs that it was not made for. Such inputs are skipped.
        with suppress(Exception):
            yield _sample(model, x + step * direction, weights)


def _has_slope_between(model: Classifier, near: _Sample, far: _Sample, weights: Tensor | None) -> bool:
    """Look for a slope between two inputs, always in the half in which the score changes more."""
    for _ in range(HALVINGS):
        if near.has_slope or far.has_slope:
            return True
        middle = _sample(model, (near.x + far.x) / 2, weights)
        if abs(middle.score - near.score) >= abs(far.score - middle.score):
            far = middle
        else:
            near = middle
    return near.has_slope or far.has_slope


def is_piecewise_linear(model: Classifier, x: Tensor) -> bool:
    """Whether the network is piecewise linear: the user's word, else what its operations at x say.

    Args:
        model: the network. Without the user's word it is run once.
        x: one input, without batch dimension.
    """
    if model.facts.piecewise_linear is not None:
        return model.facts.piecewise_linear
    leaf = x[None].detach().clone().requires_grad_()
    return is_piecewise_linear_graph(leaf, model.logits(leaf))


def is_piecewise_linear_graph(leaf: Tensor, logits: Tensor) -> bool:
    """Whether every operation between the leaf and the logits is known to be piecewise linear. No network is run.

    Values do not matter: a saturated tanh is curved, although its second derivative is zero. False also stands for "not
    known", as for functions that are not torch's own.
    """
    moving: set[Any] = set()
    for node in _sources_first(logits):
        moves = [source in moving for source, _ in node.next_functions]
        if getattr(node, "variable", None) is leaf:
            moving.add(node)
        elif any(moves):
            moving.add(node)
            if not _is_piecewise_linear_node(node, moves):
                return False
    return True


def custom_function(logits: Tensor) -> str | None:
    """Name a function in the graph of the logits that is not torch's own. None: there is none."""
    for node in _sources_first(logits):
        if _is_custom(node):
            return str(node.name()).removesuffix("Backward")
    return None


def _sources_first(logits: Tensor) -> list[Any]:
    """List the nodes of the graph of the logits, each after the nodes that it takes its inputs from."""
    order, seen, pending = list[Any](), set[Any](), [(logits.grad_fn, False)]
    while pending:
        node, has_sources = pending.pop()
        if has_sources:
            order.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            pending.append((node, True))
            pending.extend((source, False) for source, _ in node.next_functions)
    return order


def _is_custom(node: Any) -> bool:
    """Whether the node is a user's torch.autograd.Function, in Python or in C++."""
    return isinstance(node, BackwardCFunction) or "CppNode" in node.name()


def _is_piecewise_linear_node(node: Any, moves: Sequence[bool]) -> bool:
    """Whether an operation is known to be piecewise linear in those of its inputs that move."""
    found = re.fullmatch(r"(?:torch::autograd::)?(\w+?)Backwards?\d*", node.name())
    if found is None or _is_custom(node):
        return False
    kind = found[1]
    if kind in PRODUCTS:
        return sum(moves[PRODUCTS[kind]]) <= 1
    if kind in BATCH_NORMS:
        return not node._saved_training and not any(moves[1:])
    if kind == "Div":
        return not any(moves[1:])
    return kind in SUMS_AND_KINKS.split()


def hides_curvature(model: Classifier, x: Tensor) -> bool:
    """Whether torch's second derivative misses curvature that the gradients show, at an input or at a noisy copy of it.

    A custom function may detach values in its `backward`. Torch then takes them for constants, without a warning.

    Args:
        model: the network.
        x: one input, with batch dimension.

    Raises:
        NotDifferentiableError: if torch cannot differentiate the network twice.
    """
    # The kinks of a large network are so close that float32 has too few digits for a difference between two of them.
    # A network that fails in float64 is tried in its own precision.
    with suppress(Exception):
        return _hides_curvature(float64_twin(model), x.double())
    with derivatives():
        return _hides_curvature(model, x)


def float64_twin(model: Classifier) -> Classifier:
    """Copy a classifier, with its module in float64. A function stays as it is."""
    twin = copy.copy(model)
    if isinstance(model.computed, nn.Module):
        twin.computed = copy.deepcopy(model.computed).double()
    return twin


def second_derivative(model: Classifier, x: Tensor, weights: Tensor, direction: Tensor) -> Tensor:
    """Compute the change of the gradient of a score along a direction, by torch's double backward.

    Args:
        model: the network.
        x: the inputs, with batch dimension.
        weights: the weights of the logits in the score, one row for each input.
        direction: the direction, of the shape of the inputs.

    Raises:
        NotDifferentiableError: if torch cannot differentiate the network twice.
    """
    leaf = x.detach().clone().requires_grad_()
    logits = model.logits(leaf)
    with derivatives():
        slope = differentiable_gradient(logits, leaf, weights.detach().clone().requires_grad_())
        return torch.autograd.grad(slope, leaf, direction, materialize_grads=True)[0]


def gradient_differences(model: Classifier, x: Tensor, weights: Tensor, direction: Tensor) -> Iterator[Tensor]:
    """Estimate what `second_derivative` computes from gradients on both sides of x, once for each step.

    One of the steps meets no kink, unless a kink is as near to x as float64 can tell.

    Args:
        model: the network, in float64 (`float64_twin`), because the steps are too small for float32.
        x: the inputs, with batch dimension, in float64.
        weights: the weights of the logits in the score, one row for each input.
        direction: the direction, of the shape of the inputs.
    """
    for step in DIFFERENCE_STEPS:
        yield _difference(model, x, direction, step, weights)


def _hides_curvature(model: Classifier, x: Tensor) -> bool:
    generator = torch.Generator().manual_seed(0)
    noise, direction = (
        torch.randn(x.shape, generator=generator, dtype=torch.float32, device="cpu").to(x) * _scale(x) for _ in range(2)
    )
    return any(_misses_curvature(model, point, direction) for point in (x, x + CURVATURE_NOISE * noise))


def _misses_curvature(model: Classifier, x: Tensor, direction: Tensor) -> bool:
    """Compare a second derivative along `direction` with differences of the gradient, at steps of several sizes.

    A kink between the points of a difference is no curvature. Halving the step then changes the difference. So only a
    difference that half the step confirms counts.

    A difference is A v, where v is `direction` and A the change of the gradient. It is compared in its own direction w,
    where it is largest. Torch computes w'A by one backward pass, and (w'A) v = w'(A v) also if A is not symmetric.
    """
    leaf = x.detach().clone().requires_grad_()
    logits = model.logits(leaf)
    slope = differentiable_gradient(logits, leaf, _random(logits).requires_grad_())
    for step in CURVATURE_STEPS[x.dtype]:
        wide, narrow = (_difference(model, x, direction, size) for size in (step, step / 2))
        size, step_error = float(narrow.norm()), BEYOND_STEP_ERROR * float((wide - narrow).norm())
        if size > 0:
            w = (narrow / size).to(leaf)
            (product,) = torch.autograd.grad(slope, leaf, w, retain_graph=True, materialize_grads=True)
            missing = abs(size - float((product.cpu().double() * direction.cpu().double()).sum()))
            if missing > step_error + SLIGHT * size:
                return True
        if step_error <= SLIGHT * size:
            return False
    return False


def _difference(model: Classifier, x: Tensor, direction: Tensor, step: float, weights: Tensor | None = None) -> Tensor:
    """Compute the change of the gradient along `direction`, from the gradients a step ahead of x and a step behind."""
    ahead, behind = (_slope(model, x + side * step * direction, weights) for side in (1, -1))
    return (ahead - behind) / (2 * step)


def _slope(model: Classifier, x: Tensor, weights: Tensor | None) -> Tensor:
    """Compute the gradient at x of the score with these weights of the logits; None: random ones."""
    leaf = x.detach().clone().requires_grad_()
    logits = model.logits(leaf)
    weights = _random(logits) if weights is None else weights
    (slope,) = torch.autograd.grad(logits, leaf, weights, materialize_grads=True)
    return slope.cpu().double()


def _random(tensor: Tensor) -> Tensor:
    """Draw a tensor of this shape, always the same."""
    return _draw(tensor, torch.Generator().manual_seed(1))


def _draw(like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a tensor of this shape, the same whatever torch's default type and device are."""
    return torch.randn(like.shape, generator=generator, dtype=torch.float32, device="cpu").to(like)


def _scale(x: Tensor) -> float:
    """Find the largest absolute value in an input, or 1 if all are zero."""
    return float(x.abs().max()) or 1.0
