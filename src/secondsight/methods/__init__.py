"""The methods by name: each a function (model, x, settings) -> Explanation, called inside `model.ready()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from secondsight.curvature.folding import Folding
from secondsight.explanation import Explanation
from secondsight.methods.cafo import cafo, smooth_cafo
from secondsight.methods.caso import caso, caso_tasks, smooth_caso
from secondsight.methods.rivals import gradient, integrated_gradients, smoothgrad
from secondsight.methods.settings import Settings
from secondsight.methods.together import Task
from secondsight.model import Classifier

METHODS: dict[str, Callable[[Classifier, Tensor, Settings], Explanation]] = {
    "gradient": gradient,
    "smoothgrad": smoothgrad,
    "integrated-gradients": integrated_gradients,
    "cafo": cafo,
    "caso": caso,
    "smooth-cafo": smooth_cafo,
    "smooth-caso": smooth_caso,
}
Tasks = Callable[[Classifier, Sequence[Tensor], Sequence[Settings], Folding], list[Task]]
TASKS: dict[str, Tasks] = {"caso": caso_tasks}
"""Those whose inputs can be explained side by side: the same for several, begun and not finished."""

PENALISED = ("cafo", "caso", "smooth-cafo", "smooth-caso")
"""Those with a penalty, a path and a certificate."""
