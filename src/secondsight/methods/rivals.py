"""The methods that maps are usually compared with, by Captum: gradient, SmoothGrad, Integrated Gradients.

They explain a score, by default the logit of the target, so a positive entry speaks *for* the class there; with the
loss it speaks against it, as in CAFO and CASO. None has a penalty or a certificate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from torch import Tensor

from secondsight.curvature.linearisation import Linearisation
from secondsight.explanation import Explanation, zero_share
from secondsight.methods.record import TIMES_INPUT, facts
from secondsight.methods.settings import Settings
from secondsight.methods.smooth import deviation, with_batch_size
from secondsight.model import Classifier

Score = Callable[[Tensor], Tensor]


def gradient(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    def attribute(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
        return _times(Saliency(score).attribute(x.requires_grad_(), target=target, abs=False), x, settings)

    return _explanation("gradient", model, x, settings, attribute)


def smoothgrad(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    def attribute(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
        with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
            torch.manual_seed(settings.seed)
            average = NoiseTunnel(Saliency(score)).attribute(
                x,
                nt_type="smoothgrad",
                nt_samples=settings.n,
                nt_samples_batch_size=settings.batch_size,
                stdevs=deviation(x, settings.sigma),
                target=target,
                abs=False,
            )
        return _times(average, x, settings)

    return _explanation("smoothgrad", model, x, with_batch_size(model, x, settings), attribute)


def integrated_gradients(model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    """From the black picture (or the zero vector) to the input."""

    def attribute(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
        method = IntegratedGradients(score, multiply_by_inputs=settings.times_input)
        result: Tensor = method.attribute(x, target=target, n_steps=settings.n, internal_batch_size=settings.batch_size)
        return result

    return _explanation("integrated-gradients", model, x, with_batch_size(model, x, settings), attribute)


def clipped(values: Tensor, sparsity: float) -> Tensor:
    """The pixels of largest value, as many as leave the given share of zeros (figure 3c of the paper)."""
    weight = values.abs().sum(0, keepdim=True) if values.ndim == 3 else values.abs()
    kept = weight.flatten().topk(round((1 - sparsity) * weight.numel())).indices
    mask = torch.zeros_like(weight, dtype=torch.bool).flatten()
    mask[kept] = True
    return values * mask.reshape(weight.shape)


def _explanation(
    method: str,
    model: Classifier,
    x: Tensor,
    settings: Settings,
    attribute: Callable[[Score, Tensor, int | None, Settings], Tensor],
) -> Explanation:
    linear = Linearisation(model, x[None], settings.target)
    found, notes = facts(model, linear, settings), [*model.notes, *linear.notes]
    target, constant = linear.target, linear.constant
    # Its graph would lie idle beside Captum's.
    del linear
    if constant:
        delta = torch.zeros_like(x)
    elif settings.score == "logit":
        delta = attribute(model.logits, x[None].clone(), target, settings)[0].detach()
    else:
        delta = attribute(_Loss(model, target), x[None].clone(), None, settings)[0].detach()
    if not bool(delta.any()):
        notes.append("the score does not change with the input here: the map is all zero")
    if settings.times_input and method != "integrated-gradients":
        notes.append(TIMES_INPUT)
    return Explanation(
        **found,
        delta=delta.cpu(),
        method=method,
        sparsity=zero_share(delta.cpu()),
        notes=tuple(notes),
    )


def _times(values: Tensor, x: Tensor, settings: Settings) -> Tensor:
    return values * x if settings.times_input else values


class _Loss:
    """The cross-entropy loss of a fixed class, for each input of a batch."""

    def __init__(self, model: Classifier, target: int) -> None:
        self.model, self.target = model, target

    def __call__(self, x: Tensor) -> Tensor:
        logits = self.model.logits(x)
        return torch.nn.functional.cross_entropy(
            logits, logits.new_full((len(x),), self.target, dtype=torch.long), reduction="none"
        )
