"""A network at given inputs, written down as the steps that it takes there.

Applying the steps in order multiplies with W' (the tangent pass). Applying their transposes in reverse multiplies with
W (the vector-Jacobian product). Neither runs the network again. Of a piecewise-linear network only masks are kept.
Curved steps keep the tangents that reach them, and add a curvature term to the backward pass, which is called a bend.
The two passes together then give an exact product with the Hessian.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from secondsight.devices import policy
from secondsight.operators.tape.linear_steps import Bend, Step, layout, own

PASS_MEMORY = 2**28
"""Bytes that the tangents of several directions may take in one pass: a quarter of a gigabyte beside the network."""

DIRECTIONS = 4
"""Directions in one pass. More are slower on the CPU, because their tangents outgrow its caches."""


@dataclass(eq=False)
class Node:
    """A step on numbered tangents.

    Attributes:
        step: the map of tangents.
        inputs: the numbers of the tangents that it takes.
        output: the number of the tangent that it gives.
        last: the inputs that no later step needs.
    """

    step: Step
    inputs: tuple[int, ...]
    output: int
    last: frozenset[int] = frozenset()

    @property
    def keeps(self) -> tuple[int, ...]:
        """The numbers of the tangents that the bend of its step takes. Empty: the step is not curved."""
        if not self.step.curved:
            return ()
        return (self.output,) if self.step.bends_by_result else self.inputs


class Tape:
    """W at n inputs, as steps.

    Args:
        nodes: the steps, in the order in which the network took them.
        output: the number of the tangent of the logits.
        shape: the shape of the inputs, with batch dimension.
        logits: what the network returned.
        sizes: the bytes of each tangent.
        signature: equal for tapes whose steps differ in nothing but numbers, so that one comparison with autograd
            speaks for all of them.
    """

    def __init__(
        self, nodes: list[Node], output: int, shape: torch.Size, logits: Tensor, sizes: list[int], signature: int
    ) -> None:
        """Keep the steps that the logits depend on."""
        self.shape, self.output, self.logits, self.signature = shape, output, logits, signature
        self.nodes: list[Node] = []
        needed = {output}
        for node in reversed(nodes):
            if node.output in needed:
                node.last = frozenset(node.inputs) - needed
                needed.update(node.inputs)
                self.nodes.insert(0, node)
        self.peak = self._peak(sizes)
        self.kept = sum(sizes[slot] for slot in {slot for node in self.nodes for slot in node.keeps})

    @property
    def piecewise_linear(self) -> bool:
        """Whether no step is curved."""
        return not any(node.step.curved for node in self.nodes)

    @property
    def nbytes(self) -> int:
        """Bytes of what was written down for these inputs, such as masks. Weights belong to the network."""
        return sum(node.step.nbytes for node in self.nodes)

    @property
    def directions(self) -> int:
        """The number of directions that one pass takes efficiently."""
        return max(1, min(DIRECTIONS, PASS_MEMORY // self.peak))

    @property
    def curved_directions(self) -> int:
        """The same where the tangents of curved steps are kept."""
        return max(1, min(DIRECTIONS, policy(self.logits.device).curved_pass // (self.peak + self.kept)))

    def _peak(self, sizes: list[int]) -> int:
        """Find the most bytes of tangents that one direction needs at a time."""
        live, peak = sizes[0], sizes[0]
        for node in self.nodes:
            live += sizes[node.output]
            peak = max(peak, live)
            live -= sum(sizes[slot] for slot in node.last)
        return peak

    @torch.no_grad()
    def forward(self, v: Tensor, kept: dict[int, Tensor] | None = None) -> Tensor:
        """Compute W'v: the change (k, n, classes) of the logits along directions (k, n or 1, *shape).

        Args:
            v: the directions.
            kept: receives the tangents that the bend of each curved step takes, by their numbers. None: not wanted.
        """
        keeps = set() if kept is None else {slot for node in self.nodes for slot in node.keeps}
        start = v.expand(len(v), *self.shape).flatten(0, 1)
        live = {0: (start.contiguous(memory_format=layout(start)), False)}
        if kept is not None and 0 in keeps:
            kept[0] = live[0][0]
        for node in self.nodes:
            first = node.inputs[0]
            may_overwrite = live[first][1] and first in node.last and node.inputs.count(first) == 1
            result = node.step.forward(may_overwrite, *(live[slot][0] for slot in node.inputs))
            owned = not _overlaps_itself(result)
            for slot in node.inputs:
                tangent, was_owned = live[slot]
                if memory_of(tangent) == memory_of(result):
                    owned = owned and was_owned and slot in node.last
                    live[slot] = tangent, False
            for slot in node.last:
                del live[slot]
            live[node.output] = result, owned and node.output not in keeps
            if kept is not None and node.output in keeps:
                kept[node.output] = own(result)
        return live[self.output][0].reshape(len(v), *self.logits.shape)

    @torch.no_grad()
    def transpose(
        self, u: Tensor, bends: Mapping[int, Bend] | None = None, kept: Mapping[int, Tensor] | None = None
    ) -> Tensor:
        """Compute W u at each input, (k, n, *shape), for class weights (k, n, classes).

        Args:
            u: the class weights.
            bends: the result of `bends` for the adjoint of the logits. It adds the change of W along some directions.
            kept: the tangents that `forward` kept for these directions.
        """
        live = {self.output: (u.flatten(0, 1), False)}
        for node in reversed(self.nodes):
            cotangent, may_overwrite = live.pop(node.output)
            parts = node.step.transpose(may_overwrite, cotangent)
            passed_on = [memory_of(part) == memory_of(cotangent) for part in parts]
            for slot, part, same in zip(node.inputs, parts, passed_on, strict=True):
                owned = (not same or (may_overwrite and sum(passed_on) == 1)) and not _overlaps_itself(part)
                live[slot] = _sum(live[slot], (part, owned)) if slot in live else (part, owned)
            if bends is not None and kept is not None and node.output in bends:
                tangents = [kept[slot] for slot in node.keeps]
                for slot, part in zip(node.inputs, bends[node.output](*tangents), strict=True):
                    live[slot] = _sum(live[slot], (part, True))
        return live[0][0].reshape(len(u), *self.shape)

    def leave_out_bends(self) -> None:
        """Free what only `bends` needs."""
        for node in self.nodes:
            node.step = node.step.bent()

    @torch.no_grad()
    def bends(self, u: Tensor, last: bool = False) -> dict[int, Bend]:
        """Send the adjoint u (n, classes) of the logits back, and collect the bend of each curved step.

        Args:
            u: the adjoint.
            last: whether no other adjoint follows, and the tape is never joined, so that memory can be freed.
        """
        found: dict[int, Bend] = {}
        live = {self.output: (u, False)}
        for node in reversed(self.nodes):
            adjoint, may_overwrite = live.pop(node.output)
            if node.step.curved:
                found[node.output], may_overwrite = node.step.bend(adjoint), False
                node.step = node.step.bent() if last else node.step
            for slot, part in zip(node.inputs, node.step.transpose(may_overwrite, adjoint), strict=True):
                # Parts may share memory with the adjoint, which a bend may hold.
                live[slot] = _sum(live[slot], (part, False)) if slot in live else (part, False)
        return found


def joined(tapes: Sequence[Tape]) -> Tape | None:
    """Join tapes into one for all of their inputs. None: they differ in more than what belongs to the inputs."""
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
    """Cut a tape into one for each of its inputs."""
    count = len(tape.logits)
    steps = zip(*(node.step.split(count) for node in tape.nodes), strict=True)
    return [
        changed(tape, [replace(node, step=step) for node, step in zip(tape.nodes, own, strict=True)], logits)
        for own, logits in zip(steps, tape.logits.split(1), strict=True)
    ]


def changed(tape: Tape, nodes: list[Node], logits: Tensor) -> Tape:
    """Copy a tape with other steps, or at other inputs."""
    result = copy.copy(tape)
    result.nodes, result.logits = nodes, logits
    result.shape = torch.Size((len(logits), *tape.shape[1:]))
    result.peak = tape.peak * len(logits) // len(tape.logits)
    result.kept = tape.kept * len(logits) // len(tape.logits)
    return result


Owned = tuple[Tensor, bool]
"""A tangent, and whether it may be overwritten because no other tangent shares its memory."""


def _sum(a: Owned, b: Owned) -> Owned:
    if a[1]:
        return a[0].add_(b[0]), True
    return (b[0].add_(a[0]), True) if b[1] else (a[0] + b[0], True)


def memory_of(tensor: Tensor) -> int:
    """Identify the memory behind a tensor, which views share."""
    return tensor.untyped_storage().data_ptr()


def _overlaps_itself(tensor: Tensor) -> bool:
    strides = tensor.stride()
    return 0 in strides and any(s == 0 and length > 1 for s, length in zip(strides, tensor.shape, strict=True))
