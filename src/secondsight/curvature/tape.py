"""A piecewise-linear network at given inputs, written down as the linear map that it is there.

One pass of the network is watched, operation by operation. Each becomes a linear step: a ReLU a fixed mask, a max-pool
a fixed gather, batch norm its scale; biases vanish. The steps in order are W' (the tangent pass), their transposes in
reverse W (the vector-Jacobian product). Neither runs the network again, and of its activations only masks are kept.

What is not known to be linear and to act on each input by itself leaves no tape at all.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from secondsight.curvature.rules import DETACH, FREE, RULES, Call
from secondsight.curvature.steps import Gather, Mask, Reshape, Step, layout
from secondsight.model import Classifier

MEMORY = 2**28
"""Bytes that the tangents of several directions may take at a time."""
DIRECTIONS = 4
"""More at a time are slower on the CPU: their tangents outgrow its caches."""


@dataclass(eq=False)
class Node:
    """A step on numbered tangents. `last`: those that nobody needs afterwards."""

    step: Step
    inputs: tuple[int, ...]
    output: int
    last: frozenset[int] = frozenset()


class Tape:
    """W at n inputs, as steps.

    logits: what the network returned. signature: equal for tapes whose steps differ in nothing but numbers, so that one
    comparison with another way to the same products speaks for all of them.
    """

    def __init__(
        self, nodes: list[Node], output: int, shape: torch.Size, logits: Tensor, sizes: list[int], signature: int
    ) -> None:
        self.shape, self.output, self.logits, self.signature = shape, output, logits, signature
        self.nodes: list[Node] = []
        needed = {output}
        for node in reversed(nodes):
            if node.output in needed:
                node.last = frozenset(node.inputs) - needed
                needed.update(node.inputs)
                self.nodes.insert(0, node)
        self.peak = self._peak(sizes)

    @property
    def nbytes(self) -> int:
        """Of what was written down for these inputs; weights belong to the network."""
        kept = [node.step for node in self.nodes if isinstance(node.step, (Mask, Gather))]
        return sum(tensor.nbytes for step in kept for tensor in step.tensors())

    @property
    def directions(self) -> int:
        """How many are fast at a time."""
        return max(1, min(DIRECTIONS, MEMORY // self.peak))

    def _peak(self, sizes: list[int]) -> int:
        """Bytes of the tangents that one direction needs at a time."""
        live, peak = sizes[0], sizes[0]
        for node in self.nodes:
            live += sizes[node.output]
            peak = max(peak, live)
            live -= sum(sizes[slot] for slot in node.last)
        return peak

    @torch.no_grad()
    def forward(self, v: Tensor) -> Tensor:
        """W'v: the change (k, n, classes) of the logits along directions (k, n or 1, *shape)."""
        start = v.expand(len(v), *self.shape).flatten(0, 1)
        live = {0: (start.contiguous(memory_format=layout(start)), False)}
        for node in self.nodes:
            first = node.inputs[0]
            spare = live[first][1] and first in node.last and node.inputs.count(first) == 1
            result = node.step.forward(spare, *(live[slot][0] for slot in node.inputs))
            owned = not _overlaps_itself(result)
            for slot in node.inputs:
                tangent, was_owned = live[slot]
                if _memory(tangent) == _memory(result):
                    owned = owned and was_owned and slot in node.last
                    live[slot] = tangent, False
            for slot in node.last:
                del live[slot]
            live[node.output] = result, owned
        return live[self.output][0].reshape(len(v), *self.logits.shape)

    @torch.no_grad()
    def transpose(self, u: Tensor) -> Tensor:
        """W u at each input, (k, n, *shape), for class weights (k, n, classes)."""
        live = {self.output: (u.flatten(0, 1), False)}
        for node in reversed(self.nodes):
            cotangent, spare = live.pop(node.output)
            parts = node.step.transpose(spare, cotangent)
            passed_on = [_memory(part) == _memory(cotangent) for part in parts]
            for slot, part, same in zip(node.inputs, parts, passed_on, strict=True):
                owned = (not same or (spare and sum(passed_on) == 1)) and not _overlaps_itself(part)
                live[slot] = _sum(live[slot], (part, owned)) if slot in live else (part, owned)
        return live[0][0].reshape(len(u), *self.shape)


def joined(tapes: Sequence[Tape]) -> Tape | None:
    """One tape for the inputs of several. None where they differ in more than masks."""
    first, *others = tapes
    if any(tape.signature != first.signature for tape in others):
        return None
    nodes = []
    for node, *same in zip(*(tape.nodes for tape in tapes), strict=True):
        step = node.step.joined([other.step for other in same])
        if step is None:
            return None
        nodes.append(replace(node, step=step))
    return changed(first, nodes, torch.cat([tape.logits for tape in tapes]))


def split(tape: Tape) -> list[Tape]:
    """The tapes of its inputs, each by itself."""
    count = len(tape.logits)
    steps = zip(*(node.step.split(count) for node in tape.nodes), strict=True)
    return [
        changed(tape, [replace(node, step=step) for node, step in zip(tape.nodes, own, strict=True)], logits)
        for own, logits in zip(steps, tape.logits.split(1), strict=True)
    ]


def changed(tape: Tape, nodes: list[Node], logits: Tensor) -> Tape:
    """The tape with other steps, or at other inputs."""
    result = copy.copy(tape)
    result.nodes, result.logits = nodes, logits
    result.shape = torch.Size((len(logits), *tape.shape[1:]))
    result.peak = tape.peak * len(logits) // len(tape.logits)
    return result


Owned = tuple[Tensor, bool]


def _sum(a: Owned, b: Owned) -> Owned:
    if a[1]:
        return a[0].add_(b[0]), True
    return (b[0].add_(a[0]), True) if b[1] else (a[0] + b[0], True)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _overlaps_itself(tensor: Tensor) -> bool:
    return any(stride == 0 and length > 1 for stride, length in zip(tensor.stride(), tensor.shape, strict=True))


def record(model: Classifier, x: Tensor, apart: bool = False) -> Tape | None:
    """The tape of the network at the inputs x, or None where it does something unknown. Inside `model.ready()`.

    apart: None, too, where an input may have a say in the map at another one.
    """
    x = x.detach().clone()
    recorder = Recorder(x, apart)
    try:
        with recorder:
            logits = model.logits(x)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        # Perhaps it was the watching that failed; if it was the network, it will fail again.
        return None
    return recorder.tape(logits)


class Recorder(TorchDispatchMode):
    """Sees every operation of torch while it is active.

    slots: the number of the tangent of each living tensor that depends on x.
    unknown: the first operation that leaves no tape.
    """

    def __init__(self, x: Tensor, apart: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.x, self.n, self.unknown = x, len(x), ""
        # What becomes of detached values is not watched.
        self.free = {f"aten.{name}" for name in FREE if not (apart and name == DETACH)}
        self.slots = WeakIdKeyDictionary()
        self.slots[x] = 0
        self.nodes: list[Node] = []
        self.sizes = [x.nbytes]
        self.held: set[int] = set()
        self.signature: list[object] = [x.dtype]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: skipping it would import torch's compiler at the first operation, which takes more than a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.unknown:
            return func(*args, **(kwargs or {}))
        call = Call(func, args, kwargs or {}, self.slots)
        if not self._understood(call):
            self.unknown = call.name
        return call.result

    def _understood(self, call: Call) -> bool:
        if any(self._is_shared(tensor) for tensor in call.written):
            return False
        if not call.inputs:
            return True
        if call.written and not (len(call.written) == 1 and call.depends(call.written[0])):
            return False
        # Without gradients, as in the forward of a torch.autograd.Function, autograd sees no dependence or another one.
        if not torch.is_grad_enabled():
            return not call.written and call.name in self.free
        if call.name not in RULES:
            return False
        before = [tensor.shape for tensor in call.inputs]
        slots = tuple(self.slots[tensor] for tensor in call.inputs)
        try:
            outcome = RULES[call.name](call, *call.arguments, **call.named)
        except (TypeError, ValueError, IndexError):
            # Arguments that the rule has never heard of.
            return False
        if outcome is None or outcome == "free":
            return outcome == "free" and call.name in self.free and not call.written
        if not isinstance(outcome, list):
            result = call.result if isinstance(call.result, Tensor) else call.result[0]
            if not self._is_batch(result):
                return False
            if outcome == "same":
                self.slots[result] = slots[0]
                return result.shape == before[0]
            outcome, results = [outcome], [result]
        else:
            results = call.result
        for step, result in zip(outcome, results, strict=True):
            if not self._is_batch(result):
                return False
            self._write(step, slots, result)
        static = () if isinstance(outcome[0], Reshape) else _static([*call.arguments, *call.named.values()])
        self.signature.append((call.name, slots, static, [self._lengths(shape) for shape in before]))
        return True

    def _write(self, step: Step, slots: tuple[int, ...], result: Tensor) -> None:
        self.slots[result] = len(self.sizes)
        self.nodes.append(Node(step, slots, len(self.sizes)))
        self.sizes.append(result.nbytes)
        self.held.update(_memory(tensor) for tensor in step.tensors())
        self.signature.append(self._lengths(result.shape))

    def _lengths(self, shape: torch.Size) -> tuple[int, ...]:
        """A shape without the number of inputs."""
        return (shape[0] // self.n, *shape[1:])

    def _is_batch(self, result: Tensor) -> bool:
        alike = result.dtype == self.x.dtype and result.device == self.x.device
        return alike and result.ndim > 0 and result.shape[0] % self.n == 0

    def _is_shared(self, tensor: Tensor) -> bool:
        """Whether overwriting this tensor would change another one that matters."""
        memory = _memory(tensor)
        others = (other for other in self.slots.keys() if other is not tensor)  # noqa: SIM118
        return memory in self.held or any(_memory(other) == memory for other in others)

    def tape(self, logits: object) -> Tape | None:
        if self.unknown or not isinstance(logits, Tensor) or logits not in self.slots:
            return None
        if logits.ndim != 2 or len(logits) != self.n:
            return None
        output = self.slots[logits]
        signature = hash(repr((self.signature, output)))
        return Tape(self.nodes, output, self.x.shape, logits.detach(), self.sizes, signature)


def _static(values: Sequence[Any]) -> tuple[object, ...]:
    """What of the arguments decides how the operation acts: neither tensors nor fractions."""
    kept = (value for value in values if not isinstance(value, (Tensor, float)))
    return tuple(_static(value) if isinstance(value, (list, tuple)) else value for value in kept)
