"""Products of several inputs in one pass: the tapes of a network at single inputs as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from secondsight.curvature.hessian import GaussNewton, LossHessian
from secondsight.curvature.linearisation import Linearisation, sizes_of, vjp_of_each
from secondsight.curvature.tape import Tape, joined


def tape_of(hessian: LossHessian) -> Tape | None:
    """The tape that its products come from. None: they run the network, or a graph of it."""
    return hessian.linear.tape if type(hessian) is GaussNewton else None


class Joint:
    """Takes the products of whoever asks at a time. The last joined tape is kept, for the same will ask again."""

    def __init__(self) -> None:
        self._members: list[Tape] = []
        self._tape: Tape | None = None

    def products(self, hessians: Sequence[LossHessian], rows: Sequence[Tensor]) -> Sequence[Tensor]:
        """Each exact H times its row."""
        tape = self._joined(hessians)
        if tape is None:
            return [hessian.product(row[None])[0] for hessian, row in zip(hessians, rows, strict=True)]
        return list(_through(tape, [hessian.linear for hessian in hessians], torch.stack(list(rows))))

    def _joined(self, hessians: Sequence[LossHessian]) -> Tape | None:
        members = [tape for tape in map(tape_of, hessians) if tape is not None]
        if len(members) < len(hessians):
            return None
        if members != self._members:
            self._members, self._tape = members, joined(members)
        return self._tape


def _through(tape: Tape, linears: Sequence[Linearisation], rows: Tensor) -> Tensor:
    """W (diag p - pp') W'v of each input, v its row."""
    first, sizes = linears[0], sizes_of(rows)
    units = (rows / sizes[:, None]).to(first.x.dtype).to(first.x.device)
    changes = tape.forward(units.reshape(1, *tape.shape))[0].cpu().double() * sizes.cpu()[:, None]
    pairs = zip(linears, changes, strict=True)
    return vjp_of_each(tape, torch.cat([linear.covariance(change[None]) for linear, change in pairs]), first.device)
