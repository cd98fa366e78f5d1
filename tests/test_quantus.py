"""Real metrics of Quantus over our maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import secondsight as ss
from cases import lively
from secondsight.captum import CASO
from secondsight.quantus import explain_func

quantus = pytest.importorskip("quantus")

pytestmark = pytest.mark.filterwarnings("ignore")


def network() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(6 * 16, 5))
    return lively(net, 3).float()


def batch() -> tuple[np.ndarray, np.ndarray]:
    x = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    return x.numpy(), network()(x).argmax(1).numpy()


@pytest.mark.parametrize("method", ["cafo", "caso", "smooth-cafo", "smooth-caso"])
def test_maps_are_those_of_the_captum_classes(method: str) -> None:
    x, y = batch()
    maps = explain_func(network(), x, y, method=f"{method}(n=3)" if "smooth" in method else method)
    assert maps.shape == x.shape
    assert maps.any()
    if method == "caso":
        assert np.array_equal(maps, CASO(network()).attribute(torch.from_numpy(x), target=list(map(int, y))).numpy())


@pytest.mark.parametrize(
    "metric",
    [
        lambda: quantus.Sparseness(disable_warnings=True),
        lambda: quantus.PixelFlipping(features_in_step=16, disable_warnings=True),
        lambda: quantus.MaxSensitivity(nr_samples=2, disable_warnings=True),
        lambda: quantus.RandomLogit(num_classes=5, seed=0, disable_warnings=True),
    ],
    ids=["Sparseness", "PixelFlipping", "MaxSensitivity", "RandomLogit"],
)
def test_metric(metric: Any) -> None:
    x, y = batch()
    scores = metric()(
        model=network(),
        x_batch=x,
        y_batch=y,
        explain_func=explain_func,
        explain_func_kwargs={"method": "caso", "lambda1": 0.0},
        device="cpu",
    )
    assert len(scores) == len(x)
    assert np.isfinite(np.asarray(scores, dtype=float)).all()


def test_our_maps_are_sparser_than_the_gradient() -> None:
    x, y = batch()
    options: dict[str, Any] = {"model": network(), "x_batch": x, "y_batch": y, "device": "cpu"}
    sparse, dense = (
        np.mean(
            quantus.Sparseness(disable_warnings=True)(
                **options, explain_func=explain_func, explain_func_kwargs={"method": "cafo", "lambda1": lambda1}
            )
        )
        for lambda1 in ("auto", 0.0)
    )
    assert sparse > dense + 0.1


def test_the_sign_and_options_by_either_way() -> None:
    x, y = batch()
    maps = explain_func(network(), x, y, method="cafo(lambda1=10%)")
    assert np.array_equal(explain_func(network(), x, y, method=ss.CAFO(lambda1="10%"), sign="score"), -maps)
    assert np.array_equal(explain_func(network(), x, y, method="cafo", lambda1="10%"), maps)


@pytest.mark.parametrize("method", ["gradient", "picture"])
def test_other_methods_are_refused(method: str) -> None:
    x, y = batch()
    with pytest.raises(
        ss.InputError, match=f"method must be one of cafo, caso, smooth-cafo, smooth-caso, not '{method}'"
    ):
        explain_func(network(), x, y, method=method)
