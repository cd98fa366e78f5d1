"""`explain` and `explain_batches`: their signatures, and the checks of their arguments."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

from torch import Tensor

from secondsight.batch_items import Batch, labelled_items
from secondsight.call import Cautions, Progress, explain_all, explain_chunks
from secondsight.config import CAFO, CASO, METHODS, Method, Picture, method_of
from secondsight.errors import InputError, shown
from secondsight.model.classifier import Classifier, Item, Target, require_classifier
from secondsight.option_types import flag, plain
from secondsight.results.explanation import (
    Explanation,
    PictureExplanation,
    SecondOrderExplanation,
    SparseExplanation,
)

Targets: TypeAlias = Target | Sequence[Target] | Tensor
"""One class for all inputs, or one for each."""

SecondOrderName: TypeAlias = Literal["caso", "smooth-caso"]
PictureName: TypeAlias = Literal["picture"]
SparseName: TypeAlias = Literal["cafo", "smooth-cafo"]


# A list of inputs gives a list of results.
@overload
def explain(
    model: Classifier,
    x: list[Any],
    method: CASO | SecondOrderName = ...,
    target: Targets = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> list[SecondOrderExplanation]: ...
@overload
def explain(
    model: Classifier,
    x: list[Any],
    method: Picture | PictureName,
    target: Targets = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> list[PictureExplanation]: ...
@overload
def explain(
    model: Classifier,
    x: list[Any],
    method: CAFO | SparseName,
    target: Targets = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> list[SparseExplanation]: ...
@overload
def explain(
    model: Classifier,
    x: list[Any],
    method: Method | str,
    target: Targets = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> list[Explanation]: ...


# One input gives one result.
@overload
def explain(
    model: Classifier,
    x: Item,
    method: CASO | SecondOrderName = ...,
    target: Target | Tensor = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> SecondOrderExplanation: ...
@overload
def explain(
    model: Classifier,
    x: Item,
    method: Picture | PictureName,
    target: Target | Tensor = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> PictureExplanation: ...
@overload
def explain(
    model: Classifier,
    x: Item,
    method: CAFO | SparseName,
    target: Target | Tensor = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> SparseExplanation: ...
@overload
def explain(
    model: Classifier,
    x: Item,
    method: Method | str,
    target: Target | Tensor = ...,
    *,
    seed: int = ...,
    progress: Progress = ...,
) -> Explanation: ...


def explain(
    model: Classifier,
    x: Item | list[Any],
    method: Method | str = CASO(),
    target: Targets = None,
    *,
    seed: int = 0,
    progress: Progress = None,
    **misplaced: object,
) -> Any:
    r"""Explain a decision: find the sparse perturbation D of the input that raises the loss most.

    $$
    \max_D\; g^\top D + \tfrac12 D^\top H D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    That is CASO, the default. CAFO leaves out H.

    Args:
        model: the network, as a Classifier.
        x: one input: a path, a PIL image, a float tensor of the model's input shape, or, for a network of several
            inputs, a tuple of tensors. Or a list of inputs. Batch tensors and DataLoaders go to `explain_batches`.
        method: a config such as `CASO(c1=1, groups="pixel")`, or a string: the name of a method, which has its
            defaults, or a name with options, "caso(c1=1,groups=pixel)". `CASO` and `CAFO` are sparse maps of second and
            first order, `SmoothCASO` and `SmoothCAFO` average over noisy copies of the input, and `Picture` is a map to
            look at. For comparison there are Captum's `Gradient`, `SmoothGrad` and `IntegratedGradients`.
        target: index or name of the class to explain; None: the predicted one. For a list of inputs also a list,
            with one class for each.
        seed: of the random probe for the largest eigenvalue, and of the noise. Each input starts from it anew.
        progress: called with the number of Hessian products taken so far, for all inputs together. SmoothCASO also
            reports fractions of a product. CAFO, SmoothCAFO and Captum's methods take no products.
        **misplaced: refused. The message says where an option belongs: to the method.

    Returns:
        For one input an `Explanation`: of CASO and SmoothCASO a `SecondOrderExplanation`, of CAFO and SmoothCAFO a
        `SparseExplanation`, of Picture a `PictureExplanation`. For a list of inputs a list of results. They differ from
        those of single inputs by the rounding of the network only: CASO takes products of several inputs in one pass,
        and uses torch's threads for several passes.

    Raises:
        InputError: if an argument cannot be used, or the input does not fit the network.
        ImageError: if a file cannot be read as a picture.
        ModelError: if the network cannot be explained as it is.

    Warns:
        SecondsightWarning: about what changes the meaning of a result, once per call and kind: a map that is all zero,
            another matrix in the place of the Hessian, a certificate that does not hold.

    Example: logits linear in x with two classes. Then H is parallel to gg', so CASO and CAFO agree in direction.

        >>> import torch
        >>> net = torch.nn.Linear(4, 2).double()
        >>> e = explain(Classifier(net, input_shape=(4,)), torch.ones(4).double(), CASO(lambda1=0.0))
        >>> bool(e.second_order.angle < 1e-6), bool(e.certificate.relative_gap < 1e-9)
        (True, True)
    """
    require_classifier(model)
    config = _config(method, misplaced)
    is_list = isinstance(x, list)
    items: Sequence[Any] = x if isinstance(x, list) else [x]
    if not is_list:
        _refuse_batch(model, x)
    results = explain_all(model, items, config, _targets(target, len(items), is_list), seed, progress)
    Cautions().warn(results)
    return results if is_list else results[0]


def explain_batches(
    model: Classifier,
    batches: Tensor | Iterable[Batch],
    method: Method | str = CASO(),
    target: Target = None,
    *,
    use_labels: bool = False,
    seed: int = 0,
    progress: Progress = None,
) -> Iterator[Explanation]:
    """Explain many inputs, and give one result after the other. Memory does not grow with their number.

    Args:
        model: the network, as a Classifier.
        batches: a tensor with a batch dimension, or any iterable of batches such as a DataLoader. A batch is a tensor
            with a batch dimension (for a network of several inputs, one tensor for each), a list of inputs, or either
            with labels after it, as DataLoaders give them.
        method: a config or a string, as for `explain`.
        target: the class to explain, for all inputs; None: the predicted one.
        use_labels: explain each input's own label. Otherwise labels in the batches are ignored.
        seed: as for `explain`.
        progress: called with the number of Hessian products taken so far.

    Yields:
        The results, in the order of the inputs. Between two of them the network is as you left it.

    Raises:
        InputError: if an argument cannot be used, or an input does not fit the network.
        ImageError: if a file cannot be read as a picture.
        ModelError: if the network cannot be explained as it is.

    Warns:
        SecondsightWarning: as `explain` does, once for all batches.

    Example:
        >>> import torch
        >>> model = Classifier(torch.nn.Linear(4, 3), input_shape=(4,))
        >>> len(list(explain_batches(model, torch.rand(20, 4), "cafo")))
        20
    """
    require_classifier(model)
    config = _config(method, {})
    if flag("use_labels", use_labels) and target is not None:
        raise InputError("target", "None where use_labels is set", shown(target))
    try:
        several = iter([batches] if isinstance(batches, Tensor) else batches)
    except TypeError:
        raise InputError("batches", "a tensor or an iterable of batches", f"a {type(batches).__name__}") from None
    items = itertools.chain.from_iterable(labelled_items(model, batch, use_labels) for batch in several)
    pairs = items if use_labels else ((item, target) for item, _ in items)
    return explain_chunks(model, pairs, config, seed, progress, Cautions())


def _config(method: Method | str, misplaced: dict[str, object]) -> Method:
    config = method_of(method)
    for name in misplaced:
        if any(name in one.options() for one in METHODS.values()):
            hint = f"an option of the method, as in explain(model, x, {type(config).__name__}({name}=...))"
        else:
            hint = "target, seed or progress, beside the model, the input and the method"
        raise InputError(name, hint, "an argument of explain")
    return config


def _refuse_batch(model: Classifier, x: Any) -> None:
    if isinstance(x, Tensor) and model.is_batch(x):
        may_be = "one input or a list of them: type list(x), or ss.explain_batches(model, x)"
        raise InputError("x", may_be, f"a batch of shape {tuple(x.shape)}")


def _targets(target: Targets, count: int, is_list: bool) -> Sequence[Target]:
    found = plain(target)
    if isinstance(found, tuple):
        if not is_list or len(found) != count:
            raise InputError("target", f"one class, or a list of {count} for this batch", target)
        return found
    return [found] * count
