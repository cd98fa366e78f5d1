"""secondsight: which input features a neural network's decision hangs on, with a proof.

>>> import secondsight as ss
>>> model = ss.load_model("efficientnet-lite0")
>>> e = ss.explain(model, ss.example_photograph())
>>> e.label, e.certified
('tiger cat', 'estimated')
"""

from secondsight.api import explain
from secondsight.comparison import Comparison, compare
from secondsight.errors import ImageError, InputError, ModelError, SecondsightError, SecondsightWarning
from secondsight.model.classifier import Classifier
from secondsight.model.images import example_photograph
from secondsight.operators.input_hessian import InputHessian, input_hessian
from secondsight.optim.certificate import Support
from secondsight.presets import PRESETS
from secondsight.results.explanation import EigenvalueBound, Explanation, PathPoint, SecondOrder
from secondsight.sweep import Sweep, sweep
from secondsight.version import __version__
from secondsight.zoo import load_model

__all__ = [
    "PRESETS",
    "Classifier",
    "Comparison",
    "EigenvalueBound",
    "Explanation",
    "ImageError",
    "InputError",
    "InputHessian",
    "ModelError",
    "PathPoint",
    "SecondOrder",
    "SecondsightError",
    "SecondsightWarning",
    "Support",
    "Sweep",
    "__version__",
    "compare",
    "example_photograph",
    "explain",
    "input_hessian",
    "load_model",
    "sweep",
]
