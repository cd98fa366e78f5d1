"""The whole pipeline on one screen.

photograph -> Classifier -> gradient g and Hessian products -> CAFO or CASO along lambda1 -> chosen, certified map
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from secondsight.errors import InputError
from secondsight.methods import METHODS
from secondsight.methods.settings import Settings
from secondsight.model import Classifier, Item, Target


def explain(
    model: Classifier,
    x: Item | Sequence[Item],
    method: str = "caso",
    target: Target | Sequence[Target] = None,
    lambda1: str | float = "auto",
    c1: float = 10.0,
    lambda2: float | None = None,
    curvature: str = "auto",
    tolerance: float = 1e-4,
    certify: str = "chosen",
    max_products: int = 100,
    seed: int = 0,
    *,
    bound: str = "estimated",
    sparsity_range: tuple[float, float] = (0.75, 1.0),
    path_points: int = 16,
    path_smallest: float = 0.01,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """Which input features the decision hangs on: the sparse perturbation D that raises the loss most.

        maximise   g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2            (CASO; CAFO leaves out H)

    Args:
        model: the network, as a Classifier.
        x: a path, a PIL image or a float tensor of the model's input shape; or a batch of them, as a list or as a
            tensor with one more dimension.
        method: "caso" (second order) or "cafo" (first order).
        target: index or name of the class to explain; None: the predicted one. A list for a batch.
        lambda1: the penalty on |D|_1. "auto": the knee of what is kept of the surrogate gain against pixels kept,
            along a path below lambda1_max. "paper": the rule of the paper's section 4.1 on its own grid. Or a number;
            0 gives a dense map.
        c1: how far lambda2 lies above L/2, the edge of concavity. Large values drown the curvature.
        lambda2: your own, instead of L/2 + c1 (for CAFO: c1). Refused where the objective would not be concave.
        curvature: "gauss-newton", "exact" (the true Hessian, which may be indefinite), or "auto": the true Hessian,
            computed as Gauss-Newton where the network is piecewise linear and both are equal.
        tolerance: on the certified gap over |objective|.
        certify: "chosen", the returned map, or "path", every map of the path, one product more for each.
        max_products: stop after so many Hessian products and return the best map, not certified. The three to eight
            (for an indefinite Hessian, up to 16) that fix lambda2 are always taken.
        seed: of the random probe for the largest eigenvalue.
        bound: what the certificate takes as the Hessian's largest eigenvalue: "estimated" from products, or "proven"
            from all of H, one backward pass per class.
        sparsity_range: the share of zero pixels, low <= eta < high, a chosen map must have.
        path_points, path_smallest: length of the path below lambda1_max (at least 12), and its end over lambda1_max.
        progress: called with the number of products taken so far, after each.

    Returns:
        An Explanation; for a batch, a list of them. A batch gives what its items give one by one.

    Example: logits linear in x with two classes. Then H is parallel to gg', so CASO and CAFO agree in direction.

        >>> import torch
        >>> net = torch.nn.Linear(4, 2).double()
        >>> e = explain(Classifier(net, input_shape=(4,)), torch.ones(4).double(), lambda1=0.0)
        >>> bool(e.second_order.angle < 1e-6), bool(e.relative_gap < 1e-9)
        (True, True)
    """
    if method not in METHODS:
        raise InputError("method", f"one of {', '.join(METHODS)}", repr(method))
    items, is_batch = _items(model, x)
    targets = _targets(target, len(items), is_batch)
    settings = Settings(
        target=None,
        lambda1=lambda1,
        c1=c1,
        lambda2=lambda2,
        curvature=curvature,
        tolerance=tolerance,
        certify=certify,
        max_products=max_products,
        seed=seed,
        bound=bound,
        sparsity_range=sparsity_range,
        path_points=path_points,
        path_smallest=path_smallest,
        progress=progress,
    )
    explanations = []
    for item, wanted in zip(items, targets, strict=True):
        start = time.perf_counter()
        tensor = model.tensor(item)
        with model.ready():
            explanation = METHODS[method](model, tensor, replace(settings, target=wanted))
        explanations.append(replace(explanation, seconds=time.perf_counter() - start))
    return explanations if is_batch else explanations[0]


def _items(model: Classifier, x: Item | Sequence[Item]) -> tuple[Sequence[Item], bool]:
    if isinstance(x, Tensor):
        if x.ndim == len(model.input_shape) + 1:
            return list(x), True
        return [x], False
    if isinstance(x, (list, tuple)):
        return x, True
    return [x], False  # type: ignore[list-item]


def _targets(target: Target | Sequence[Target], count: int, is_batch: bool) -> Sequence[Target]:
    if isinstance(target, Tensor):
        target = target.tolist()
    if isinstance(target, (list, tuple)):
        if not is_batch or len(target) != count:
            raise InputError("target", f"one class, or a list of {count} for this batch", target)
        return target
    return [target] * count  # type: ignore[list-item]
