"""What people do to networks: weights that change, labels that are numbers, several labels at a time."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import secondsight as ss


@pytest.mark.parametrize("change", ["in place", "data", "load_state_dict"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_float32_copy_follows_the_weights(dtype: torch.dtype, change: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
    model, x = ss.Classifier(net, input_shape=(6,)), torch.rand(6)
    before = ss.explain(model, x, "cafo", target=0).delta
    if change == "in place":
        with torch.no_grad():
            net[0].weight.neg_()
    elif change == "data":
        # Torch does not count this change.
        net[0].weight.data.neg_()
    else:
        net.load_state_dict({name: -value for name, value in net.state_dict().items()})
    after = ss.explain(model, x, "cafo", target=0).delta
    fresh = ss.explain(ss.Classifier(net, input_shape=(6,)), x, "cafo", target=0).delta
    assert torch.equal(after, fresh)
    assert not torch.equal(after, before)
    assert net[0].weight.dtype == dtype


def test_labels_that_are_numbers() -> None:
    """A number is an index. A string is a label if there is one of that name, else an index."""
    model = ss.Classifier(nn.Linear(4, 3), input_shape=(4,), labels=["2", "0", "seven"])
    asked = {0: 0, 2: 2, "2": 0, " 0 ": 1, "1": 1, "seven": 2}
    assert {target: model.target_index(target, 3) for target in asked} == asked
    for wrong in ("3", "-1", "eight", 3, -1):
        with pytest.raises(ss.InputError, match="target must be"):
            model.target_index(wrong, 3)
    digits = ss.Classifier(nn.Linear(4, 10), input_shape=(4,), labels=[str(9 - i) for i in range(10)])
    e = ss.explain(digits, torch.rand(4), target="9")
    assert (e.target, e.label) == (0, "9")
    assert ss.explain(digits, torch.rand(4), target=9).label == "0"


def test_a_sigmoid_at_the_end_is_warned_of_once() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid())
    model = ss.Classifier(net, input_shape=(4,))
    with pytest.warns(ss.SecondsightWarning, match="several labels at a time"):
        first = ss.explain(model, torch.rand(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = ss.explain(model, torch.rand(4))
    for e in (first, second):
        assert any("wrap the network so that it returns [0, the logit" in note for note in e.notes)


def test_a_configuration_that_says_multi_label_is_believed() -> None:
    net = nn.Linear(4, 3)
    net.config = SimpleNamespace(problem_type="multi_label_classification")
    with pytest.warns(ss.SecondsightWarning, match="several labels at a time"):
        ss.explain(ss.Classifier(net, input_shape=(4,)), torch.rand(4))
    net.config.problem_type = "single_label_classification"
    notes = ss.explain(ss.Classifier(net, input_shape=(4,)), torch.rand(4)).notes
    assert not any("several labels" in note for note in notes)
