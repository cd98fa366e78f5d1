"""What the methods on noisy copies share: how strong the noise is, and how many copies go at a time."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from secondsight.curvature.hessian import LossHessian
from secondsight.curvature.linearisation import Linearisation
from secondsight.curvature.smooth import Noise, SmoothHessian, fitting_batch_size
from secondsight.methods.settings import Settings
from secondsight.model import Classifier


def smoothed(linear: Linearisation, kind: type[LossHessian], settings: Settings) -> tuple[SmoothHessian, Settings]:
    """g and H averaged over the noisy copies, and the settings with the size of batches that was taken."""
    x = linear.x.detach()[0]
    settings = with_batch_size(linear.model, x, settings)
    assert settings.batch_size is not None
    noise = Noise(settings.n, deviation(x, settings.sigma), settings.seed, settings.batch_size)
    return SmoothHessian(linear, kind, noise), settings


def deviation(x: Tensor, sigma: float) -> float:
    """sigma times the range of this very input."""
    return sigma * float((x.max() - x.min()).detach())


def with_batch_size(model: Classifier, x: Tensor, settings: Settings) -> Settings:
    if settings.batch_size is not None:
        return settings
    return replace(settings, batch_size=fitting_batch_size(model, x, settings.n))
