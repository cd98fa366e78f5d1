"""The methods by name: each a function (model, x, settings) -> Explanation, called inside `model.ready()`."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from secondsight.explanation import Explanation
from secondsight.methods.cafo import cafo
from secondsight.methods.caso import caso
from secondsight.methods.settings import Settings
from secondsight.model import Classifier

METHODS: dict[str, Callable[[Classifier, Tensor, Settings], Explanation]] = {"cafo": cafo, "caso": caso}
