"""`explain`: arguments, batches, progress and time around the pipeline."""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from torch import Tensor

from secondsight.batching.workers import Task, side_by_side
from secondsight.config import Settings
from secondsight.errors import InputError
from secondsight.groups import Groups
from secondsight.model.classifier import Classifier, Item, Target
from secondsight.operators.linearisation import linearise_each
from secondsight.operators.tape.folding import FoldedWeights
from secondsight.pipeline import METHODS, PENALISED, explain_one, maximise, surrogate_at
from secondsight.results.explanation import Explanation


def explain(
    model: Classifier,
    x: Item | Sequence[Item],
    method: str = "caso",
    target: Target | Sequence[Target] = None,
    lambda1: str | float | Sequence[float] = "auto",
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
    path_smallest: float | None = None,
    groups: Groups = "none",
    n: int = 50,
    sigma: float = 0.15,
    batch_size: int | None = None,
    score: str = "logit",
    times_input: bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> Any:
    """Explain a decision: find the sparse perturbation D of the input that raises the loss most.

        maximise   g'D + 1/2 D'HD - lambda1 |D|_1 - lambda2 |D|^2            (CASO; CAFO leaves out H)

    Args:
        model: the network, as a Classifier.
        x: a path, a PIL image or a float tensor of the model's input shape; or a batch of them, as a list or as a
            tensor with one more dimension.
        method: "caso" (second order), "cafo" (first order), "smooth-caso" and "smooth-cafo" (averaged over noisy copies
            of the input); or, for comparison, Captum's "gradient", "smoothgrad" and "integrated-gradients", which use
            target, seed, n, sigma, batch_size, score and times_input, as far as they need them, and nothing else.
        target: index or name of the class to explain; None: the predicted one. A list for a batch.
        lambda1: the weight of the sparsity penalty. "auto": the knee of what is kept of the surrogate gain against
            pixels kept, along a path below lambda1_max. "paper": the rule of the paper's section 4.1 on its own grid.
            A number; 0 gives a dense map. Or a list of numbers: the highest loss among those whose sparsity is in
            range, as in the paper.
        c1: how far lambda2 lies above L/2, the edge of concavity. If c1 is much larger than L/2, CASO becomes CAFO up
            to scale.
        lambda2: your own, instead of L/2 + c1 (for CAFO: c1). Refused where the objective would not be concave.
        curvature: "gauss-newton", "exact" (the true Hessian, which may be indefinite), or "auto": the true Hessian,
            computed as Gauss-Newton where the network is piecewise linear and both are equal.
        tolerance: on the certified gap over |objective|.
        certify: "chosen", the returned map, or "path", every map of the path, one product more for each.
        max_products: stop after this many Hessian products and return the best map, not certified. The three to eight
            (for an indefinite Hessian, up to 16) that fix lambda2 are always taken.
        seed: of the random probe for the largest eigenvalue, and of the noise; each input starts from it anew.
        bound: what the certificate takes as the Hessian's largest eigenvalue: "estimated" from products, or "proven"
            from all of H: by Gauss-Newton one backward pass per class, else one product per entry of the input, refused
            above 2048 entries. `products` does not count these.
        sparsity_range: the share of zero pixels (or groups), low <= eta < high, a chosen map must have.
        path_points, path_smallest: length of the path below lambda1_max (at least 12), and its end over lambda1_max.
            None: a hundredth; with groups, where CAFO keeps three of four.
        groups: entries that stand or fall together, so that the penalty is lambda1 sum_j sqrt(size of group j) |D_j|
            instead of lambda1 |D|_1: "none", "pixel" (its channels), "patch:16" (squares of that side), "superpixels"
            (SLIC, some 200; "superpixels:500" for more), or an array of whole numbers, one label for each entry of the
            input or for each pixel.
        n: noisy copies of the smooth methods and SmoothGrad, or steps of Integrated Gradients (from zero).
        sigma: standard deviation of the noise, over the range (max - min) of the input.
        batch_size: copies that go through the network at a time. None: as many as fit half a gigabyte.
        score: what gradient, SmoothGrad and Integrated Gradients explain, "logit" or "loss" of the target.
        times_input: multiply the map by the input. By default only Integrated Gradients does. The paper argues against
            it (appendix D): it sharpens pictures, but dark pixels can never show, and the map is no longer invariant
            where the network is.
        progress: called with the number of products taken so far, of all inputs, in fractions for smooth-caso. CAFO and
            Captum's methods take none.

    Returns:
        An Explanation; for a batch, a list of them. A batch gives what its items give one by one, but for the rounding
        of the network: CASO takes products of several inputs in one pass, and uses torch's threads for several passes.

    Example: logits linear in x with two classes. Then H is parallel to gg', so CASO and CAFO agree in direction.

        >>> import torch
        >>> net = torch.nn.Linear(4, 2).double()
        >>> e = explain(Classifier(net, input_shape=(4,)), torch.ones(4).double(), lambda1=0.0)
        >>> bool(e.second_order.angle < 1e-6), bool(e.relative_gap < 1e-9)
        (True, True)
    """
    check_method(method)
    grouped = repr(groups) if groups is None or isinstance(groups, str) else "an array"
    if method not in PENALISED and grouped not in ("None", "'none'"):
        raise InputError("groups", f"none for {method}: they belong to {', '.join(PENALISED)}", grouped)
    items, is_batch = _items(model, x)
    targets = _targets(target, len(items), is_batch)
    settings = Settings(
        target=None,
        lambda1=tuple(lambda1) if isinstance(lambda1, Sequence) and not isinstance(lambda1, str) else lambda1,
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
        groups=groups,
        n=n,
        sigma=sigma,
        batch_size=batch_size,
        score=score,
        times_input=method == "integrated-gradients" if times_input is None else times_input,
        progress=progress,
    )
    reports, folded = _Reports(progress), FoldedWeights()

    def asked(i: int) -> tuple[Tensor, Settings]:
        return model.tensor(items[i]), replace(settings, target=targets[i], progress=reports.of(i))

    def prepare(numbers: Sequence[int]) -> list[Task[Explanation]]:
        inputs, own = zip(*map(asked, numbers), strict=True)
        linears = linearise_each(model, inputs, [one.target for one in own], folded)
        pairs = zip(linears, own, strict=True)
        surrogates = [surrogate_at(linear, method, one) for linear, one in pairs]
        return [Task(s.H, functools.partial(maximise, s)) for s in surrogates if s.H is not None]

    start = time.perf_counter()
    with model.ready():
        if method == "caso" and len(items) > 1:
            explanations = side_by_side(prepare, len(items))
        else:
            explanations = [explain_one(model, x, method, own) for x, own in map(asked, range(len(items)))]
    seconds = (time.perf_counter() - start) / max(1, len(items))
    explanations = [replace(e, seconds=seconds) for e in explanations]
    return explanations if is_batch else explanations[0]


class _Reports:
    """Adds up the products that the inputs of a batch have taken, for the user's progress function."""

    def __init__(self, progress: Callable[[float], None] | None) -> None:
        self.progress, self.taken, self.lock = progress, dict[int, float](), Lock()

    def of(self, i: int) -> Callable[[float], None] | None:
        return None if self.progress is None else functools.partial(self._report, i)

    def _report(self, i: int, taken: float) -> None:
        with self.lock:
            self.taken[i] = taken
            if self.progress is not None:
                self.progress(sum(self.taken.values()))


def check_method(method: str) -> None:
    """Raise InputError if there is no method of this name."""
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError("method", f"one of {', '.join(METHODS)}", f"{method!r}{hint}")


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
