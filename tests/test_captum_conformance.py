"""Captum's own generic cases (captum.testing), with our classes in the place of its gradient method."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from torch import Tensor, nn

from secondsight.captum import CAFO, CASO, SmoothCAFO, SmoothCASO

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::secondsight.errors.SecondsightWarning"),
]
cases = pytest.importorskip("captum.testing.attr.helpers.test_config")
CONFIGS = [copy.deepcopy(config) for config in cases.config if Saliency in config["algorithms"]]
for noisy in (config["attribute_args"] for config in CONFIGS if config.get("noise_tunnel")):
    # Of copies without noise, three say as much as twenty.
    noisy["nt_samples"] = 3
OURS = [CAFO, CASO, SmoothCAFO, SmoothCASO]
each = pytest.mark.parametrize("config", CONFIGS, ids=[config["name"] for config in CONFIGS])
by_each = pytest.mark.parametrize("ours", OURS, ids=[ours.__name__ for ours in OURS])


def test_there_are_cases() -> None:
    assert len(CONFIGS) >= 10
    assert any(config.get("noise_tunnel") for config in CONFIGS)


def attribution(ours: Any, net: nn.Module, config: dict[str, Any]) -> Any:
    """The networks of the cases have equal weights for all classes, so lambda1 = 0 keeps what gradient there is."""
    made = ours(net, lambda1=0.0, **({"n": 3} if ours in (SmoothCAFO, SmoothCASO) else {}))
    return NoiseTunnel(made) if config.get("noise_tunnel") else made


def lively(net: nn.Module) -> nn.Module:
    """The network with other weights, for its maps not to be zero."""
    net = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(0)
    for weights in net.parameters():
        weights.data = torch.randn(weights.shape, generator=generator)
    return net


def rows(value: Any, i: int) -> Any:
    if isinstance(value, tuple):
        return tuple(rows(one, i) for one in value)
    return value[i : i + 1] if isinstance(value, Tensor) else value


def close(found: Any, expected: Any) -> None:
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * max(1.0, float(other.abs().max())))


@each
@by_each
def test_targets(config: dict[str, Any], ours: Any) -> None:
    """An example of a batch gets what it gets alone, its target as it is or in a list of one."""
    args, net = copy.deepcopy(config["attribute_args"]), lively(config["model"])
    target = args.pop("target")
    method = attribution(ours, net, config)
    together = method.attribute(**args, target=target)
    inputs = args["inputs"]
    count = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    for i in range(count):
        own = {name: rows(value, i) for name, value in args.items()}
        each_has_one = isinstance(target, (list, Tensor)) and len(target) == count
        for one in (target[i], target[i : i + 1]) if each_has_one else (target,):
            close(rows(together, i), method.attribute(**own, target=one))


@each
@by_each
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong-target"])
def test_no_hooks_are_left(config: dict[str, Any], ours: Any, wrong: bool) -> None:
    args, net = copy.deepcopy(config["attribute_args"]), lively(config["model"])
    method = attribution(ours, net, config)
    if wrong:
        with pytest.raises(AssertionError):
            method.attribute(**args | {"target": (9999,) * 20})
    else:
        method.attribute(**args)
    for module in net.modules():
        assert not module._forward_hooks
        assert not module._backward_hooks
        assert not module._forward_pre_hooks


@each
@pytest.mark.parametrize("ours", [CAFO, CASO], ids=["CAFO", "CASO"])
@pytest.mark.parametrize("wrap", ["script", "trace", "data-parallel"])
def test_wrapped_networks(config: dict[str, Any], ours: Any, wrap: str) -> None:
    args, net = copy.deepcopy(config["attribute_args"]), lively(config["model"])
    extra = args.get("additional_forward_args", ())
    inputs = (*(args["inputs"] if isinstance(args["inputs"], tuple) else (args["inputs"],)), *extra)
    if wrap == "trace":
        if any(not isinstance(one, Tensor) for one in inputs):
            pytest.skip("only tensors can be traced")
        wrapped: Any = torch.jit.trace(net, inputs)
    else:
        wrapped = torch.jit.script(net) if wrap == "script" else nn.DataParallel(net)
    close(attribution(ours, wrapped, config).attribute(**args), attribution(ours, net, config).attribute(**args))
