"""Records a network's tape: one pass is watched, operation by operation.

Each operation becomes a linear step: a ReLU a fixed mask, a max-pool a fixed gather, batch norm its scale; biases
vanish. Curved operations become curved steps. If an operation has no rule, or mixes the inputs, no tape is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from secondsight.model.classifier import Classifier
from secondsight.model.failures import is_out_of_memory
from secondsight.operators.tape.folding import merge_scales
from secondsight.operators.tape.linear_steps import Step
from secondsight.operators.tape.placement import Placement
from secondsight.operators.tape.rules import CONSTANT, DETACH, RULES, Call, Outcome, Placed
from secondsight.operators.tape.tape import Node, Tape, memory_of


def record_tape(model: Classifier, x: Tensor, independent: bool = False) -> Tape | None:
    """Run the network at the inputs x and record its tape. For use inside `model.ready()`.

    Args:
        model: the network.
        x: the inputs, with batch dimension.
        independent: also give up where one input may influence the map at another one.

    Returns:
        The tape, or None where the network does something that has no rule.
    """
    x = x.detach().clone()
    recorder = Recorder(x, independent)
    model.facts.unknown_operation = ""
    try:
        with recorder:
            logits = model.logits(x)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        # Perhaps only the recording failed. If the network failed, it will fail again without it.
        return None
    model.facts.unknown_operation = recorder.unknown
    return recorder.tape(logits)


class Recorder(TorchDispatchMode):
    """Sees every operation of torch while it is active, and writes down its step.

    Attributes:
        slots: the number of the tangent of each living tensor that depends on x.
        placements: where these tensors count the inputs.
        unusable: those of them that no operation may take. Their memory was overwritten by way of another tensor, or
            they are indices, which may carry one input to another.
        unknown: the first operation that has no rule.
    """

    def __init__(self, x: Tensor, independent: bool = False) -> None:
        """Start with x as tangent 0."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.x, self.unknown = x, ""
        # Detached values are not followed, so they may carry one input to another.
        self.constant = {f"aten.{name}" for name in CONSTANT if not (independent and name == DETACH)}
        self.slots, self.placements = WeakIdKeyDictionary(), WeakIdKeyDictionary()
        self.independent, self.unusable = independent, WeakIdKeyDictionary()
        self.slots[x], self.placements[x] = 0, Placement(len(x))
        self.nodes: list[Node] = []
        self.sizes = [x.nbytes]
        self.held: set[int] = set()
        self.signature: list[object] = [x.dtype]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: skipping it would import torch's compiler at the first operation, which takes more than a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation, and write down its step."""
        if self.unknown:
            return func(*args, **(kwargs or {}))
        call = Call(func, args, kwargs or {}, self.slots, self.placements)
        if not self._understood(call):
            self.unknown = call.name
        return call.result

    def _understood(self, call: Call) -> bool:
        """Run the operation, and write down its step if it has a rule that holds here."""
        if any(self._is_needed(tensor) for tensor in call.written):
            return False
        if not call.inputs:
            return True
        if any(tensor in self.unusable for tensor in call.inputs):
            return False
        if call.written and not (len(call.written) == 1 and call.depends(call.written[0])):
            return False
        # Without gradients, as in the forward of a torch.autograd.Function, autograd sees another dependence or none.
        if not torch.is_grad_enabled():
            return not call.written and call.name in self.constant
        if any(self.placements[tensor] != call.placement for tensor in call.inputs):
            return False
        for other in (other for written in call.written for other in self._sharing(written)):
            self.unusable[other] = True
        # These are read before the rule runs the operation, which may overwrite the inputs.
        before = [call.placement.of_one(tensor.shape) for tensor in call.inputs]
        slots = tuple(self.slots[tensor] for tensor in call.inputs)
        outcome = _outcome(call)
        if outcome is None:
            return False
        if outcome == "constant":
            return call.name in self.constant and not call.written
        if outcome == "same":
            result = _first_result(call)
            self.slots[result], self.placements[result] = slots[0], call.placement
            return self._is_followed(result) and call.placement.of_one(result.shape) == before[0]
        if not isinstance(outcome, Placed):
            outcome = Placed(outcome if isinstance(outcome, list) else [outcome], call.placement)
        results = [call.result] if isinstance(call.result, Tensor) else call.result[: len(outcome.steps)]
        for step, result in zip(outcome.steps, results, strict=True):
            self._write(step, slots, result, outcome.placement)
        if self.independent and not isinstance(call.result, Tensor):
            for index in (other for other in call.result[len(results) :] if isinstance(other, Tensor)):
                self.slots[index], self.placements[index], self.unusable[index] = slots[0], call.placement, True
        # The same change of shape is a view or a copy, as the entries lie in memory. So the signature omits it.
        how = () if outcome.steps[0].shape_only else (call.name, _static([*call.arguments, *call.named.values()]))
        self.signature.append((how, slots, before))
        return all(self._is_followed(result) for result in results)

    def _write(self, step: Step, slots: tuple[int, ...], result: Tensor, placement: Placement) -> None:
        self.slots[result], self.placements[result] = len(self.sizes), placement
        self.nodes.append(Node(step, slots, len(self.sizes)))
        self.sizes.append(result.nbytes)
        self.held.update(memory_of(tensor) for tensor in step.tensors())
        self.signature.append(placement.of_one(result.shape))

    def _is_followed(self, result: Tensor) -> bool:
        """Whether the result has the type and the device of x, and a shape that fits its placement."""
        alike = result.dtype == self.x.dtype and result.device == self.x.device
        return alike and self.placements[result].fits(result.shape)

    def _is_needed(self, written: Tensor) -> bool:
        """Whether a step holds this memory, or a tensor that depends on x has it although this one does not."""
        return memory_of(written) in self.held or (written not in self.slots and bool(self._sharing(written)))

    def _sharing(self, written: Tensor) -> list[Tensor]:
        """List the other tensors with this memory that depend on x, such as the tensor of which this one is a view."""
        memory = memory_of(written)
        others = (other for other in self.slots.keys() if other is not written)  # noqa: SIM118
        return [other for other in others if memory_of(other) == memory]

    def tape(self, logits: object) -> Tape | None:
        """Make the tape that ends in the logits. None: an operation had no rule."""
        if self.unknown or not isinstance(logits, Tensor) or logits not in self.slots or logits in self.unusable:
            return None
        if logits.ndim != 2 or len(logits) != len(self.x) or not self.placements[logits].is_first:
            return None
        output = self.slots[logits]
        signature = hash(repr((self.signature, output)))
        return Tape(merge_scales(self.nodes, output), output, self.x.shape, logits.detach(), self.sizes, signature)


def _outcome(call: Call) -> Outcome:
    if call.name not in RULES:
        return None
    try:
        return RULES[call.name](call, *call.arguments, **call.named)
    except (TypeError, ValueError, IndexError):
        # The rule does not know these arguments.
        return None


def _first_result(call: Call) -> Tensor:
    result: Tensor = call.result if isinstance(call.result, Tensor) else call.result[0]
    return result


def _static(values: Sequence[Any]) -> tuple[object, ...]:
    """Pick the arguments that decide how the operation acts: neither tensors nor fractions."""
    kept = (value for value in values if not isinstance(value, (Tensor, float)))
    return tuple(_static(value) if isinstance(value, (list, tuple)) else value for value in kept)
