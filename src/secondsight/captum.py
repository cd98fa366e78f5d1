"""CAFO, CASO and their smooth versions as Captum attributions.

>>> import torch
>>> from secondsight.captum import CASO
>>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
>>> CASO(net, lambda1="10%").attribute(torch.rand(2, 8), target=1).shape
torch.Size([2, 8])

The sign: an attribution here is the perturbation that *raises the loss* of the target. Where it is positive, increasing
that feature works against the class; where it is negative, decreasing it does. Captum's gradient methods explain the
target's score, so there positive speaks for the class. sign="score" changes the sign here to match theirs.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NoReturn

import torch
from captum.attr import Attribution
from captum.log import log_usage
from torch import Tensor, nn

from secondsight import config
from secondsight.call import Cautions, explain_chunks
from secondsight.errors import InputError, shown
from secondsight.model.classifier import Classifier
from secondsight.model.classifier_checks import require_dense
from secondsight.model.joined_inputs import HALF, JoinedInputs
from secondsight.model.network_facts import NetworkFacts
from secondsight.option_types import flag, one_of, whole
from secondsight.results.explanation import Explanation

Inputs = Tensor | tuple[Tensor, ...]
Target = int | tuple[int, ...] | None
"""The class, or the class and a position in outputs of shape (N, classes, ...)."""

Targets = Target | Tensor | Sequence[int] | Sequence[tuple[int, ...]]

__all__ = ["CAFO", "CASO", "SmoothCAFO", "SmoothCASO", "TargetError"]


class TargetError(InputError, AssertionError):
    """A target that the outputs do not have. Captum's own methods raise an AssertionError then, so it is one, too."""


class _Penalised(Attribution):  # type: ignore[misc]
    """What the four attributions share."""

    config_class: ClassVar[type[config.CAFO]]

    def __init_subclass__(cls) -> None:
        """Take the options of the config: names and defaults into the signature, help into the docstring."""
        own = inspect.signature(_Penalised.__init__).parameters
        first = [own["forward_func"], own["sign"], own["seed"]]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in cls.config_class.defaults().items()
        ]
        cls.__signature__ = inspect.Signature([*first, *options])
        words, _, example = (cls.__doc__ or "").partition("    Example:\n")
        cls.__doc__ = f"{words}{ARGS}\n{cls.config_class.help_text(indent=8)}\n\n    Example:\n{example}"

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        *,
        sign: Literal["loss", "score"] = "loss",
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(forward_func)
        if not callable(forward_func) or isinstance(forward_func, type):
            raise InputError("forward_func", "a module or a function", f"a {type(forward_func).__name__}")
        self.sign = one_of("loss", "score")("sign", sign)
        self.seed = whole(0)("seed", seed)
        self.config = self.config_class(**options)
        self._facts = NetworkFacts()
        self._inputs_reach = False

    # Captum's NoiseTunnel asks for the function that this decorator wraps.
    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Inputs,
        target: Targets = None,
        additional_forward_args: Any = None,
        *,
        internal_batch_size: int | None = None,
        return_explanations: bool = False,
        **unknown: Any,
    ) -> Any:
        """Compute the map of each example, in the shape of the inputs.

        Args:
            inputs: one tensor of floats with a batch dimension, or a tuple of them. The tensors of a tuple are
                explained together, under one objective.
            target: the class: one for all examples, or a list or tensor with one for each. Negative ones count from the
                last. For outputs of shape (N, classes, ...) a tuple, the class and the position, or a list of tuples.
                None: the predicted class.
            additional_forward_args: further arguments of forward_func, after the inputs. If the first dimension of a
                tensor is the number of examples, each example gets its own row of it.
            internal_batch_size: how many examples (of the smooth methods: noisy copies of an example) go through the
                network at a time.
            return_explanations: also return the `Explanation` of each example, with its certificate, the path of
                lambda1 and notes. If `inputs` is a tuple, its maps are flat: one tensor after the other.
            **unknown: refused. The message says where an option belongs: to the constructor.

        Returns:
            The attributions, a tensor for a tensor and a tuple for a tuple; with `return_explanations` also the list of
            explanations. With sign="loss" positive works *against* the target.

        Raises:
            InputError: if an input does not reach the output of forward_func, or an argument cannot be used.
            TargetError: if the outputs do not have the target.
        """
        self._refuse(unknown)
        flag("return_explanations", return_explanations)
        parts = _parts(inputs)
        args = _args(additional_forward_args)
        targets = _targets(target, len(parts[0]))
        explanations: list[Explanation] = []
        deltas = [part.new_zeros(0, *part.shape[1:]) for part in parts]
        if len(parts[0]):
            deltas, explanations = self._attribute(parts, args, targets, internal_batch_size, return_explanations)
        result = tuple(deltas) if isinstance(inputs, tuple) else deltas[0]
        return (result, explanations) if return_explanations else result

    def attribute_future(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse: there are no futures here."""
        raise NotImplementedError(f"{type(self).__name__} has no attribute_future: use attribute")

    def _attribute(
        self,
        parts: tuple[Tensor, ...],
        args: tuple[Any, ...],
        targets: list[Target],
        internal_batch_size: int | None,
        keep: bool,
    ) -> tuple[list[Tensor], list[Explanation]]:
        """Explain at least one example, and put the maps into the shapes of the inputs."""
        method, size = self.config, len(parts[0])
        if internal_batch_size is not None:
            size = whole(1)("internal_batch_size", internal_batch_size)
            if method.has("batch_size"):
                method, size = method.with_options(batch_size=size), len(parts[0])
        maps: list[Tensor] = []
        kept: list[Explanation] = []
        # Between here and the user are `attribute` and what Captum wraps it in.
        cautions = Cautions(depth=3)
        for model, items, wanted in self._models(parts, args, targets, size):
            self._require_every_input(model, items[0])
            pairs = [(item, _class(target, model, items[0])) for item, target in zip(items, wanted, strict=True)]
            for e in explain_chunks(model, pairs, method, self.seed, None, cautions):
                maps.append(e.delta.flatten())
                if keep:
                    kept.append(e)
        stacked = torch.stack(maps).to(parts[0].device) * (1 if self.sign == "loss" else -1)
        pieces = stacked.split([part[0].numel() for part in parts], dim=1)
        return [piece.reshape(part.shape).to(part) for piece, part in zip(pieces, parts, strict=True)], kept

    def _models(
        self, parts: tuple[Tensor, ...], args: tuple[Any, ...], targets: list[Target], size: int
    ) -> Iterator[tuple[Classifier, list[Any], list[Target]]]:
        """Make a model for each `size` examples, with their inputs and targets.

        Where each example has arguments or a position in the outputs of its own, each has a model of its own.
        """
        count = len(parts[0])
        positions = [target[1:] if isinstance(target, tuple) else () for target in targets]
        tensors = {i: arg for i, arg in enumerate(args) if isinstance(arg, Tensor) and not arg.is_nested}
        rows = [i for i, arg in tensors.items() if arg.ndim and len(arg) == count]
        if rows or len(set(positions)) > 1:
            size = 1
        shapes = [tuple(part.shape[1:]) for part in parts]
        is_plain = len(parts) == 1 and shapes[0] != ()
        # What is known about the network does not carry over to calls with other arguments.
        facts = NetworkFacts() if args else self._facts
        for start in range(0, count, size):
            some = slice(start, start + size)
            own = tuple(arg[some] if i in rows else arg for i, arg in enumerate(args))
            net = _Call(self.forward_func, own, rows, positions[start], parts)
            model = Classifier(net, input_shape=shapes[0] if is_plain else shapes, name=_name(self.forward_func))
            model.facts = facts
            examples = list(zip(*(part[some].detach() for part in parts), strict=True))
            yield model, [example[0] for example in examples] if is_plain else examples, targets[some]

    def _require_every_input(self, model: Classifier, item: Any) -> None:
        """Refuse an input that the output does not depend on. An attribution checks this once."""
        if self._inputs_reach:
            return
        with model.ready():
            leaves = [part[None].clone().requires_grad_() for part in model.split(model.tensor(item))]
            with model.telling_failures(leaves[0], last=True):
                logits = _call_of(model)(*leaves)
            if isinstance(logits, Tensor) and logits.requires_grad:
                slopes = torch.autograd.grad(logits.sum(), leaves, allow_unused=True)
                unused = [i for i, slope in enumerate(slopes) if slope is None]
                if unused:
                    may_be = "all used by forward_func (pass others in additional_forward_args)"
                    raise InputError("inputs", may_be, f"such that number {unused[0]} does not reach its output")
        self._inputs_reach = True

    def _refuse(self, unknown: dict[str, Any]) -> None:
        name, known = (
            type(self).__name__,
            "inputs, target, additional_forward_args, internal_batch_size and return_explanations",
        )
        for argument in unknown:
            if argument in self.config.options():
                raise InputError(
                    argument, f"given to the constructor, {name}(forward_func, {argument}=...)", "to attribute"
                )
            raise InputError(argument, f"left out: {name}.attribute takes {known}", "an argument of it")


ARGS = """    Args:
        forward_func: a module, a Classifier or a function from a batch (or several) to logits of shape (N, classes). A
            module is used in eval mode with frozen parameters, and both are restored afterwards.
        sign: "loss": positive raises the loss, so it works against the target. "score": positive speaks for it.
        seed: of all random numbers; each example starts from it anew."""
"""What the constructors take beside the options of their methods."""


class CAFO(_Penalised):
    r"""The sparse map of first order.

    $$
    \max_D\; g^\top D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    Example:
        >>> import torch
        >>> from secondsight.captum import CAFO
        >>> CAFO(torch.nn.Linear(8, 3), lambda1="10%").attribute(torch.rand(2, 8), target=[0, 2]).shape
        torch.Size([2, 8])
    """

    config_class = config.CAFO


class CASO(_Penalised):
    r"""The sparse map of second order.

    $$
    \max_D\; g^\top D + \tfrac12 D^\top H D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    Example:
        >>> import torch
        >>> from secondsight.captum import CASO
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        >>> maps, explanations = CASO(net).attribute(torch.rand(2, 8), target=1, return_explanations=True)
        >>> maps.shape, explanations[0].certificate.basis
        (torch.Size([2, 8]), 'proven')
    """

    config_class = config.CASO


class SmoothCAFO(_Penalised):
    """CAFO with the gradient averaged over noisy copies of each example.

    Example:
        >>> import torch
        >>> from secondsight.captum import SmoothCAFO
        >>> SmoothCAFO(torch.nn.Linear(8, 3), n=4, stdevs=0.1).attribute(torch.rand(2, 8), target=1).shape
        torch.Size([2, 8])
    """

    config_class = config.SmoothCAFO


class SmoothCASO(_Penalised):
    """CASO with gradient and Hessian averaged over noisy copies of each example.

    Example:
        >>> import torch
        >>> from secondsight.captum import SmoothCASO
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        >>> SmoothCASO(net, n=4, stdevs=0.1).attribute(torch.rand(2, 8), target=1).shape
        torch.Size([2, 8])
    """

    config_class = config.SmoothCASO


ATTRIBUTIONS: dict[str, type[_Penalised]] = {
    attribution.config_class.name: attribution for attribution in (CAFO, CASO, SmoothCAFO, SmoothCASO)
}
"""The attributions by the names of their methods."""


class _Call(nn.Module):
    """A forward function with its additional arguments, at one position of its outputs: from inputs to logits.

    Attributes:
        classes: the number of classes. None before the first output.
    """

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        args: tuple[Any, ...],
        rows: Sequence[int],
        position: tuple[int, ...],
        parts: Sequence[Tensor],
    ) -> None:
        super().__init__()
        # A call of a Classifier checks its input, which noisy copies would fail, and `logits` does not. The network is
        # kept as a submodule, so that it is put into eval mode.
        self.module = forward_func.computed if isinstance(forward_func, Classifier) else forward_func
        self.function = forward_func.logits if isinstance(forward_func, Classifier) else None
        self.args, self.rows, self.position = args, rows, position
        types = [torch.float32 if part.dtype in HALF else part.dtype for part in parts]
        # Inputs that all have one type are passed on in the type of the network.
        self.dtypes = types if len(set(types)) > 1 else [None] * len(types)
        self.classes: int | None = None

    def forward(self, *parts: Tensor) -> Tensor:
        """Compute the logits of a batch."""
        typed = [part if dtype is None else part.to(dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]
        count = len(parts[0])
        # The one row of an example is repeated for each of its noisy copies.
        args = [arg.expand(count, *arg.shape[1:]) if i in self.rows else arg for i, arg in enumerate(self.args)]
        output = (self.function or self.module)(*typed, *args)
        if not isinstance(output, Tensor) or output.ndim < 2:
            return output
        if output.ndim != 2 + len(self.position):
            shape = ", ".join(["N", *map(str, output.shape[1:])])
            raise TargetError("target", f"(class, *position) for outputs of shape ({shape})", (..., *self.position))
        self.classes = output.shape[1]
        try:
            where: Any = (slice(None), slice(None), *self.position)
            return output[where]
        except (IndexError, ValueError):
            may_be = f"a position in outputs of shape {tuple(output.shape[1:])}"
            raise TargetError("target", may_be, (..., *self.position)) from None


def _call_of(model: Classifier) -> _Call:
    """The `_Call` that a model computes with: its own, or a float32 copy of it if the network is in half precision."""
    call: Any = model.computed.net if isinstance(model.computed, JoinedInputs) else model.computed
    return call  # type: ignore[no-any-return]


def _class(target: Target, model: Classifier, item: Any) -> int | None:
    """Find the index of the class; negative ones count from the last."""
    index = target[0] if isinstance(target, tuple) else target
    if index is None:
        return None
    call = _call_of(model)
    if call.classes is None:
        with model.ready(), torch.no_grad():
            model.logits(model.tensor(item)[None])
    if call.classes is None:
        # No logits at all, which the Classifier refuses.
        return index
    if not -call.classes <= index < call.classes:
        raise TargetError("target", f"a class index from {-call.classes} to {call.classes - 1}", index)
    return index % call.classes


def _parts(inputs: Inputs) -> tuple[Tensor, ...]:
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    for part in parts:
        if isinstance(part, Tensor):
            require_dense("inputs", part)
        if not isinstance(part, Tensor) or not part.is_floating_point() or part.ndim < 1:
            what = (
                f"{part.dtype} of shape {tuple(part.shape)}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            )
            raise InputError("inputs", "tensors of floats with a batch dimension", what)
    if not parts or len({len(part) for part in parts}) != 1:
        raise InputError("inputs", "tensors with the same number of examples", [len(part) for part in parts])
    if len({part.device for part in parts}) != 1:
        raise InputError("inputs", "on one device", [str(part.device) for part in parts])
    return parts


def _args(additional_forward_args: Any) -> tuple[Any, ...]:
    if additional_forward_args is None:
        return ()
    return additional_forward_args if isinstance(additional_forward_args, tuple) else (additional_forward_args,)


def _targets(target: Targets, count: int) -> list[Target]:
    """List the target of each example: whole numbers, or tuples of them, or None."""
    if isinstance(target, Tensor) and target.ndim > 1 and target.numel() != len(target):
        raise TargetError("target", "of shape (N,) or (N, 1)", f"of shape {tuple(target.shape)}")
    given: Any = target
    if isinstance(target, Tensor):
        require_dense("target", target)
        given = target.flatten().tolist() if target.ndim else target.item()
    if not isinstance(given, list):
        return [_target(given)] * count
    if len(given) not in (1, count):
        raise TargetError("target", f"one class, or one for each of the {count} examples", f"{len(given)} of them")
    return [_target(one) for one in given] * (count if len(given) == 1 else 1)


def _target(target: Any) -> Target:
    if target is None:
        return None
    numbers = target if isinstance(target, tuple) else (target,)
    try:
        indices = tuple(operator.index(number) for number in numbers)
    except (TypeError, RuntimeError):
        indices = ()
    if not indices or any(isinstance(number, bool) for number in numbers):
        raise TargetError("target", "a whole number, a tuple of them, or a list or tensor of either", shown(target))
    return indices[0] if len(indices) == 1 else indices


def _name(forward_func: object) -> str:
    if isinstance(forward_func, Classifier):
        return forward_func.name
    return getattr(forward_func, "__name__", type(forward_func).__name__)
