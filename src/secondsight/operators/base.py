"""The contract between the network and the solver: a symmetric matrix that is only known through its products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor


class SymmetricOperator(ABC):
    """A symmetric d x d matrix H, multiplied by `H @ V`.

    Attributes:
        psd: whether H >= 0 is known. If so, Nystrom factors of H are lower bounds of it.
        progress: called during a long product with the number of products done so far in it, a fraction. None: not
            wanted.

    Example:
        >>> h = DenseOperator(torch.tensor([[2.0, 1.0], [1.0, 0.0]]), psd=False)
        >>> h @ torch.tensor([1.0, 1.0])
        tensor([3., 1.])
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


class DenseOperator(SymmetricOperator):
    """A matrix that is there as a whole: for tests and small problems."""

    def __init__(self, matrix: Tensor, psd: bool) -> None:
        """Take the (d, d) matrix as it is, and the caller's word for `psd`."""
        self.matrix, self.psd = matrix, psd

    @property
    def size(self) -> int:
        """The number d of rows and of columns."""
        return len(self.matrix)

    def times_rows(self, rows: Tensor) -> Tensor:
        """Multiply the matrix with each row."""
        return torch.as_tensor(rows @ self.matrix)
