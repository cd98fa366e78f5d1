"""How a rule is written and found: the call that it looks at, and the table of all rules.

Names and arguments are those of torch's own operations (aten), as they reach a dispatch mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from secondsight.operators.tape.linear_steps import Step, layout
from secondsight.operators.tape.moving_steps import ByAutograd, OnEach
from secondsight.operators.tape.placement import Placement


@dataclass(frozen=True)
class Placed:
    """Steps, one for each result, and where the results count the inputs of the network."""

    steps: list[Step]
    placement: Placement


Outcome = Step | list[Step] | Placed | Literal["same", "constant"] | None
"""What a rule says of an operation: its step (one for each result); "same": its result has the tangent of its input;
"constant": its result does not depend on x for autograd; None: the rule does not know this use of the operation.
Unless it is `Placed`, the results count the inputs where the arguments do."""


class Call:
    """One operation of the network while it is recorded.

    Attributes:
        function, arguments, named: the operation and what it was called with.
        name: what torch calls the operation, without the underscore of its in-place version.
        written: the tensors that it overwrites.
        inputs: the arguments that depend on x.
        placement: where `inputs[0]` counts the inputs of the network.
        shape: the shape that `inputs[0]` would have for a single input, before the operation.
    """

    def __init__(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        slots: WeakIdKeyDictionary,
        placements: WeakIdKeyDictionary,
    ) -> None:
        """Look at the arguments. `slots` and `placements` have the tensors that depend on x."""
        self.function, self.arguments, self.named = function, arguments, named
        self.name, in_place = _name(function)
        self.written = list(_tensors(arguments[:1] if in_place else [named.get("out")]))
        self.inputs = [tensor for tensor in _tensors([*arguments, *named.values()]) if tensor in slots]
        if self.inputs:
            self.placement: Placement = placements[self.inputs[0]]
            self.shape = self.placement.of_one(self.inputs[0].shape)

    @cached_property
    def result(self) -> Any:
        """What the operation returns, computed at the first use."""
        return self.function(*self.arguments, **self.named)

    def depends(self, value: object) -> bool:
        """Whether this argument depends on x."""
        return any(value is tensor for tensor in self.inputs)

    def only(self, value: object) -> bool:
        """Whether this argument, and no other one, depends on x."""
        return len(self.inputs) == 1 and self.inputs[0] is value

    def spread(self) -> tuple[list[int], list[int]] | None:
        """List the dimensions along which each of two inputs is repeated. None: their tangents do not fit together."""
        shape, found = self.result.shape, []
        for tensor in self.inputs:
            repeated = [dim for dim, length in enumerate(tensor.shape) if length != shape[dim]]
            if tensor.ndim != len(shape) or not {0, self.placement.axis}.isdisjoint(repeated):
                return None
            found.append(repeated)
        return found[0], found[1]

    def laid_out(self, values: Tensor) -> Tensor:
        """Bring values into the order and layout of tangents. Products of two layouts are slow."""
        return self.placement.first(values.detach()).contiguous(memory_format=layout(values))

    def by_autograd(self) -> Outcome:
        """Take the operation itself as its step, on its first argument."""
        if self.written:
            return None
        function, rest, named = self.function, self.arguments[1:], self.named
        return ByAutograd(lambda tangent: function(tangent, *rest, **named), self.inputs[0].shape[1:])

    def on_each(
        self, function: Callable[[Tensor], Tensor], result: Tensor, placement: Placement, fixed: Tensor | None = None
    ) -> Step:
        """Make the step of a linear function of the tensor of each input.

        Args:
            function: takes these tensors with a dimension for the inputs before all others.
            result: what the operation returns.
            placement: where the result counts the inputs.
            fixed: a tensor of the function that may depend on the values of the inputs.
        """
        return OnEach(function, self.shape, placement.of_one(result.shape), fixed)


@cache
def _name(function: Any) -> tuple[str, bool]:
    """Name the operation, and tell whether it overwrites its first argument."""
    # Higher-order operations have no overload.
    space, name, overload = f"{function}..".split(".")[:3]
    in_place = name.endswith("_") and not name.endswith("__")
    return f"{space}.{name.removesuffix('_') if in_place else name}.{overload}", in_place


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


Rule = Callable[..., Outcome]
"""Takes a call and the arguments of its operation."""

RULES: dict[str, Rule] = {}
"""The rule of each operation, by torch's name. The files of this folder fill it."""


def rule(*names: str, only_first: bool = True, anywhere: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for the named operations.

    Args:
        names: torch's names.
        only_first: whether only the first argument may depend on x.
        anywhere: whether the rule looks at `call.placement`. Other rules are for tensors that count the inputs first.
    """

    def enter(found: Rule) -> Rule:
        def guarded(call: Call, *arguments: Any, **named: Any) -> Outcome:
            if (only_first and not call.only(arguments[0])) or not (anywhere or call.placement.is_first):
                return None
            return found(call, *arguments, **named)

        RULES.update({f"aten.{name}": guarded for name in names})
        return found

    return enter


def elementwise(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for elementwise operations. It receives their first argument in the order of its tangent."""

    def enter(found: Rule) -> Rule:
        @rule(*names, anywhere=True)
        def placed(call: Call, x: Tensor, *rest: Any, **named: Any) -> Outcome:
            return found(call, call.placement.first(x), *rest, **named)

        return found

    return enter
