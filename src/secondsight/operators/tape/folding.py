"""Scales, such as those of batch norm, made one with the step before or after them.

The activation after a scale takes it into the slopes that it holds in any case. A convolution before a scale takes it
into a copy of its weights, which the tapes of many inputs share.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from torch import Tensor

from secondsight.operators.tape.linear_steps import Step
from secondsight.operators.tape.tape import Node, Tape, changed


def merge_scales(nodes: list[Node], output: int) -> list[Node]:
    """Make one step of each scale and the step after it, where that takes no memory and the scale has no other use."""
    uses = Counter([output, *(slot for node in nodes for slot in node.inputs)])
    scales = {node.output: node for node in nodes if node.step.scale is not None and uses[node.output] == 1}
    merged, gone = list[Node](), set[int]()
    for node in nodes:
        before = scales.get(node.inputs[0])
        step = None if before is None or before.step.scale is None else node.step.after_scale(before.step.scale)
        if before is not None and step is not None:
            gone.add(before.output)
            node = replace(node, step=step, inputs=before.inputs)
        merged.append(node)
    return [node for node in merged if node.output not in gone]


class FoldedWeights:
    """Cache of steps with folded weights. The next tape of the same network uses the same ones."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._known: dict[int, tuple[Step, Step, Step]] = {}

    def fold(self, tape: Tape) -> Tape:
        """Fold every scale into the convolution before it, where that convolution has no other use."""
        uses = Counter(slot for node in tape.nodes for slot in node.inputs)
        nodes: list[Node] = []
        made: dict[int, int] = {}
        for node in tape.nodes:
            i = made.get(node.inputs[0])
            if i is not None and node.step.scale is not None and uses[node.inputs[0]] == 1:
                step = self._fold(i, nodes[i].step, node.step)
                if step is not None:
                    nodes[i] = replace(nodes[i], step=step, output=node.output)
                    continue
            made[node.output] = len(nodes)
            nodes.append(node)
        result = changed(tape, nodes, tape.logits)
        # A folded tape needs its own comparison with autograd's derivatives.
        result.signature = hash((tape.signature, len(nodes)))
        return result

    def _fold(self, i: int, step: Step, scale: Step) -> Step | None:
        known = self._known.get(i)
        if known is not None and known[0].joined([step]) and known[1].joined([scale]):
            return known[2]
        folded = _folded(step, scale.scale)
        if folded is not None:
            self._known[i] = step, scale, folded
        return folded


def _folded(step: Step, factor: Tensor | float | None) -> Step | None:
    return step.followed_by_scale(factor) if isinstance(factor, Tensor) else None
