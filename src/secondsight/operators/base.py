"""The contract between the network and the solver: a symmetric matrix that is only known through its products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor


class SymmetricOperator(ABC):
    """A symmetric d x d matrix H, multiplied by `H @ V`.

    Attributes:
        psd: whether H is known to be positive semidefinite. If so, Nystrom factors of H are lower bounds of it.
        progress: called during a long `times_rows` with the number of its products done so far, which may be a
            fraction. None: progress is not reported.

    Example: a diagonal matrix. A subclass only has to define its size and how rows are multiplied.

        >>> import torch
        >>> class Diagonal(SymmetricOperator):
        ...     size, psd = 2, True
        ...     def times_rows(self, rows):
        ...         return rows * torch.tensor([2.0, 3.0])
        >>> Diagonal() @ torch.tensor([1.0, 1.0])
        tensor([2., 3.])
    """

    psd: bool
    progress: Callable[[float], None] | None = None

    @property
    @abstractmethod
    def size(self) -> int:
        """The number d of rows and of columns."""

    @abstractmethod
    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply H with each row of a (k, d) tensor, and return the products as rows.

        Implementations work on rows, because a vector then lies in one piece of memory.
        """

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return self.size, self.size

    def __matmul__(self, v: Tensor) -> Tensor:
        """Compute HV for V of shape (d,) or (d, k)."""
        return self.times_rows(v[None])[0] if v.ndim == 1 else self.times_rows(v.T).T
