"""The network around an input: its logits, probabilities, Jacobian, and the gradient of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from secondsight.errors import ModelError
from secondsight.model.classifier import Classifier, Target
from secondsight.model.derivatives import NotDifferentiableError, derivatives, differentiable_gradient
from secondsight.model.diagnosis import refuse_hidden_dependence, refuse_randomness
from secondsight.model.network_facts import RECORDINGS
from secondsight.operators.autograd_jacobian import AutogradJacobian
from secondsight.operators.jacobian import Jacobian
from secondsight.operators.tape.folding import FoldedWeights
from secondsight.operators.tape.recorder import record_tape
from secondsight.operators.tape.tape import Tape, split
from secondsight.operators.tape_jacobian import TapeJacobian

LOGIT_STEPS = 4
"""Rounding of a logit, in units of the rounding of the largest logit."""


class GradientGraph(NamedTuple):
    """W u at u = (p - y) / scale, with autograd's graph, so that it can be differentiated in x and in u.

    Attributes:
        slope: W u, of the shape of the inputs.
        leaf: the inputs x.
        weights: u.
        scale: what p - y was divided by, so that it survives the network's precision.
    """

    slope: Tensor
    leaf: Tensor
    weights: Tensor
    scale: float


class Linearisation:
    """A network at one input, or at several inputs whose losses are averaged. For use inside `model.ready()`.

    Tensors of class weights have one row for each input. Vectors of the input's size are averages over the inputs.

    Args:
        model: the network.
        jacobian: its Jacobian at the inputs.
        target: the class whose loss is meant; None: the predicted class of the first input.

    Attributes:
        probabilities: p = softmax(f), one row for each input. Float64 on the CPU, because it is few numbers and some
            devices have no float64.
        target: the index y of the class. If each input has its own class, that of the first input.
        targets: the index of the class of each input, one per row.
        size: the number d of entries of one input.
        notes: what a reader of the result should know.
    """

    def __init__(self, model: Classifier, jacobian: Jacobian, target: Target = None) -> None:
        """Compute the probabilities, and look up the target."""
        self.model, self.jacobian = model, jacobian
        logits = jacobian.logits.cpu().double()
        self.classes = logits.shape[1]
        self.probabilities = logits.softmax(1)
        self.target = int(logits[0].argmax()) if target is None else model.target_index(target, self.classes)
        self.targets = torch.full((len(logits), 1), self.target, device="cpu")
        self.size = jacobian.x[0].numel()
        self.notes: list[str] = []
        self._gradient: Tensor | None = None

    @property
    def x(self) -> Tensor:
        """The inputs, with batch dimension."""
        return self.jacobian.x

    def logit_rounding(self, careful: bool) -> float:
        """Estimate how far rounding may move a logit.

        Args:
            careful: also look at W'x, which is larger than the logits where a bias cancels it. This takes a product.
        """
        size = float(self.jacobian.logits.abs().max())
        if careful:
            x = self.x.flatten(1).to(self.jacobian.solver_device).double()
            size = max(size, float(self.jacobian.jvp(x[None]).abs().max()))
        return LOGIT_STEPS * torch.finfo(self.x.dtype).eps * size

    def loss_cotangent(self) -> Tensor:
        """Compute p - y, the probabilities minus the one-hot target, one row for each input.

        The entry at the target is minus the sum of the others, because p_y - 1 would lose every digit as p_y -> 1.
        """
        others = self.probabilities.scatter(1, self.targets, 0.0)
        return others.scatter(1, self.targets, -others.sum(1, keepdim=True))

    @property
    def uncertainty(self) -> Tensor:
        """1 - p_y, averaged over the inputs: a tensor of one number."""
        return -self.loss_cotangent().gather(1, self.targets).mean(0)

    def covariance(self, t: Tensor) -> Tensor:
        """Compute (diag p - pp') t for weights t of the classes.

        The entry of t at the likeliest class is subtracted first: this keeps the digits if the class is nearly certain.
        """
        p = self.probabilities
        t = t - t.gather(-1, p.argmax(-1, keepdim=True).expand(*t.shape[:-1], 1))
        return p * (t - (p * t).sum(-1, keepdim=True))

    def gradient(self, last: bool = False) -> Tensor:
        """Compute g = W (p - y), flat. `last`: this is the last product, so memory can be freed.

        Raises:
            ModelError: if torch cannot differentiate the network, or if g is zero although the loss changes.
        """
        if self._gradient is None:
            self.keep_gradient(self.gradients(last).mean(0))
        assert self._gradient is not None
        return self._gradient

    def gradients(self, last: bool = False) -> Tensor:
        """Compute the gradient at each input, one per row."""
        try:
            with derivatives():
                return self.jacobian.vjp(self.loss_cotangent()[None], last)[0]
        except NotDifferentiableError as error:
            raise ModelError(f"torch cannot differentiate this network: {error}") from error

    def keep_gradient(self, gradient: Tensor) -> None:
        """Store a gradient that was computed elsewhere, perhaps together with those of other inputs."""
        if not bool(gradient.any()):
            self._refuse_hidden_dependence()
        self._gradient = gradient

    def _refuse_hidden_dependence(self) -> None:
        """Raise ModelError if the gradient is zero only because the network cuts its graph."""
        cotangents = self.loss_cotangent()
        # A prediction may be so certain that p - y is zero. A constant network was checked before.
        uncertain = cotangents.any(1).nonzero()[:1, 0]
        if not self.jacobian.constant and len(uncertain):
            refuse_hidden_dependence(self.model, self.x[uncertain], cotangents[uncertain])

    def mean_vjp(self, u: Tensor, last: bool = False) -> Tensor:
        """Compute W u, averaged over the inputs, for weights u of the classes."""
        return self.jacobian.vjp(u[None], last)[0].mean(0)

    @cached_property
    def gradient_graph(self) -> GradientGraph:
        """The gradient as a differentiable function of the input and of p - y."""
        cotangent = self.loss_cotangent()
        scale = float(cotangent.abs().max()) or 1.0
        leaf, logits = self.jacobian.graph()
        weights = (cotangent / scale).to(logits.dtype).to(logits.device).requires_grad_()
        return GradientGraph(differentiable_gradient(logits, leaf, weights), leaf, weights, scale)

    def joined(self, others: Sequence[Linearisation]) -> Linearisation | None:
        """Join with the same network at other inputs, each with its own class. None: the inputs cannot share a pass."""
        jacobian = self.jacobian.joined([other.jacobian for other in others])
        if jacobian is None:
            return None
        result = Linearisation(self.model, jacobian, self.target)
        result.targets = torch.cat([self.targets, *(other.targets for other in others)])
        return result

    def all_notes(self) -> list[str]:
        """List what a reader should know of the network and of this input, each once."""
        return list(dict.fromkeys([*self.model.notes, *self.notes, *self.jacobian.notes]))


def linearise(
    model: Classifier, x: Tensor, target: Target = None, record: bool = False, joinable: bool = False
) -> Linearisation:
    """Run the network at the inputs x (with batch dimension).

    Args:
        model: the network.
        x: the inputs.
        target: the class to explain; None: the predicted one of the first input.
        record: record the network as a tape where that is possible. A tape pays off if several products follow. For
            one gradient, autograd's graph costs less.
        joinable: whether it may be joined with the same network at other inputs. Without that, less memory is needed.
    """
    return Linearisation(model, jacobian_at(model, x, record, joinable), target)


def jacobian_at(model: Classifier, x: Tensor, record: bool, joinable: bool = False) -> Jacobian:
    """Choose and make the Jacobian at the inputs x: from a tape if wanted and possible, else by autograd."""
    if record:
        taped = _recorded(model, x, joinable)
        if taped is not None:
            return taped
    jacobian = AutogradJacobian(model, x)
    if record and model.facts.unknown_operation:
        name = model.facts.unknown_operation.removeprefix("aten.")
        jacobian.notes.append(f"{name} has no rule of the tape: products were taken by autograd, which takes longer")
    refuse_randomness(model, jacobian.x, jacobian.logits)
    if jacobian.constant:
        refuse_hidden_dependence(model, jacobian.x[:1])
    return jacobian


def _recorded(model: Classifier, x: Tensor, joinable: bool) -> Jacobian | None:
    """Record the network's tape at x. A network that could not be recorded several times is not tried again."""
    facts = model.facts
    if not facts.may_be_recorded:
        return None
    tape = record_tape(model, x)
    if tape is None:
        facts.recordings_left -= 1
        return None
    facts.recordings_left = RECORDINGS
    return _trusted(model, x, tape, joinable)


def _trusted(model: Classifier, x: Tensor, tape: Tape, joinable: bool) -> Jacobian | None:
    """Take the tape's Jacobian. None: autograd disagrees with it."""
    model.check_logits(tape.logits, len(x))
    refuse_randomness(model, x, tape.logits)
    jacobian = TapeJacobian(model, x.detach().clone(), tape, joinable)
    return jacobian if jacobian.agrees_with_autograd() else None


def linearise_each(
    model: Classifier, inputs: Sequence[Tensor], targets: Sequence[Target], folded: FoldedWeights
) -> list[Linearisation]:
    """Linearise at several inputs, each by itself, with one recording pass and one gradient pass for all of them.

    Args:
        model: the network.
        inputs: the inputs, without batch dimension.
        targets: the class of each input.
        folded: batch-norm-folded weights, shared by all inputs of a call.
    """
    whole = None
    if model.facts.may_be_recorded and len({x.shape for x in inputs}) == 1:
        whole = record_tape(model, torch.stack(list(inputs)), independent=True)
    if whole is None:
        pairs = zip(inputs, targets, strict=True)
        return [linearise(model, x[None], target, record=True, joinable=True) for x, target in pairs]
    whole = folded.fold(whole)
    jacobians = [
        _trusted(model, x[None], tape, joinable=True) or jacobian_at(model, x[None], record=False)
        for x, tape in zip(inputs, split(whole), strict=True)
    ]
    linears = [Linearisation(model, jacobian, target) for jacobian, target in zip(jacobians, targets, strict=True)]
    if all(jacobian.shareable for jacobian in jacobians):
        joint = TapeJacobian(model, torch.stack(list(inputs)), whole)
        cotangents = torch.cat([linear.loss_cotangent() for linear in linears])
        for linear, gradient in zip(linears, joint.vjp(cotangents[None])[0], strict=True):
            linear.keep_gradient(gradient)
    return linears
