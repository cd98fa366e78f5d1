"""What is done for speed on a device. Other modules ask for these choices, not for the device.

The CPU's choices were measured. No GPU was: there torch's own kernels and layouts are used.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class DevicePolicy(NamedTuple):
    """The choices for one device.

    Attributes:
        channels_last: whether channels of pictures come last in memory. On the CPU transposed convolutions are then
            three times faster.
        pointwise_products: whether convolutions by kernels of one pixel are products of matrices, faster on the CPU.
        computes_here: whether the thread that asks for a pass also computes it, so that its own time tells how busy the
            machine is, and several threads may solve several inputs.
        curved_pass: bytes of tangents, those of all directions together, in a pass that keeps the tangents of curved
            steps. On the CPU, a second direction in a pass saves a tenth of the time of a large network at most.
    """

    channels_last: bool
    pointwise_products: bool
    computes_here: bool
    curved_pass: int


CPU, OTHER = DevicePolicy(True, True, True, 3 * 2**25), DevicePolicy(False, False, False, 2**28)


def policy(device: torch.device) -> DevicePolicy:
    """Return the choices for a device."""
    return CPU if device.type == "cpu" else OTHER
