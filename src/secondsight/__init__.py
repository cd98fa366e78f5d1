"""secondsight: which input features a neural network's decision hangs on, with a proof.

>>> import secondsight as ss
>>> model = ss.load_model("efficientnet-lite0")
>>> e = ss.explain(model, ss.example_photograph())
>>> e.label, e.certificate.holds, e.certificate.basis
('tiger cat', True, 'estimated')
"""

import importlib
import typing

from secondsight.version import __version__

if typing.TYPE_CHECKING:
    from secondsight.api import explain, explain_batches
    from secondsight.comparison import Comparison, compare
    from secondsight.config import (
        CAFO,
        CASO,
        Gradient,
        IntegratedGradients,
        Method,
        Picture,
        SmoothCAFO,
        SmoothCASO,
        SmoothGrad,
    )
    from secondsight.errors import (
        ImageError,
        InputError,
        ModelError,
        NotStoredError,
        SecondsightError,
        SecondsightWarning,
    )
    from secondsight.model.classifier import Classifier
    from secondsight.model.images import example_photograph
    from secondsight.operators.input_hessian import InputHessian, input_hessian
    from secondsight.optim.proof import Support
    from secondsight.path_sweep import Sweep, sweep
    from secondsight.presets import PRESETS
    from secondsight.results.certificate import Certificate
    from secondsight.results.explanation import (
        Explanation,
        PathPoint,
        PictureExplanation,
        SecondOrder,
        SecondOrderExplanation,
        Smoothing,
        SparseExplanation,
    )
    from secondsight.runs.dataset_run import run
    from secondsight.runs.standing import Standing
    from secondsight.runs.stored_run import StoredRun, open_run
    from secondsight.zoo.catalogue import load_model

__all__ = [
    "CAFO",
    "CASO",
    "PRESETS",
    "Certificate",
    "Classifier",
    "Comparison",
    "Explanation",
    "Gradient",
    "ImageError",
    "InputError",
    "InputHessian",
    "IntegratedGradients",
    "Method",
    "ModelError",
    "NotStoredError",
    "PathPoint",
    "Picture",
    "PictureExplanation",
    "SecondOrder",
    "SecondOrderExplanation",
    "SecondsightError",
    "SecondsightWarning",
    "SmoothCAFO",
    "SmoothCASO",
    "SmoothGrad",
    "Smoothing",
    "SparseExplanation",
    "Standing",
    "StoredRun",
    "Support",
    "Sweep",
    "__version__",
    "compare",
    "example_photograph",
    "explain",
    "explain_batches",
    "input_hessian",
    "load_model",
    "open_run",
    "run",
    "sweep",
]

_HOMES = {
    "api": ("explain", "explain_batches"),
    "comparison": ("Comparison", "compare"),
    "config": (
        "CAFO",
        "CASO",
        "Gradient",
        "IntegratedGradients",
        "Method",
        "Picture",
        "SmoothCAFO",
        "SmoothCASO",
        "SmoothGrad",
    ),
    "errors": (
        "ImageError",
        "InputError",
        "ModelError",
        "NotStoredError",
        "SecondsightError",
        "SecondsightWarning",
    ),
    "model.classifier": ("Classifier",),
    "model.images": ("example_photograph",),
    "operators.input_hessian": ("InputHessian", "input_hessian"),
    "optim.proof": ("Support",),
    "path_sweep": ("Sweep", "sweep"),
    "presets": ("PRESETS",),
    "results.certificate": ("Certificate",),
    "results.explanation": (
        "Explanation",
        "PathPoint",
        "PictureExplanation",
        "SecondOrder",
        "SecondOrderExplanation",
        "Smoothing",
        "SparseExplanation",
    ),
    "runs.dataset_run": ("run",),
    "runs.standing": ("Standing",),
    "runs.stored_run": ("StoredRun", "open_run"),
    "zoo.catalogue": ("load_model",),
}
"""The public names of each module. A name is imported from its module when it is first used."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562), because torch takes seconds to import."""
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"secondsight.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'secondsight' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
