"""What people do to networks: weights that change, labels that are numbers, several labels at a time."""

from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import secondsight as ss
from cases import PIECEWISE_LINEAR


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


class Mixing(nn.Module):
    """Batch norm without running statistics: each input has a say in the logits of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        # A batch of one has no variance.
        return self.last(torch.relu(self.norm(torch.cat([h, torch.zeros_like(h[:1])]))[: len(h)]))


@pytest.mark.parametrize(
    "method",
    [
        "smooth-cafo(n=6)",
        "smooth-caso(n=6)",
        "smoothgrad(n=6)",
        "integrated-gradients(n_steps=6)",
        "picture(n=6,groups=none)",
    ],
)
def test_a_network_that_mixes_its_inputs_gets_them_one_at_a_time(method: str) -> None:
    torch.manual_seed(0)
    model, x = ss.Classifier(Mixing(), input_shape=(6,)), torch.rand(6)
    whole = ss.explain(model, x, method)
    assert any("mixes the inputs of a batch" in note for note in whole.notes)
    for size in (1, 2, 6):
        config = ss.Method.from_string(method).with_options(batch_size=size)
        torch.testing.assert_close(ss.explain(model, x, config).delta, whole.delta, rtol=1e-5, atol=1e-7)
    plain = ss.Classifier(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), input_shape=(6,))
    assert not any("mixes" in note for note in ss.explain(plain, x, method).notes)


METHODS = (
    "caso",
    "cafo",
    "smooth-caso(n=3)",
    "smooth-cafo(n=3)",
    "gradient",
    "smoothgrad(n=3)",
    "integrated-gradients",
)


@pytest.mark.parametrize("method", METHODS)
def test_torch_defaults_change_nothing(method: str) -> None:
    """Neither the default type nor the default device, also not one that has no numbers."""
    case = PIECEWISE_LINEAR[3]
    net, x = copy.deepcopy(case.net).float(), case.x.float()
    usual = ss.explain(ss.Classifier(net), x, method)
    torch.set_default_dtype(torch.float64)
    try:
        other = ss.explain(ss.Classifier(net), x, method)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        meta = ss.explain(ss.Classifier(net), x, method)
        meta.figure()
    for e in (other, meta):
        assert torch.equal(e.delta, usual.delta)


@pytest.mark.parametrize("groups", ["patch:2", "window:2", "superpixels:4"])
def test_groups_and_bounds_on_the_meta_device(groups: str) -> None:
    case = PIECEWISE_LINEAR[3]
    usual = ss.explain(case.classifier(), case.x, ss.CASO(groups=groups))
    with torch.device("meta"):
        model = case.classifier()
        assert torch.equal(ss.explain(model, case.x, ss.CASO(groups=groups)).delta, usual.delta)
        for bound in ("estimated", "probable", "proven"):
            assert ss.explain(model, case.x, ss.CASO(bound=bound)).certificate.basis == bound
        values, _ = ss.input_hessian(model, case.x).eigh(2)
        assert len(ss.explain(model, [case.x, 1 - case.x])) == 2
    assert float(values[0]) > 0
