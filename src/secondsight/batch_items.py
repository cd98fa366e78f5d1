"""Batches taken apart into inputs, each with its label."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from secondsight.errors import InputError
from secondsight.model.classifier import Classifier, Item, Target
from secondsight.model.classifier_checks import require_dense
from secondsight.option_types import plain

Batch: TypeAlias = Tensor | Sequence[Item] | Sequence[Tensor] | tuple[list[Item], Sequence[Target]]
"""One batch, as iterables of batches give it: inputs, or inputs and labels."""


def labelled_items(model: Classifier, batch: Batch, use_labels: bool) -> Iterator[tuple[Any, Target]]:
    """List the inputs of a batch, each with its label, or with None if labels are not wanted.

    A batch is a tensor with a batch dimension, or one such tensor for each part of an input. Labels may come after
    these tensors, as DataLoaders give them. A batch may also be a list of inputs, or a pair: a list of inputs, and
    their labels.
    """
    inputs, others = _apart(model, batch)
    if not use_labels:
        return zip(inputs, itertools.repeat(None))
    if not others:
        what = f"a {type(batch).__name__} without labels"
        raise InputError("batches", "inputs with labels, because use_labels is set", what)
    labels = plain(others[0])
    if not isinstance(labels, tuple) or len(labels) != len(inputs):
        what = f"with {len(labels)} labels" if isinstance(labels, tuple) else f"with a {type(others[0]).__name__}"
        raise InputError("batches", f"with one label for each of the {len(inputs)} inputs", what)
    return zip(inputs, labels, strict=True)


def _apart(model: Classifier, batch: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Split a batch into its inputs and what comes after them, such as labels."""
    if isinstance(batch, Tensor):
        return _rows(batch), ()
    if not isinstance(batch, (list, tuple)):
        may_be = "tensors, lists of inputs, or pairs of inputs and labels"
        raise InputError("batches", may_be, f"a {type(batch).__name__}")
    if batch and isinstance(batch[0], Tensor) and model.is_batch(batch[0]):
        parts = [_rows(part) for part in batch[: model.parts]]
        if len({len(part) for part in parts}) > 1:
            raise InputError("batches", "parts with as many inputs each", [len(part) for part in parts])
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True)), batch[model.parts :]
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], list):
        return batch[0], batch[1:]
    return batch, ()


def _rows(batch: Any) -> list[Tensor]:
    require_dense("batches", batch)
    if not batch.ndim:
        raise InputError("batches", "with a batch dimension", "a number")
    return list(batch)
