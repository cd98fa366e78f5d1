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
    """

    channels_last: bool
    pointwise_products: bool
    computes_here: bool


CPU, OTHER = DevicePolicy(True, True, True), DevicePolicy(False, False, False)


def policy(device: torch.device) -> DevicePolicy:
    """Return the choices for a device."""
    return CPU if device.type == "cpu" else OTHER
