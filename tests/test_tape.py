"""The tape of a piecewise-linear network against dense float64 Jacobians, and what leaves no tape."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import secondsight as ss
from cases import CURVED, PIECEWISE_LINEAR, Case, lively
from reference import gauss_newton, gradient
from secondsight.config import method_of
from secondsight.model.network_facts import RECORDINGS
from secondsight.operators import averaged, linearisation
from secondsight.operators.averaged import AveragedHessian
from secondsight.operators.gauss_newton import GaussNewton
from secondsight.operators.linearisation import linearise
from secondsight.operators.noise import Noise, graph_bytes
from secondsight.operators.tape import tape
from secondsight.operators.tape.folding import FoldedWeights
from secondsight.operators.tape.linear_steps import Convolution, Mask, Pointwise, Scale
from secondsight.operators.tape.recorder import record_tape
from secondsight.operators.tape.tape import Tape, joined, split
from secondsight.operators.tape_jacobian import TapeJacobian

TIGHT = {"rtol": 1e-9, "atol": 1e-11}
Layer = Callable[[Tensor], Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tapped(layer: Layer, shape: tuple[int, ...]) -> ss.Classifier:
    """Three logits that all features of a layer's result go into."""

    def net(x: Tensor) -> Tensor:
        features = layer(x * 1.5).flatten(1)
        return features @ normal(features.shape[1], 3, seed=1)

    return ss.Classifier(net, input_shape=shape)


def recorded(model: ss.Classifier, x: Tensor) -> Tape | None:
    with model.ready():
        return record_tape(model, x)


def jacobians(model: ss.Classifier, x: Tensor) -> Tensor:
    """(inputs, classes, features), one input at a time."""

    def one(z: Tensor) -> Tensor:
        return model.logits(z[None])[0]

    with model.ready():
        return torch.stack([torch.autograd.functional.jacobian(one, z).flatten(1) for z in x])


def assert_right(found: Tape, model: ss.Classifier, x: Tensor, directions: int = 3) -> None:
    dense, n = jacobians(model, x), len(x)
    v, u = normal(directions, *x.shape, seed=2), normal(directions, n, dense.shape[1], seed=3)
    v_before, u_before = v.clone(), u.clone()
    change, slopes = found.forward(v), found.transpose(u)
    assert slopes.shape == v.shape
    torch.testing.assert_close(change, torch.einsum("ncd,knd->knc", dense, v.flatten(2)), **TIGHT)
    torch.testing.assert_close(slopes.flatten(2), torch.einsum("ncd,knc->knd", dense, u), **TIGHT)
    # <u, W'v> = <Wu, v>
    torch.testing.assert_close((u * change).sum(), (slopes * v).sum(), **TIGHT)
    same = found.forward(v[:, :1])
    torch.testing.assert_close(same, torch.einsum("ncd,kd->knc", dense, v[:, 0].flatten(1)), **TIGHT)
    assert torch.equal(v, v_before)
    assert torch.equal(u, u_before)
    assert torch.equal(found.forward(v), change)
    assert torch.equal(found.transpose(u), slopes)
    torch.testing.assert_close(found.logits, model.logits(x))


def module(layer: nn.Module) -> nn.Module:
    return lively(layer, 5).requires_grad_(False)


def twice(layer: nn.Module) -> Layer:
    return lambda x: layer(layer(x) - 0.5)


def residual(x: Tensor) -> Tensor:
    y = x * 2
    y += x.relu()
    return functional.relu_(y) - x


def hooked(x: Tensor) -> Tensor:
    y = x * 2
    y.mul_(3).add_(1).sub_(x, alpha=2).neg_().div_(4)
    return functional.hardtanh_(y) + functional.leaky_relu_(x * 0.5)


def shuffled(x: Tensor) -> Tensor:
    """Two groups of channels: one kept, one filtered, then dealt out in turn."""
    a, b = x.chunk(2, 1)
    y = torch.cat([a, b.relu() * 2], 1)
    return y.reshape(len(x), 2, 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape)


def behind(layer: Layer) -> Layer:
    """A layer that is given (tokens, inputs, features)."""
    return lambda x: layer(x.transpose(0, 1)).transpose(0, 1)


def in_one_dimension(x: Tensor) -> Tensor:
    """Tokens and inputs in one dimension, as nn.MultiheadAttention puts them for its linear layers."""
    tokens, inputs, features = x.shape
    y = x.reshape(tokens * inputs, features)
    y = functional.leaky_relu_(y @ normal(features, 4, seed=3), 0.2) * normal(4) + y.clamp(-0.5, 0.5) - y
    return y.view(tokens, inputs, 4)


def in_heads(x: Tensor) -> Tensor:
    """Two heads for each input, behind the tokens and then before them."""
    tokens, inputs, features = x.shape
    y = x.reshape(tokens, inputs * 2, features // 2).relu().transpose(0, 1)
    return (y - 0.1 * normal(2)).relu().reshape(inputs, -1)


def picked(x: Tensor) -> Tensor:
    """Combine single tokens, and sums of tokens."""
    first, *rest = x.unbind()
    sums = x.mean(0) + x[1:].relu().sum((0,), keepdim=True)[0]
    return first.relu() * 2 - x[-1] + sums + x.split([1, 2])[1][0] - rest[0].mean(-1, keepdim=True)


def widened(x: Tensor) -> Tensor:
    """Join a constant token, one that is repeated, all tokens moved by one place, and all tokens."""
    constant = normal(1, 1, 4).expand(1, x.shape[1], 4)
    y = torch.cat([constant, x[:1].expand(2, -1, -1), x.roll(1, 0), x])
    return torch.cat([y.relu(), y], -1)


def stacked(x: Tensor) -> Tensor:
    """Tokens stacked before, among and behind the dimensions, also with a constant, and taken apart again."""
    y = torch.stack([x.relu(), normal(*x.shape, seed=3), x])
    z = torch.stack([y[0] * 2, y[2]], 2).relu().flatten(2)
    return torch.stack([z, -z], -1)[..., 1] + torch.stack([y, y.relu()], 1).sum(1)[2].repeat(1, 1, 2)


def twin_overwritten(x: Tensor) -> Tensor:
    """A slice of everything, and a permutation, have the memory of what was there before. That is not used again."""
    y = (x * 2)[:, :4]
    y += x.relu()
    return functional.relu_((y - 1).T).T


MATRICES = normal(3, 4, 2, seed=4)
PLACES = torch.tensor([2, 0, 2])
CONVOLUTION = module(nn.Conv2d(3, 4, 3))
LAYERS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "identity": (lambda x: x, (4,)),
    "convolution": (module(nn.Conv2d(2, 3, 3, stride=2, padding=1)), (2, 5, 6)),
    "depthwise": (module(nn.Conv2d(4, 8, 3, groups=4, dilation=2, padding=2, bias=False)), (4, 5, 5)),
    "pointwise": (module(nn.Conv2d(3, 4, 1)), (3, 4, 5)),
    "pointwise-strided": (module(nn.Conv2d(3, 4, 1, stride=(2, 3), bias=False)), (3, 4, 5)),
    "pointwise-strided-like-its-size": (module(nn.Conv2d(3, 4, 1, stride=4)), (3, 4, 3)),
    "pointwise-padded": (module(nn.Conv2d(3, 4, 1, padding=1)), (3, 2, 2)),
    "pointwise-in-groups": (module(nn.Conv2d(4, 2, 1, groups=2)), (4, 2, 3)),
    "pointwise-transposed": (module(nn.ConvTranspose2d(2, 3, 1, stride=2)), (2, 2, 3)),
    "convolution-1d": (module(nn.Conv1d(2, 3, 3, padding="same")), (2, 7)),
    "convolution-3d": (module(nn.Conv3d(1, 2, 2)), (1, 3, 3, 3)),
    "transposed-convolution": (module(nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1)), (2, 3, 4)),
    "replication-padding": (module(nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate")), (2, 4, 4)),
    "reflection-padding": (module(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")), (2, 4, 4)),
    "batch-norm-1d": (module(nn.BatchNorm1d(4)), (4,)),
    "batch-norm-2d": (module(nn.BatchNorm2d(3)), (3, 4, 2)),
    "batch-norm-plain": (module(nn.BatchNorm2d(3, affine=False)), (3, 2, 2)),
    "linear": (module(nn.Linear(4, 5)), (4,)),
    "linear-no-bias": (module(nn.Linear(4, 5, bias=False)), (4,)),
    "linear-tokens": (module(nn.Linear(4, 5)), (3, 4)),
    "linear-tokens-no-bias": (module(nn.Linear(4, 5, bias=False)), (3, 4)),
    "linear-planes": (module(nn.Linear(4, 5)), (2, 3, 4)),
    "relu": (torch.relu, (6,)),
    "relu-in-place": (lambda x: functional.relu(x * 1.0, inplace=True), (6,)),
    "relu6": (lambda x: functional.relu6(4 * x), (6,)),
    "hardtanh": (lambda x: functional.hardtanh(x, -0.5, 0.7), (6,)),
    "leaky-relu": (lambda x: functional.leaky_relu(x, 0.2), (6,)),
    "leaky-relu-upside-down": (lambda x: functional.leaky_relu(x, -0.5), (6,)),
    "threshold": (lambda x: functional.threshold(x, 0.1, 20.0), (6,)),
    "clamp": (lambda x: x.clamp(-0.3, 0.4), (6,)),
    "clamp-in-place": (lambda x: (x * 2).clamp_(-0.3, 0.4), (6,)),
    "clamp-min": (lambda x: x.clamp(min=0.2), (6,)),
    "clamp-max": (lambda x: x.clamp(max=0.2), (6,)),
    "clamp-min-by-name": (lambda x: torch.clamp_min(x, 0.2) + torch.clamp_max(x, 0.1), (6,)),
    "clamp-between-tensors": (lambda x: x.clamp(torch.tensor(-0.3), torch.tensor(0.4)), (6,)),
    "clamp-above-a-tensor": (lambda x: (x * 2).clamp_(torch.tensor(-0.3)), (6,)),
    "larger": (lambda x: torch.maximum(x, normal(4, seed=3)) - torch.minimum(normal(3, 1, seed=3), x), (3, 4)),
    "larger-behind-tokens": (behind(lambda x: torch.maximum(normal(3, 1, 4, seed=3), x)), (3, 4)),
    "max-pool": (nn.MaxPool2d(3, 2, padding=1), (2, 6, 5)),
    "max-pool-overlapping": (nn.MaxPool2d(3, 1, dilation=2, ceil_mode=True), (2, 6, 6)),
    "max-pool-1d": (nn.MaxPool1d(2), (2, 6)),
    "adaptive-max-pool": (nn.AdaptiveMaxPool2d((2, 3)), (2, 5, 5)),
    "amax": (lambda x: x.amax((1, -1)) - x.amin(2, keepdim=True).sum((1, 2, 3))[:, None], (2, 3, 4)),
    "amax-shared-by-equals": (lambda x: torch.cat([x, x, x.relu()], 1).amax(1), (3, 4)),
    "amax-of-parts": (lambda x: x.flatten(0, 1).amax(1).view(len(x), -1), (3, 4)),
    "amax-behind-tokens": (behind(lambda x: x.amax(2, keepdim=True) * 2 + x.relu()), (3, 4)),
    "largest": (lambda x: x.max(1)[0] - x.min(-1, keepdim=True)[0].flatten(1), (3, 3)),
    "largest-of-equals": (lambda x: torch.cat([x, x], 1).max(1).values, (3, 4)),
    "average-pool": (nn.AvgPool2d(3, 2, padding=1), (2, 6, 5)),
    "adaptive-average-pool": (nn.AdaptiveAvgPool2d((2, 3)), (2, 5, 5)),
    "global-average-pool": (nn.AdaptiveAvgPool2d(1), (2, 5, 5)),
    "mean": (lambda x: x.mean((-1, -2)), (3, 4, 5)),
    "sum": (lambda x: x.sum(2, keepdim=True), (3, 4)),
    "constants": (lambda x: 3 - (2 * x + 1 - torch.ones(4)) / torch.arange(1, 5), (3, 4)),
    "constants-first": (lambda x: torch.ones(4).double() - x + torch.add(torch.ones(4).double(), x, alpha=3), (4,)),
    "integer-factor": (lambda x: x * torch.arange(4) * 2, (4,)),
    "added-multiple": (lambda x: torch.addcmul(normal(4), x, normal(4, seed=1), value=3), (3, 4)),
    "added-multiple-of-constant": (lambda x: torch.addcmul(normal(4), normal(4, seed=1), x), (3, 4)),
    "factor-in-more-places": (lambda x: x[:, :, None] * normal(5) - normal(3, 5) * x[:, :1, None], (3,)),
    "factor-for-each-token": (lambda x: (x.T * torch.arange(1, 5)[:, None]).T, (4,)),
    "factor-in-more-places-behind-tokens": (behind(lambda x: (x[:1] * 2) * normal(3, 1, 1) + x), (3, 4)),
    "factor-in-more-places-behind": (behind(lambda x: x[..., :1].relu() * normal(4) + x), (3, 4)),
    "combined": (lambda x: torch.sub(x.relu(), x, alpha=0.3) - x, (4,)),
    "doubled": (lambda x: x + x, (4,)),
    "doubled-in-place": (lambda x: (x * 1).add_(x), (4,)),
    "spread": (lambda x: x.mean(2, keepdim=True).relu() + x - x.mean(1, keepdim=True), (3, 4)),
    "residual-in-place": (residual, (5,)),
    "many-in-place": (hooked, (5,)),
    "twin-in-place": (twin_overwritten, (4,)),
    "shared": (twice(module(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))), (4,)),
    "shared-in-place": (twice(module(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)))), (4,)),
    "shuffle": (shuffled, (4, 2, 3)),
    "cat-with-constant": (lambda x: torch.cat([x.relu(), x.new_ones(len(x), 2), x], 1), (3,)),
    "cat-with-nothing": (lambda x: torch.cat([x[:, :0], x[:, 1:].relu()], 1), (3, 2)),
    "cat-with-nothing-behind-tokens": (behind(lambda x: torch.cat([x[..., :0], x], 2).relu()), (3, 2)),
    "cat-with-itself": (lambda x: torch.cat([x, x], -1).relu(), (3, 2)),
    "pad": (lambda x: functional.pad(x, (1, 2, 0, 1), value=3.0).relu(), (2, 3, 4)),
    "crop": (lambda x: functional.pad(x, (-1, 0, 1, 0)), (2, 3, 4)),
    "no-pad": (lambda x: functional.pad(x, (0, 0, 0, 0)), (2, 3, 4)),
    "slice": (lambda x: x[:, 1:, ::2], (3, 5)),
    "select": (lambda x: x[:, 1] - x[..., -1:].squeeze(2)[:, :1], (3, 5)),
    "split": (lambda x: x.split([1, 2], 1)[1] * 2 + x.split(2, 1)[0], (3, 2)),
    "stack": (stacked, (3, 4)),
    "stack-of-itself": (lambda x: torch.stack([x, x]).relu().sum(0), (4,)),
    "stack-behind-tokens": (behind(stacked), (3, 4)),
    "stack-in-one-dimension": (
        lambda x: torch.stack([x.transpose(0, 1).flatten(0, 1).relu()] * 2)[1].view(3, -1, 4).transpose(0, 1),
        (3, 4),
    ),
    "repeat": (lambda x: x.repeat(1, 2, 3).relu() * normal(6, 6), (3, 2)),
    "repeat-behind-tokens": (behind(lambda x: x.repeat(2, 1, 1).relu()), (3, 2)),
    "indexed": (lambda x: x[:, PLACES].relu() - x[:, :, PLACES], (3, 3)),
    "indexed-tokens": (behind(lambda x: x[PLACES].relu()), (3, 4)),
    "windows": (lambda x: x.unfold(1, 3, 2).unfold(2, 2, 1).relu().flatten(2), (7, 3)),
    "patches": (lambda x: functional.unfold(x, (2, 3), padding=1, stride=2).relu(), (2, 4, 5)),
    "patches-put-back": (
        lambda x: functional.fold(functional.unfold(x, 3, padding=1).relu(), (4, 5), 3, padding=1),
        (2, 4, 5),
    ),
    "permute": (lambda x: x.permute(0, 3, 1, 2).relu(), (2, 3, 4)),
    "transpose": (lambda x: x.transpose(1, -1).contiguous().view(len(x), -1), (2, 3)),
    "shape-in-place": (lambda x: (x * 1).unsqueeze_(1).squeeze_(1).t_().relu().t(), (4,)),
    "expand": (lambda x: x[:, None].expand(-1, 3, -1).relu() - x.unsqueeze(1), (4,)),
    "flat-batch": (lambda x: x.reshape(-1, 2).relu().reshape(len(x), -1), (3, 2)),
    "vector": (lambda x: x.view(-1).relu().view(x.shape), (3, 2)),
    "upsample": (lambda x: functional.interpolate(x, scale_factor=2), (2, 3, 3)),
    "bicubic": (lambda x: functional.interpolate(x, (5, 4), mode="bicubic"), (2, 3, 3)),
    "bilinear": (lambda x: functional.interpolate(x, (5, 4), mode="bilinear"), (2, 3, 3)),
    "dropout": (module(nn.Dropout(0.5)), (4,)),
    "unused": (lambda x: (x.relu() * 3, x.clamp(0, 1))[1], (4,)),
    "detached-offset": (lambda x: x.relu() + x.detach().sigmoid(), (4,)),
    "behind-tokens": (behind(lambda x: functional.relu_(x * 2 - normal(4)) + x.clamp(-0.3, 0.4) - x), (3, 4)),
    "behind-tokens-in-one-dimension": (behind(in_one_dimension), (3, 4)),
    "behind-tokens-all-in-one-dimension": (behind(lambda x: functional.relu_(x.flatten() * 2).view(x.shape)), (3, 4)),
    "behind-tokens-in-heads": (lambda x: in_heads(x.transpose(0, 1)), (3, 4)),
    "behind-tokens-picked": (lambda x: picked(x.transpose(0, 1)), (3, 4)),
    "behind-tokens-widened": (behind(widened), (3, 4)),
    "behind-tokens-spread": (behind(lambda x: x - x.mean(2, keepdim=True).relu()), (3, 4)),
    "behind-tokens-matrix": (behind(lambda x: torch.bmm(x.relu(), MATRICES[:1].expand(3, 4, 2))), (3, 4)),
    "behind-all": (lambda x: x.permute(1, 2, 0).relu().permute(2, 0, 1), (3, 4)),
    "behind-all-matrix": (
        lambda x: torch.bmm(MATRICES[:1].expand(3, 4, 2), x.permute(1, 2, 0)).permute(2, 0, 1),
        (3, 2),
    ),
    "batch-transposed": (lambda x: x.T.relu().T, (4,)),
    "dimension-before": (lambda x: x[None].relu().squeeze(0) - x[None, :, None][0, :, 0], (4,)),
    "matrices-before": (
        lambda x: torch.bmm(MATRICES.repeat(len(x), 1, 1), x.flatten(0, 1)).view(len(x), -1),
        (3, 2, 5),
    ),
    "matrices-after": (lambda x: torch.bmm(x.flatten(0, 1), MATRICES.repeat(len(x), 1, 1)).view(len(x), -1), (3, 5, 4)),
    "matrices-behind-tokens": (behind(lambda x: torch.bmm(x.relu(), MATRICES)), (3, 4)),
    "matrices-before-tokens": (lambda x: torch.bmm(MATRICES.mT, x.permute(1, 2, 0)).permute(2, 0, 1), (3, 4)),
    "added-products": (
        lambda x: torch.baddbmm(normal(3, 2), x.flatten(0, 1), MATRICES[:1].expand(3 * len(x), 4, 2)).view(len(x), -1),
        (3, 3, 4),
    ),
    "channels-last": (lambda x: CONVOLUTION(x.contiguous(memory_format=torch.channels_last)).relu(), (3, 5, 5)),
}


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_each_operation_against_the_dense_jacobian(name: str, n: int) -> None:
    layer, shape = LAYERS[name]
    model, x = tapped(layer, shape), normal(n, *shape)
    found = recorded(model, x)
    assert found is not None
    assert_right(found, model, x)


@pytest.mark.parametrize("name", LAYERS)
def test_tapes_of_single_inputs_joined(name: str) -> None:
    layer, shape = LAYERS[name]
    model, x = tapped(layer, shape), normal(3, *shape)
    tapes = [tape for tape in (recorded(model, one[None]) for one in x) if tape is not None]
    found = joined(tapes)
    assert found is not None
    assert_right(found, model, x)


@pytest.mark.parametrize("name", LAYERS)
def test_a_tape_of_several_inputs_split(name: str) -> None:
    layer, shape = LAYERS[name]
    model, x = tapped(layer, shape), normal(3, *shape)
    whole = recorded(model, x)
    assert whole is not None
    parts = split(whole)
    for part, one in zip(parts, x, strict=True):
        alone = recorded(model, one[None])
        assert alone is not None
        assert (part.signature, part.directions, part.nbytes) == (alone.signature, alone.directions, alone.nbytes)
        assert_right(part, model, one[None])
    again = joined([parts[2], parts[0], parts[2]])
    assert again is not None
    assert_right(again, model, x[[2, 0, 2]])


def test_tapes_with_other_fixed_matrices_are_not_joined() -> None:
    """Autograd does not follow the attention, so it is a fixed matrix: another one at each input."""
    model, x = tapped(lambda x: (x @ x.mT).detach() @ x, (3, 4)), normal(2, 3, 4)
    tapes = [tape for tape in (recorded(model, one[None]) for one in x) if tape is not None]
    assert joined(tapes) is None
    for found, one in zip(tapes, x, strict=True):
        assert_right(found, model, one[None])


def test_tapes_with_other_indices_are_not_joined() -> None:
    model, x = tapped(lambda x: x[:, x[0].detach().argsort()[:2]], (4,)), normal(2, 4)
    tapes = [tape for tape in (recorded(model, one[None]) for one in x) if tape is not None]
    assert joined(tapes) is None
    for found, one in zip(tapes, x, strict=True):
        assert_right(found, model, one[None])


def test_tapes_with_other_factors_in_more_places_are_not_joined() -> None:
    model, x = tapped(lambda x: x[:, :, None] * x[0].detach(), (4,)), normal(2, 4)
    tapes = [tape for tape in (recorded(model, one[None]) for one in x) if tape is not None]
    assert joined(tapes) is None
    for found, one in zip(tapes, x, strict=True):
        assert_right(found, model, one[None])


def test_inputs_with_and_without_equal_entries() -> None:
    """The weights of a largest entry are bytes, and numbers where several share the derivative."""
    model, x = tapped(lambda x: x.amax(1) * 1, (3, 2)), normal(2, 3, 2)
    x[0, 1] = x[0].amax(0)
    whole, tapes = recorded(model, x), [recorded(model, one[None]) for one in x]
    again = joined([tape for tape in tapes if tape is not None])
    assert whole is not None
    assert again is not None
    assert_right(whole, model, x)
    assert_right(again, model, x)
    for found, one in zip(split(whole), x, strict=True):
        assert_right(found, model, one[None])


def test_indices_may_carry_one_input_to_another() -> None:
    """The others are picked by the first."""
    model, x = tapped(lambda x: x.amax(1, keepdim=True) + x[:, x.max(1)[1][:1]], (4,)), normal(2, 4)
    found = recorded(model, x)
    assert found is not None
    with model.ready():
        assert record_tape(model, x, independent=True) is None


def normalised(convolution: nn.Module) -> nn.Module:
    """With a batch norm behind it."""
    kind = {nn.Conv1d: nn.BatchNorm1d, nn.Conv3d: nn.BatchNorm3d}.get(type(convolution), nn.BatchNorm2d)
    return module(nn.Sequential(convolution, kind(int(convolution.out_channels))))


def forked(x: Tensor) -> Tensor:
    y = CONVOLUTION(x)
    return functional.relu(y * SCALE) - y


SCALE = normal(4, 1, 1, seed=6)
SHARED = module(nn.Conv2d(3, 3, 3, padding=1))
NORMS = [module(nn.BatchNorm2d(3)) for _ in range(2)]
NORMS[1].running_var.mul_(9)
FOLDED: dict[str, tuple[Layer, tuple[int, ...], int]] = {
    "convolution": (normalised(nn.Conv2d(2, 3, 3, stride=2)), (2, 5, 6), 0),
    "depthwise": (normalised(nn.Conv2d(4, 8, 3, groups=4)), (4, 5, 5), 0),
    "pointwise": (normalised(nn.Conv2d(3, 4, 1, stride=2, bias=False)), (3, 4, 5), 0),
    "1d": (normalised(nn.Conv1d(2, 3, 3)), (2, 7), 0),
    "3d": (normalised(nn.Conv3d(1, 2, 2)), (1, 3, 3, 3), 0),
    "then-a-number": (lambda x: CONVOLUTION(x) * 2.0, (3, 5, 5), 1),
    "then-a-row": (lambda x: CONVOLUTION(x) * normal(4), (3, 5, 6), 1),
    "then-two-scales": (lambda x: CONVOLUTION(x) * SCALE * SCALE, (3, 5, 5), 1),
    "transposed": (normalised(nn.ConvTranspose2d(3, 3, 2)), (3, 3, 4), 1),
    "needed-unscaled-too": (forked, (3, 5, 5), 1),
    "shared-by-two-norms": (lambda x: NORMS[1](SHARED(NORMS[0](SHARED(x)).relu())), (3, 4, 4), 0),
}
"""With the number of scales that are left."""


@pytest.mark.parametrize("name", FOLDED)
def test_scales_folded_into_convolutions(name: str) -> None:
    layer, shape, left = FOLDED[name]
    model, x, folding = tapped(lambda x: layer(x).relu(), shape), normal(3, *shape), FoldedWeights()
    tapes = [tape for tape in (recorded(model, one[None]) for one in x) if tape is not None]
    folded = [folding.fold(tape) for tape in tapes]
    scales = [node for node in folded[0].nodes if isinstance(node.step, Scale)]
    # The first is x * 1.5.
    assert len(scales) - 1 == left
    whole = joined(folded)
    assert whole is not None
    assert_right(whole, model, x)
    for node, same in zip(folded[0].nodes, folded[1].nodes, strict=True):
        assert node.step is same.step or not isinstance(node.step, (Convolution, Pointwise)) or left
    assert joined([tapes[0], folded[0]]) is None


@pytest.mark.parametrize("name", LAYERS)
def test_folding_leaves_all_else_alone(name: str) -> None:
    layer, shape = LAYERS[name]
    model, x = tapped(layer, shape), normal(2, *shape)
    found = recorded(model, x)
    assert found is not None
    assert_right(FoldedWeights().fold(found), model, x)


def test_other_weights_are_folded_anew() -> None:
    layer, folding = normalised(nn.Conv2d(2, 3, 3)), FoldedWeights()
    model, x = tapped(layer, (2, 5, 6)), normal(1, 2, 5, 6)
    for _ in range(2):
        found = recorded(model, x)
        assert found is not None
        assert_right(folding.fold(found), model, x)
        layer[1].running_var.mul_(4)  # type: ignore[operator, union-attr, index]
    layer[0].weight = nn.Parameter(-layer[0].weight)  # type: ignore[operator, index]
    found = recorded(model, x)
    assert found is not None
    assert_right(folding.fold(found), model, x)


@pytest.mark.parametrize("case", PIECEWISE_LINEAR, ids=str)
@pytest.mark.parametrize("n", [1, 3])
def test_whole_networks(case: Case, n: int) -> None:
    model, x = case.classifier(), normal(n, *case.x.shape)
    found = recorded(model, x)
    assert found is not None
    assert_right(found, model, x, directions=2)


class Rounded(torch.autograd.Function):
    """Rounds, with the derivative of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent * 1


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x.relu()
    return x + y


def into_a_buffer(x: Tensor) -> Tensor:
    buffer = torch.zeros(len(x), 8, dtype=x.dtype)
    buffer[:, 2:6] = x
    return buffer


def part_overwritten(x: Tensor) -> Tensor:
    y = x * 1
    y[:, 1] = y[:, 0] * 2
    return y


def view_overwritten(x: Tensor) -> Tensor:
    y = x * 1
    y[:, :2].mul_(3)
    return y


def base_overwritten(x: Tensor) -> Tensor:
    y = x * 1
    view = y.view(len(x), 2, 2)
    y.mul_(3)
    return view


def lone_view_overwritten(x: Tensor) -> Tensor:
    return (x * 1).view(len(x), 2, 2).mul_(3)


def sibling_overwritten(x: Tensor) -> Tensor:
    y = x * 1
    left, middle = y[:, :2], y[:, 1:3]
    left.mul_(3)
    return middle


def logits_overwritten(x: Tensor) -> Tensor:
    y = x[:, :3] * 1
    y[:, :2].mul_(3)
    return y


def constant_overwritten(x: Tensor) -> Tensor:
    """What the first product was multiplied by is no longer there afterwards."""
    scale = torch.full((4,), 2.0, dtype=x.dtype)
    y = x * scale
    scale.mul_(5)
    return y * scale


def through_detached_memory(x: Tensor) -> Tensor:
    y = x * 1
    y.detach().mul_(3)
    return y


def out_argument(x: Tensor) -> Tensor:
    out = torch.empty(len(x), 4, dtype=x.dtype)
    torch.mul(x.detach(), 2, out=out)
    return out + x


def in_pairs(x: Tensor) -> Tensor:
    """View four features as (pairs, inputs, 2)."""
    return x.view(len(x), 2, 2).transpose(0, 1)


UNKNOWN: dict[str, Layer] = {
    "sine": torch.sin,
    "softmax-over-inputs": lambda x: x.softmax(0),
    "product-of-other-shapes": lambda x: x[:, :1, None] * x,
    "absolute": torch.abs,
    "clamp-by-tensors": lambda x: x.clamp(-normal(4).abs(), normal(4).abs()),
    "larger-of-two": lambda x: torch.maximum(x.relu(), x * 2),
    "larger-of-equals": lambda x: torch.maximum(x * 0, torch.zeros(4, dtype=x.dtype)) + x,
    "larger-in-more-places": lambda x: torch.maximum(x[:, :1], normal(4)),
    "norm-of-nothing": lambda x: x + torch.linalg.vector_norm(x * 0, dim=1, keepdim=True),
    "norm-of-another-order": lambda x: x + torch.linalg.vector_norm(x, 1, dim=1, keepdim=True),
    "norm-of-everything": lambda x: x + x.norm(),
    "norm-over-inputs": lambda x: x + x.norm(dim=0),
    "norm-over-inputs-behind": lambda x: x + x.T.norm(dim=1),
    "norm-over-tokens": lambda x: (x.T + x.T.norm(dim=0)).T,
    "added-product": lambda x: torch.addcmul(normal(4), x, x.relu()),
    "added-to": lambda x: torch.addcmul(x, normal(4), normal(4)),
    "variance-over-inputs": lambda x: x - x.var(0),
    "variance-over-inputs-behind": lambda x: x - x.T.var(1),
    "amax-over-inputs": lambda x: x - x.amax(0),
    "amax-over-inputs-behind": lambda x: x - x.T.amax(1),
    "amax-of-everything": lambda x: x - x.amax(),
    "largest-over-inputs": lambda x: x - x.max(0)[0],
    "inputs-repeated": lambda x: x.repeat(2, 1)[: len(x)],
    "inputs-repeated-before": lambda x: x.repeat(2, 1, 1)[1],
    "inputs-indexed": lambda x: x[torch.tensor([1, 0])],
    "indexed-twice": lambda x: x[:, :, None][:, PLACES, torch.tensor([0, 0, 0])],
    "windows-of-inputs": lambda x: x.unfold(0, 1, 1)[..., 0],
    "weights-from-the-input": lambda x: functional.linear(normal(2, 4), x.relu()).T,
    "custom-function": Rounded.apply,
    "no-grad-inside": without_gradient,
    "other-precision": lambda x: x.float().double().relu(),
    "batch-mixed": lambda x: x - x.mean(0, keepdim=True),
    "batch-turned": lambda x: x.flip(0),
    "batch-joined": lambda x: torch.cat([x, x], 0)[: len(x)],
    "mean-of-inputs-behind": lambda x: in_pairs(x).mean(1).T,
    "softmax-over-inputs-behind": lambda x: x.T.softmax(1).T,
    "layer-norm-over-inputs-behind": lambda x: functional.layer_norm(x.T, (2,)).T,
    "inputs-turned-behind": lambda x: x.T.roll(1, 1).T,
    "inputs-picked-behind": lambda x: in_pairs(x).select(1, 0).T,
    "inputs-sliced-behind": lambda x: in_pairs(x).reshape(2, 4)[:, :2].T,
    "inputs-split-behind": lambda x: in_pairs(x).reshape(2, 4).split(2, 1)[0].T,
    "inputs-unbound-behind": lambda x: in_pairs(x).unbind(1)[0].T,
    "inputs-joined-behind": lambda x: torch.cat([x.T, x.T], 1).T[:2],
    "matrix-over-inputs": lambda x: (x.T @ normal(2, 2)).T,
    "matrices-over-inputs-behind": lambda x: torch.bmm(x.T[None], normal(1, 2, 2))[0].T,
    "matrices-over-inputs-before": lambda x: torch.bmm(normal(1, 2, 2), x[None])[0],
    "products-of-inputs": lambda x: torch.bmm(x[None, :, :2], x[None])[0],
    "other-matrices-for-each-input": lambda x: torch.bmm(x[:, None], normal(2, 4, 3))[:, 0],
    "factor-for-each-input-in-more-places": lambda x: x[:, :1] * normal(2, 4),
    "factor-in-more-dimensions": lambda x: (x * normal(3, 1, 4))[0],
    "factor-for-each-input-behind": lambda x: (x.T * torch.arange(1, 1 + len(x))).T,
    "view-across-inputs": lambda x: x - x[:, :3].T.reshape(2, 3).sum(),
    "spread-over-tokens": lambda x: (x.T - x.T.mean(0, keepdim=True)).T,
    "inputs-in-two-places": lambda x: x[:, :2] + x[:, :2].T,
    "logits-behind": lambda x: x[:, :2].T,
    "factor-for-each-input": lambda x: x * torch.arange(1, 1 + len(x))[:, None],
    "training-statistics": lambda x: functional.batch_norm(x, None, None, training=True),
    "into-a-buffer": into_a_buffer,
    "part-overwritten": part_overwritten,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_leaves_no_tape(name: str) -> None:
    model, x = tapped(UNKNOWN[name], (4,)), normal(2, 4)
    assert recorded(model, x) is None
    with model.ready():
        linear, twin = linearise(model, x, record=True), linearise(model, x)
        assert not isinstance(linear.jacobian, TapeJacobian)
        assert (model.facts.jvp_way, model.facts.leaves_tapes) == ("forward mode", False)
        v, u = normal(1, 1, 4), normal(2, 3)
        assert torch.equal(linear.jacobian.jvp(v), twin.jacobian.jvp(v))
        assert torch.equal(linear.mean_vjp(u), twin.mean_vjp(u))
        assert torch.equal(linear.jacobian.vjp(u[None])[0].mean(0), twin.mean_vjp(u))


@pytest.mark.parametrize(
    "layer",
    [
        into_a_buffer,
        part_overwritten,
        view_overwritten,
        base_overwritten,
        sibling_overwritten,
        lone_view_overwritten,
        out_argument,
    ],
)
@pytest.mark.parametrize("n", [1, 2])
def test_shared_memory_is_right_with_or_without_a_tape(layer: Layer, n: int) -> None:
    model, x = tapped(layer, (4,)), normal(n, 4)
    found = recorded(model, x)
    if found is not None:
        assert_right(found, model, x)
    h = ss.input_hessian(model, x[0])
    torch.testing.assert_close(h.matmul(torch.eye(4)), gauss_newton(model, x[0]), **TIGHT)


@pytest.mark.parametrize(
    "layer",
    [view_overwritten, base_overwritten, sibling_overwritten, constant_overwritten, through_detached_memory],
)
def test_what_is_overwritten_behind_a_tensor_leaves_no_tape(layer: Layer) -> None:
    assert recorded(tapped(layer, (4,)), normal(2, 4)) is None


def test_logits_overwritten_behind_their_tensor_leave_no_tape() -> None:
    model = ss.Classifier(logits_overwritten, input_shape=(4,))
    assert recorded(model, normal(2, 4)) is None


@pytest.mark.parametrize("case", CURVED, ids=str)
def test_curved_networks_without_a_tape_are_given_up(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr("secondsight.operators.linearisation.record_tape", lambda *_: tried.append(1))
    model = case.classifier()
    for _ in range(RECORDINGS + 2):
        ss.input_hessian(model, case.x)
    assert len(tried) == RECORDINGS


def test_the_network_is_a_function_whose_weights_want_gradients() -> None:
    net = lively(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), 0)
    model, x = ss.Classifier(lambda x: net(x), input_shape=(4,)), normal(2, 4)
    found = recorded(model, x)
    assert found is not None
    assert_right(found, model, x)
    assert not found.forward(x[None]).requires_grad


class TestTrust:
    """The first tape of a kind is compared with torch's own derivatives."""

    CASE = PIECEWISE_LINEAR[3]

    def explained(self, model: ss.Classifier) -> None:
        h = ss.input_hessian(model, self.CASE.x, target=1)
        torch.testing.assert_close(h.gradient, gradient(self.CASE.net, self.CASE.x, 1), **TIGHT)
        torch.testing.assert_close(h.matmul(torch.eye(72)), gauss_newton(self.CASE.net, self.CASE.x), **TIGHT)

    def test_a_right_tape_is_used(self) -> None:
        model = self.CASE.classifier()
        self.explained(model)
        assert model.facts.leaves_tapes
        assert len(model.facts.trusted_tapes) == 1
        with model.ready():
            assert isinstance(linearise(model, self.CASE.x[None], record=True).jacobian, TapeJacobian)

    @pytest.mark.parametrize("step", [Scale, Mask])
    @pytest.mark.parametrize("direction", ["forward", "transpose"])
    def test_a_wrong_rule_is_caught(self, step: type[Any], direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
        right = getattr(step, direction)

        def wrong(self: Any, may_overwrite: bool, tangent: Tensor) -> Any:
            found = right(self, False, tangent)
            return found * 1.001 if direction == "forward" else (found[0] * 1.001,)

        monkeypatch.setattr(step, direction, wrong)
        model = self.CASE.classifier()
        self.explained(model)
        assert not model.facts.leaves_tapes

    def test_a_wrong_rule_is_caught_in_single_precision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        net = copy.deepcopy(self.CASE.net).float()
        right = Scale.forward
        for factor, trusted in ((1.0, True), (1.05, False)):
            monkeypatch.setattr(Scale, "forward", lambda self, _, t, factor=factor: right(self, False, t) * factor)
            monkeypatch.setattr(Scale, "transpose", lambda self, _, t: (right(self, False, t),))
            model = ss.Classifier(net, input_shape=self.CASE.x.shape)
            ss.input_hessian(model, self.CASE.x.float())
            assert model.facts.leaves_tapes == trusted

    def test_a_failing_rule_is_caught(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("shapes")

        monkeypatch.setattr(Scale, "transpose", fail)
        model = self.CASE.classifier()
        self.explained(model)
        assert not model.facts.leaves_tapes

    def test_paid_once_for_each_model(self) -> None:
        calls: list[int] = []
        model = self.CASE.classifier()
        handle = self.CASE.net.register_forward_pre_hook(lambda *_: calls.append(1))
        try:
            with model.ready():
                for n in (1, 1, 4):
                    linearise(model, self.CASE.x.expand(n, *self.CASE.x.shape), record=True).gradient()
                    calls.append(0)
        finally:
            handle.remove()
        first, *rest = "".join(map(str, calls)).split("0")[:3]
        assert rest == ["1", "1"]
        assert len(first) <= 3

    def test_another_path_through_the_network_is_checked_anew(self) -> None:
        def net(x: Tensor) -> Tensor:
            x = x.relu() if float(x.detach().sum()) > 0 else x.clamp(-3, 0) * 2
            return x @ normal(4, 3, seed=1)

        model = ss.Classifier(net, input_shape=(4,))
        for seen, x in enumerate((normal(4).abs(), -normal(4).abs(), normal(4, seed=1).abs()), start=1):
            h = ss.input_hessian(model, x)
            torch.testing.assert_close(h.matmul(torch.eye(4)), gauss_newton(net, x), **TIGHT)
            assert model.facts.leaves_tapes
            assert len(model.facts.trusted_tapes) == min(seen, 2)

    def test_new_weights(self) -> None:
        net, x = lively(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), 0), normal(4)
        model = ss.Classifier(net, input_shape=(4,))
        ss.input_hessian(model, x)
        lively(net, 1)
        torch.testing.assert_close(ss.input_hessian(model, x).matmul(torch.eye(4)), gauss_newton(net, x), **TIGHT)
        assert model.facts.leaves_tapes
        assert len(model.facts.trusted_tapes) == 1


class TestLeftBehind:
    def test_after_an_error_of_the_network(self) -> None:
        def net(x: Tensor) -> Tensor:
            x.relu()
            raise ZeroDivisionError

        model = ss.Classifier(net, input_shape=(4,))
        with pytest.raises(ZeroDivisionError):
            recorded(model, normal(1, 4))
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_after_an_error_of_torch(self) -> None:
        model = ss.Classifier(lambda x: x.relu() @ torch.linalg.cholesky(-torch.eye(4)), input_shape=(4,))
        assert recorded(model, normal(1, 4)) is None
        assert torch._C._len_torch_dispatch_stack() == 0
        with pytest.raises(RuntimeError, match="cholesky"):
            ss.input_hessian(model, normal(4))

    def test_after_an_input_that_does_not_fit(self) -> None:
        model = ss.Classifier(lambda x: x.relu() @ torch.zeros(9, 2), input_shape=(4,))
        with pytest.raises(ss.ModelError, match="does not take a batch of shape"):
            recorded(model, normal(1, 4))
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_a_network_that_overwrites_its_input(self) -> None:
        x = normal(2, 4)
        before = x.clone()
        found = recorded(ss.Classifier(lambda z: z.mul_(2)[:, :3], input_shape=(4,)), x)
        assert torch.equal(x, before)
        if found is not None:
            assert torch.equal(
                found.transpose(torch.ones(1, 2, 3).double())[0, 0], torch.tensor([2.0, 2, 2, 0]).double()
            )

    def test_activations_are_forgotten(self) -> None:
        case = PIECEWISE_LINEAR[3]
        model = case.classifier()
        found = recorded(model, case.x[None])
        assert found is not None
        weights = {tensor.data_ptr() for tensor in model.weights()}
        for node in found.nodes:
            for tensor in node.step.tensors():
                small = tensor.ndim > 0 and tensor.numel() <= 8
                assert small or tensor.data_ptr() in weights or not tensor.is_floating_point()


class TestSeveralAtATime:
    CASE = PIECEWISE_LINEAR[4]

    @pytest.mark.parametrize("directions", [1, 2, 100])
    def test_products_and_factor(self, directions: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tape, "DIRECTIONS", directions)
        h = ss.input_hessian(self.CASE.classifier(), self.CASE.x)
        dense, factor = gauss_newton(self.CASE.net, self.CASE.x), h.factor()
        torch.testing.assert_close(h.matmul(torch.eye(75)), dense, **TIGHT)
        torch.testing.assert_close(factor @ factor.T, dense, **TIGHT)
        assert h.trace() == pytest.approx(float(dense.trace()), rel=1e-9)

    def test_rows_of_very_different_size(self) -> None:
        h = ss.input_hessian(self.CASE.classifier(), self.CASE.x)
        rows = normal(75, 3) * torch.tensor([1e-30, 0.0, 1e30])
        expected = gauss_newton(self.CASE.net, self.CASE.x) @ rows
        torch.testing.assert_close(h.matmul(rows) / 1e30, expected / 1e30, **TIGHT)
        torch.testing.assert_close(h.matmul(rows)[:, 0] * 1e30, expected[:, 0] * 1e30, **TIGHT)
        assert not h.matmul(rows)[:, 1].any()

    def test_within_the_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = self.CASE.classifier()
        for memory, directions in ((1, 1), (10**12, tape.DIRECTIONS)):
            monkeypatch.setattr(tape, "PASS_MEMORY", memory)
            found = recorded(model, self.CASE.x[None])
            assert found is not None
            assert found.directions == directions


class TestKeptTapes:
    """The average over noisy copies goes through the network once, as long as its tapes fit."""

    CASE = PIECEWISE_LINEAR[3]

    def averaged(self, passes: list[int]) -> Tensor:
        model = self.CASE.classifier()
        handle = self.CASE.net.register_forward_pre_hook(lambda _, args: passes.append(len(args[0])))
        try:
            with model.ready():
                linear = linearise(model, self.CASE.x[None], 0, record=True)
                passes.clear()
                average = AveragedHessian(linear, GaussNewton, Noise(5, 0.2, 4, 2))
                parts = [average.gradient[None], *(average.times_rows(normal(2, 72, seed=i)) for i in range(3))]
                return torch.cat(parts)
        finally:
            handle.remove()

    def test_one_pass_or_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        passes: list[int] = []
        expected = self.averaged(passes)
        assert passes == [2, 2, 1]
        model = self.CASE.classifier()
        with model.ready():
            one = linearise(model, self.CASE.x.expand(2, -1, -1, -1), record=True).jacobian.nbytes
        for room, seen in ((0, [2, 2, 1] * 4), (one, [2, 2, 1] + [2, 1] * 3), (2 * one, [2, 2, 1] + [1] * 3)):
            monkeypatch.setattr(averaged, "KEPT_MEMORY", room)
            torch.testing.assert_close(self.averaged(passes), expected, rtol=1e-12, atol=1e-14)
            assert passes == seen

    def test_out_of_memory_forgets_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        passes: list[int] = []
        expected = self.averaged(passes)
        right, failures = Tape.forward, [1]

        def cramped(self: Tape, v: Tensor) -> Tensor:
            if self.shape[0] == 2 and len(passes) == 3 and failures:
                failures.pop()
                raise torch.OutOfMemoryError("out of memory")
            return right(self, v)

        monkeypatch.setattr(Tape, "forward", cramped)
        torch.testing.assert_close(self.averaged(passes), expected, rtol=1e-12, atol=1e-14)
        assert passes == [2, 2, 1, 1, 1, 1, 1, 1]


def test_the_embedded_network() -> None:
    model = ss.load_model()
    x = model.tensor(ss.example_photograph())
    generator = torch.Generator().manual_seed(0)
    v, u = torch.randn(x.numel(), generator=generator).double(), torch.randn(1, 1000, generator=generator).double()
    with model.ready():
        linear, twin = linearise(model, x[None], record=True), linearise(model, x[None])
        ours, theirs = linear.jacobian, twin.jacobian
        assert isinstance(ours, TapeJacobian)
        torch.testing.assert_close(ours.logits, theirs.logits)
        for found, expected in (
            (ours.jvp(v[None, None]), theirs.jvp(v[None, None])),
            (linear.mean_vjp(u), twin.mean_vjp(u)),
            (linear.gradient(), twin.gradient()),
            (ours.jvp(torch.stack([v, -2 * v])[:, None])[1], -2 * theirs.jvp(v[None, None])[0]),
        ):
            assert float((found - expected).norm()) <= 1e-4 * float(expected.norm())
        assert ours.nbytes - x.nbytes < graph_bytes(model, x) / 4


def test_only_products_ask_for_a_tape() -> None:
    """Two passes for a gradient; one for each noisy copy, however many products follow."""
    case, passes = PIECEWISE_LINEAR[3], list[int]()
    handle = case.net.register_forward_pre_hook(lambda _, args: passes.append(len(args[0])))
    try:
        for method, options, most in (("cafo", {}, 2), ("smooth-caso", {"n": 6, "batch_size": 2}, 6 + 4)):
            model = case.classifier()
            for _ in range(2):
                passes.clear()
                e = ss.explain(model, case.x, method_of(method, **options))
                assert (not model.facts.trusted_tapes) == (method == "cafo")
            assert sum(passes) <= most
            assert isinstance(e, ss.SecondOrderExplanation) == (method == "smooth-caso")
            assert not isinstance(e, ss.SecondOrderExplanation) or e.products > 1
    finally:
        handle.remove()


class TestRecordingsThatFail:
    """A network is recorded again after an input that left no tape, but not for ever."""

    class Sorts(nn.Module):
        """Sorts its features if it is told to, which no rule describes."""

        sorts = True

        def forward(self, x: Tensor) -> Tensor:
            return (x.sort(1).values if self.sorts else x)[:, :3].relu()

    x = torch.tensor([3.0, 1.0, 2.0, 4.0])

    def test_one_input_costs_the_others_nothing(self) -> None:
        net = self.Sorts()
        model = ss.Classifier(net, input_shape=(4,))
        assert any("sort" in note for note in ss.explain(model, self.x).notes)
        net.sorts = False
        assert not any("sort" in note for note in ss.explain(model, self.x).notes)
        assert model.facts.leaves_tapes

    def test_after_several_the_network_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = ss.Classifier(self.Sorts(), input_shape=(4,))
        recorded: list[Tensor] = []
        record = linearisation.record_tape
        monkeypatch.setattr(linearisation, "record_tape", lambda *a, **k: recorded.append(a[1]) or record(*a, **k))
        for _ in range(RECORDINGS + 2):
            e = ss.explain(model, self.x)
            assert any("sort" in note for note in e.notes)
        assert len(recorded) == RECORDINGS
