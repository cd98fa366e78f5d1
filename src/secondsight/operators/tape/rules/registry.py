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

from secondsight.operators.tape.linear_steps import Step
from secondsight.operators.tape.moving_steps import ByAutograd


@dataclass(frozen=True)
class Placed:
    """Steps, one for each result. Dimension `axis` of the results counts the inputs of the network."""

    steps: list[Step]
    axis: int


Outcome = Step | list[Step] | Placed | Literal["same", "constant"] | None
"""What a rule says of an operation: its step (one for each result); "same": its result has the tangent of its input;
"constant": its result does not depend on x for autograd; None: the rule does not know this use of the operation."""


class Call:
    """One operation of the network while it is recorded.

    Attributes:
        function, arguments, named: the operation and what it was called with.
        name: what torch calls the operation, without the underscore of its in-place version.
        written: the tensors that it overwrites.
        inputs: the arguments that depend on x.
        axis: the dimension of `inputs[0]` that counts the inputs of the network.
    """

    def __init__(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        slots: WeakIdKeyDictionary,
        axes: WeakIdKeyDictionary,
    ) -> None:
        """Look at the arguments.

        `slots` has the tensors that depend on x. `axes` has the dimension that counts the inputs, where it is not 0.
        """
        self.function, self.arguments, self.named = function, arguments, named
        self.name, in_place = _name(function)
        self.written = list(_tensors(arguments[:1] if in_place else [named.get("out")]))
        self.inputs = [tensor for tensor in _tensors([*arguments, *named.values()]) if tensor in slots]
        self.axis: int = axes.get(self.inputs[0], 0) if self.inputs else 0

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

    def by_autograd(self) -> Outcome:
        """Take the operation itself as its step, on its first argument."""
        if self.written:
            return None
        function, rest, named = self.function, self.arguments[1:], self.named
        return ByAutograd(lambda tangent: function(tangent, *rest, **named), self.inputs[0].shape[1:])


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


RULES: dict[str, Callable[..., Outcome]] = {}
"""The rule of each operation, by torch's name. The files of this folder fill it."""


def rule(*names: str, only_first: bool = True) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a rule for the named operations. With `only_first`, only their first argument may depend on x."""

    def enter(found: Callable[..., Outcome]) -> Callable[..., Outcome]:
        def guarded(call: Call, *arguments: Any, **named: Any) -> Outcome:
            return found(call, *arguments, **named) if call.only(arguments[0]) else None

        RULES.update({f"aten.{name}": guarded if only_first else found for name in names})
        return found

    return enter
