"""What was found out about a network, kept so that it is found out only once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

JvpWay = Literal["forward mode", "double backward", "row by row"]
"""Ways of autograd to a Jacobian-vector product, the fastest first. For some networks torch lacks the first ones."""

RECORDINGS = 3
"""Recordings in a row that may leave no tape before recording is given up. One failure may be due to its input."""


@dataclass
class NetworkFacts:
    """What is known about one network. It belongs to one Classifier and is filled in as inputs are explained.

    Attributes:
        outputs_checked: whether an output had as many logits as there are labels, and was checked for probabilities and
            several labels at a time. The answers are the same for all inputs.
        deterministic: whether two passes over one input gave the same logits; None: not tried yet.
        mixes_inputs: whether the logits of an input change with the other inputs of its batch; None: not tried yet.
        piecewise_linear: the user's word that the logits are piecewise linear in the input, or that they are not; None:
            the user has not said. What is found out is not kept here, because it is found out at each input.
        recordable: whether passes may be recorded as tapes (operators/tape). False once a tape was wrong.
        recordings_left: how often recording may fail until it is no longer tried. A success sets it back.
        unknown_operation: the first operation of the last recording that has no rule, by torch's name. Empty: none.
        trusted_tapes: the signatures of the tapes that agreed with autograd's derivatives.
        trusted_curvature: the signatures of the tapes whose second derivatives agreed.
        jvp_way: the first way to a Jacobian-vector product that has not failed.
        jvp_trusted: whether that way was compared with a backward pass, and agreed.
    """

    outputs_checked: bool = False
    deterministic: bool | None = None
    mixes_inputs: bool | None = None
    piecewise_linear: bool | None = None
    recordable: bool = True
    recordings_left: int = RECORDINGS
    unknown_operation: str = ""
    trusted_tapes: set[int] = field(default_factory=set)
    trusted_curvature: set[int] = field(default_factory=set)
    jvp_way: JvpWay = "forward mode"
    jvp_trusted: bool = False

    @property
    def may_be_recorded(self) -> bool:
        """Whether the next pass is worth recording."""
        return self.recordable and self.recordings_left > 0

    @property
    def leaves_tapes(self) -> bool:
        """Whether the last recording left a tape, and no tape was wrong. True before the first recording."""
        return self.recordable and self.recordings_left == RECORDINGS
