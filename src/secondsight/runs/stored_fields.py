"""Fields that an Explanation from a run reads only when a user asks for them: input, groups, gradient and path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from secondsight.config import CAFO, Method
from secondsight.errors import NotStoredError, SecondsightError
from secondsight.groups import group_labels
from secondsight.model.images import PictureReader, Pixels
from secondsight.results.explanation import PathPoint
from secondsight.runs.items import Items, content_hash, item_at
from secondsight.runs.sparse_arrays import dense


@dataclass(frozen=True)
class StoredInput:
    """Reads the input of an item again, and checks that it is still the same.

    Attributes:
        position: the place of the item in its list.
        where: the column `path`; None: the item came from no file.
        content_hash: the column of that name.
        reader: reads photographs as the network of the run took them; None: it took no photographs.
        items: the list of items, if it is at hand.
    """

    position: int
    where: str | None
    content_hash: str
    reader: PictureReader | None
    items: Items | None = None

    def read(self, dtype: np.dtype[Any]) -> Tensor:
        """Read the input.

        Raises:
            NotStoredError: if the input came from no file, cannot be read again, or has changed.
        """
        if self.items is None and self.where is None:
            why = "the input is not in the run, and came from no file: give the items to open_run(RUN, items=...)"
            raise NotStoredError(why)
        try:
            item = self.items.item(self.position) if self.items is not None else item_at(str(self.where))
            found = content_hash(item)
            if found != self.content_hash:
                raise NotStoredError(f"{self.where or 'the item'} has changed since it was explained")
            return self._pixels(item).to(torch.from_numpy(np.empty(0, dtype)).dtype)
        except NotStoredError:
            raise
        except (SecondsightError, OSError) as error:
            raise NotStoredError(f"the input cannot be read again: {error}") from None

    def _pixels(self, item: Any) -> Tensor:
        if isinstance(item, tuple):
            return torch.cat([part.flatten() for part in item])
        if isinstance(item, Pixels):
            return item.values
        if isinstance(item, Tensor) or self.reader is None:
            return torch.as_tensor(item)
        return self.reader.read(item).values


@dataclass(frozen=True)
class StoredFields:
    """The fields of one result that are read when they are asked for.

    Attributes:
        source: reads the input.
        method: the config of the run.
        shape: of the map.
        dtype: of the map.
        column: reads a column of the row by its name. It returns None for a column that the run does not have.
    """

    source: StoredInput
    method: Method
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    column: Callable[[str], Any]

    def read(self, name: str) -> Any:
        """Read a field of the Explanation.

        Raises:
            NotStoredError: if the run does not have the field, or the input that it is made from cannot be read again.
        """
        if name == "input":
            return self.source.read(self.dtype)
        if name == "groups":
            return self._groups()
        stored = self.column("lambda1_path" if name == "path" else name)
        if stored is None:
            raise NotStoredError(f"{name} is not in the run: only a run with --path (store_path=True) keeps it")
        return dense(stored, self.shape, self.dtype) if name == "gradient" else tuple(map(self._point, stored))

    def _groups(self) -> Tensor | None:
        """Number the groups. The input is read only for superpixels, because other groups depend on its shape alone."""
        groups = self.method.groups if isinstance(self.method, CAFO) else None
        by_input = isinstance(groups, str) and groups.startswith("superpixels")
        return group_labels(groups, self.source.read(self.dtype) if by_input else torch.empty(self.shape))

    def _point(self, stored: Mapping[str, Any]) -> PathPoint:
        numbers = {name: stored[name] for name in ("lambda1", "sparsity", "objective", "relative_gap")}
        norms = stored["window_norms"]
        return PathPoint(
            **numbers,
            delta=dense(stored, self.shape, self.dtype),
            window_norms=None if norms is None else dense(norms, self.shape[1:], self.dtype),
        )
