"""Batch norm folded into the convolution before it, in a copy of the weights that the tapes of many inputs share."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from torch import Tensor

from secondsight.curvature.steps import Convolution, Pointwise, Scale, Step, layout
from secondsight.curvature.tape import Node, Tape, changed


class Folding:
    """Keeps the folded steps: the next tape of the same network has the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Step, Scale, Step]] = {}

    def folded(self, tape: Tape) -> Tape:
        """The tape with every scale that can be in the convolution before it."""
        uses = Counter(slot for node in tape.nodes for slot in node.inputs)
        nodes: list[Node] = []
        made: dict[int, int] = {}
        for node in tape.nodes:
            i = made.get(node.inputs[0])
            if i is not None and isinstance(node.step, Scale) and uses[node.inputs[0]] == 1:
                step = self._fold(i, nodes[i].step, node.step)
                if step is not None:
                    nodes[i] = replace(nodes[i], step=step, output=node.output)
                    continue
            made[node.output] = len(nodes)
            nodes.append(node)
        result = changed(tape, nodes, tape.logits)
        # Compared with torch's derivatives by itself.
        result.signature = hash((tape.signature, len(nodes)))
        return result

    def _fold(self, i: int, step: Step, scale: Scale) -> Step | None:
        known = self._known.get(i)
        if known is not None and known[0].joined([step]) and known[1].joined([scale]):
            return known[2]
        folded = _folded(step, scale.factor)
        if folded is not None:
            self._known[i] = step, scale, folded
        return folded


def _folded(step: Step, factor: Tensor | float) -> Step | None:
    if not isinstance(step, (Convolution, Pointwise)) or not isinstance(factor, Tensor):
        return None
    channels = len(step.weight)
    is_of_channels = factor.shape == (channels, *[1] * (step.weight.ndim - 2))
    if not is_of_channels or (isinstance(step, Convolution) and step.transposed):
        return None
    weight = step.weight.detach() * factor[:, None]
    return replace(step, weight=weight.contiguous(memory_format=layout(weight)))
