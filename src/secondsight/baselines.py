"""The methods that maps are usually compared with, by Captum: gradient, SmoothGrad, Integrated Gradients.

They explain a score. By default it is the logit of the target, so a positive entry speaks *for* the class. With
score="loss" a positive entry speaks against it, as in CAFO and CASO. These maps have no penalty and no certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from secondsight.config import Baseline, IntegratedGradients, SmoothGrad
from secondsight.errors import ALL_ZERO, Caution
from secondsight.groups import zero_share
from secondsight.model.classifier import Classifier
from secondsight.model.diagnosis import refuse_hidden_dependence
from secondsight.operators.linearisation import Linearisation, linearise
from secondsight.operators.noise import batch_size_for, deviation_of
from secondsight.request import Request
from secondsight.results.builder import TIMES_INPUT, facts_of
from secondsight.results.explanation import Explanation

Score = Callable[[Tensor], Tensor]
"""What is explained: a function from a batch to its logits, or to the loss of each input."""


def baseline(model: Classifier, x: Tensor, request: Request[Baseline]) -> Explanation:
    """Explain x (without batch dimension) by one of Captum's methods. For use inside `model.ready()`."""
    method = request.method
    linear = linearise(model, x[None], request.target)
    size = _at_a_time(method, linear)
    found, notes = facts_of(linear, request), linear.all_notes()
    target, weights, constant = linear.target, _score_weights(linear, method), linear.jacobian.constant
    # Frees its graph before Captum makes one of its own.
    del linear
    delta = torch.zeros_like(x)
    if not constant:
        score, index = (model.logits, target) if method.score == "logit" else (_Loss(model, target), None)
        attribute = _attribution(method, x, request.seed, size)
        # Captum makes new tensors, which must not depend on the defaults that the user has set in torch.
        with _unused_is_zero(), torch.device(x.device), _float32_by_default():
            delta = attribute(score, x[None].clone(), index)[0].detach()
    if not bool(delta.any()):
        if bool(weights.any()):
            refuse_hidden_dependence(model, x[None], weights)
        notes.append(Caution("the score does not change with the input here: the map is all zero", ALL_ZERO))
    if method.times_input and not isinstance(method, IntegratedGradients):
        notes.append(TIMES_INPUT)
        delta = delta * x
    return Explanation(**found, delta=delta.cpu(), sparsity=zero_share(delta.cpu()), notes=tuple(notes))


@contextmanager
def _float32_by_default() -> Iterator[None]:
    """Let new tensors be float32, so that Captum draws the same noise whatever torch's default is."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


@contextmanager
def _unused_is_zero() -> Iterator[None]:
    """Ignore torch's error that no gradient reaches the input, because the map is zero then."""
    try:
        yield
    except RuntimeError as error:
        if "not have been used in the graph" not in str(error):
            raise


def _score_weights(linear: Linearisation, method: Baseline) -> Tensor:
    """Return the derivative of the score by the logits, with batch dimension."""
    if method.score == "loss":
        return linear.loss_cotangent()
    weights = torch.zeros_like(linear.probabilities)
    weights[:, linear.target] = 1
    return weights


def clipped(values: Tensor, sparsity: float) -> Tensor:
    """Keep the pixels of largest absolute value, and set the given share to zero (figure 3c of the paper)."""
    weight = values.abs().sum(0, keepdim=True) if values.ndim == 3 else values.abs()
    kept = weight.flatten().topk(round((1 - sparsity) * weight.numel())).indices
    mask = torch.zeros_like(weight, dtype=torch.bool).flatten()
    mask[kept] = True
    return values * mask.reshape(weight.shape)


def _at_a_time(method: Baseline, linear: Linearisation) -> int:
    """Choose how many copies or steps go through the network at a time."""
    if not isinstance(method, (SmoothGrad, IntegratedGradients)):
        return 1
    count = method.n if isinstance(method, SmoothGrad) else method.n_steps
    return batch_size_for(linear.model, linear.x[0], linear.jacobian.logits, count, method.batch_size)


def _attribution(method: Baseline, x: Tensor, seed: int, size: int) -> Callable[[Score, Tensor, int | None], Tensor]:
    """Choose Captum's method: a function of the score, a batch of one and the target."""
    # Captum takes half a second to import, and the other methods do without it.
    from captum.attr import IntegratedGradients as CaptumIntegratedGradients
    from captum.attr import NoiseTunnel, Saliency

    def gradient(score: Score, x: Tensor, target: int | None) -> Tensor:
        slope: Tensor = Saliency(score).attribute(x.requires_grad_(), target=target, abs=False)
        return slope

    def smoothgrad(score: Score, x: Tensor, target: int | None) -> Tensor:
        assert isinstance(method, SmoothGrad)
        with torch.random.fork_rng([x.device] if x.device.type == "cuda" else []):
            torch.manual_seed(seed)
            average: Tensor = NoiseTunnel(Saliency(score)).attribute(
                x,
                nt_type="smoothgrad",
                nt_samples=method.n,
                nt_samples_batch_size=size,
                stdevs=deviation_of(x, method),
                target=target,
                abs=False,
            )
        return average

    def integrated_gradients(score: Score, x: Tensor, target: int | None) -> Tensor:
        """Integrate from the black picture (or the zero vector) to the input."""
        assert isinstance(method, IntegratedGradients)
        captum = CaptumIntegratedGradients(score, multiply_by_inputs=method.times_input)
        result: Tensor = captum.attribute(x, target=target, n_steps=method.n_steps, internal_batch_size=size)
        return result

    if isinstance(method, SmoothGrad):
        return smoothgrad
    return integrated_gradients if isinstance(method, IntegratedGradients) else gradient


class _Loss:
    """The cross-entropy loss of a fixed class, for each input of a batch."""

    def __init__(self, model: Classifier, target: int) -> None:
        self.model, self.target = model, target

    def __call__(self, x: Tensor) -> Tensor:
        logits = self.model.logits(x)
        return torch.nn.functional.cross_entropy(
            logits, logits.new_full((len(x),), self.target, dtype=torch.long), reduction="none"
        )
