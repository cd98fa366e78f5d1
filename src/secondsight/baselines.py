"""The methods that maps are usually compared with, by Captum: gradient, SmoothGrad, Integrated Gradients.

They explain a score, by default the logit of the target, so a positive entry speaks *for* the class there; with the
loss it speaks against it, as in CAFO and CASO. None has a penalty or a certificate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from torch import Tensor

from secondsight.config import Settings
from secondsight.model.classifier import Classifier
from secondsight.operators.linearisation import linearise
from secondsight.operators.noise import deviation_of
from secondsight.results.builder import TIMES_INPUT, facts_of
from secondsight.results.explanation import Explanation, zero_share

Score = Callable[[Tensor], Tensor]
"""What is explained: a function of a batch."""

Attribute = Callable[[Score, Tensor, int | None, Settings], Tensor]
"""A method of Captum's: from the score, a batch of one, the target and the settings to the map."""


def baseline(method: str, model: Classifier, x: Tensor, settings: Settings) -> Explanation:
    """Explain x (without batch dimension) by one of `BASELINES`. For use inside `model.ready()`."""
    linear = linearise(model, x[None], settings.target)
    found, notes = facts_of(linear, settings), linear.all_notes()
    target, constant = linear.target, linear.jacobian.constant
    # Its graph would lie idle beside Captum's.
    del linear
    attribute = BASELINES[method]
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


def clipped(values: Tensor, sparsity: float) -> Tensor:
    """Keep the pixels of largest value, leaving the given share of zeros (figure 3c of the paper)."""
    weight = values.abs().sum(0, keepdim=True) if values.ndim == 3 else values.abs()
    kept = weight.flatten().topk(round((1 - sparsity) * weight.numel())).indices
    mask = torch.zeros_like(weight, dtype=torch.bool).flatten()
    mask[kept] = True
    return values * mask.reshape(weight.shape)


def _gradient(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
    return _times(Saliency(score).attribute(x.requires_grad_(), target=target, abs=False), x, settings)


def _smoothgrad(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
    with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
        torch.manual_seed(settings.seed)
        average = NoiseTunnel(Saliency(score)).attribute(
            x,
            nt_type="smoothgrad",
            nt_samples=settings.n,
            nt_samples_batch_size=settings.batch_size,
            stdevs=deviation_of(x, settings.sigma),
            target=target,
            abs=False,
        )
    return _times(average, x, settings)


def _integrated_gradients(score: Score, x: Tensor, target: int | None, settings: Settings) -> Tensor:
    """Integrate from the black picture (or the zero vector) to the input."""
    method = IntegratedGradients(score, multiply_by_inputs=settings.times_input)
    result: Tensor = method.attribute(x, target=target, n_steps=settings.n, internal_batch_size=settings.batch_size)
    return result


BASELINES: dict[str, Attribute] = {
    "gradient": _gradient,
    "smoothgrad": _smoothgrad,
    "integrated-gradients": _integrated_gradients,
}
"""The methods by name."""


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
