"""The identity matrix beside other matrices."""

from __future__ import annotations

import torch
from torch import Tensor


def identity(like: Tensor) -> Tensor:
    """Make the identity matrix with as many rows as `like`, of its type and on its device."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)
