"""What people do: odd networks, odd labels, odd files. Odd arguments are in test_odd_arguments.py."""

from __future__ import annotations

import copy
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import secondsight as ss
from cases import PIECEWISE_LINEAR, lively
from secondsight.model.images import FORMATS
from secondsight.operators.linearisation import linearise
from secondsight.zoo.weights import filled


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


class Sinh(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sinh(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_hessian_of_a_float32_copy_can_be_asked_again_and_again(dtype: torch.dtype) -> None:
    """Its graph holds the weights of the copy, which nothing may write to in between."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), Sinh(), nn.Linear(4, 3)).to(dtype)
    h, whole = (
        ss.input_hessian(ss.Classifier(one, input_shape=(6,)), X, 0) for one in (net, copy.deepcopy(net).float())
    )
    assert h.kind == "exact"
    for _ in range(2):
        torch.testing.assert_close(h.matmul(X), whole.matmul(X))
        torch.testing.assert_close(h.eigh(2)[0], whole.eigh(2)[0])


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


class TokensAfterNorm(nn.Module):
    """Turns a picture into tokens right after a norm, and perhaps tokens into a picture right before it."""

    def __init__(self, norm: nn.Module, from_tokens: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 4, 3), norm, nn.Linear(4, 5)
        self.from_tokens = from_tokens

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if self.from_tokens:
            y = y.flatten(2).transpose(1, 2).sin().transpose(1, 2).reshape(y.shape)
        y = self.norm(y).flatten(2).transpose(1, 2)
        return self.last(y.sigmoid()).mean(1)


NORMS = {"batch": nn.BatchNorm2d(4), "instance": nn.InstanceNorm2d(4, affine=True)}


@pytest.mark.parametrize("from_tokens", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_a_single_input(norm: str, from_tokens: bool) -> None:
    """Torch's own gradient is wrong there, for a batch of one input and not for two: both are compared."""
    net = lively(TokensAfterNorm(copy.deepcopy(NORMS[norm]), from_tokens), 0)
    x = torch.rand(3, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    twice = torch.stack([x, x]).requires_grad_()
    target = int(net(twice)[0].argmax())
    wanted = torch.autograd.grad(nn.functional.cross_entropy(net(twice)[:1], torch.tensor([target])), twice)[0][0]
    model = ss.Classifier(net, size=(6, 5))
    for record in (False, True):
        with model.ready():
            linear = linearise(model, x[None], record=record)
            found = linear.gradient().reshape(x.shape)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
        assert linear.jacobian.shareable == (record and norm == "batch" and not from_tokens)


def test_hooks_on_norms_are_taken_away() -> None:
    net = lively(TokensAfterNorm(nn.BatchNorm2d(4), False), 0)
    model = ss.Classifier(net, size=(6, 5))
    net.last = nn.Linear(3, 5)
    with pytest.raises(RuntimeError, match="batch2"):
        ss.explain(model, torch.rand(3, 6, 5), "cafo")
    assert not net.norm._forward_hooks
    assert not net.norm._forward_pre_hooks


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


class InPlace(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x -= 0.5
        return super().forward(x)


class TwoArguments(nn.Linear):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * mask


def weight_normed() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 3))).to(torch.bfloat16)
    net(torch.rand(1, 6).bfloat16())
    return net


def frozen() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.freeze(torch.jit.script(nn.Linear(6, 3).eval()))


ODD = {
    "frozen": (frozen, "frozen by torch.jit.freeze, which leaves no module to set up: give it as it was before"),
    "lazy": (lambda: nn.LazyLinear(3), "do not know their sizes yet .* run it once on a batch"),
    "old weight_norm in bf16": (weight_normed, r"call \.float\(\) on it first, or remove its weight_norm"),
    "in place": (lambda: InPlace(6, 3), "changes its input in place: write x = x - 0.5 instead of x -= 0.5"),
    "two arguments": (lambda: TwoArguments(6, 3), "'mask'.*: wrap it in a function of the batch alone"),
    "another shape": (lambda: nn.Linear(7, 3), r"does not take a batch of shape \(1, 6\): mat1 and mat2"),
}


@pytest.mark.parametrize("method", ["caso", "cafo", "smooth-cafo(n=2)", "gradient"])
@pytest.mark.parametrize("name", ODD)
def test_networks_that_cannot_run_say_what_to_do(name: str, method: str) -> None:
    make, message = ODD[name]
    x = torch.rand(6)
    kept = x.clone()
    with pytest.raises(ss.ModelError, match=message) as refusal:
        ss.explain(ss.Classifier(make(), input_shape=(6,)), x, method)
    assert "\n" not in str(refusal.value)
    assert torch.equal(x, kept)


def test_an_error_of_the_network_itself_is_shown_as_it_is() -> None:
    class Broken(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ss.explain(ss.Classifier(Broken(6, 3), input_shape=(6,)), torch.rand(6))


def linear() -> ss.Classifier:
    return ss.Classifier(nn.Linear(6, 3), input_shape=(6,))


X = torch.rand(6)


@pytest.mark.parametrize(
    "odd", [X.to_sparse(), X.to("meta"), X.half(), X.bfloat16()], ids=["sparse", "meta", "half", "bf16"]
)
def test_odd_tensors(odd: torch.Tensor) -> None:
    if odd.is_meta or odd.is_sparse:
        with pytest.raises(ss.InputError, match="the input must be a dense tensor with values"):
            ss.explain(linear(), odd)
    else:
        assert ss.explain(linear(), odd).input.dtype == torch.float32


@pytest.mark.parametrize("method", ["caso", "smooth-caso(n=2)", "gradient"])
def test_a_compiled_network_is_not_compiled_again(method: str) -> None:
    """What was compiled is used as it was before. The compiler here would fail."""

    def fail(*_: object) -> None:
        raise AssertionError("compiled")

    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    plain = ss.explain(ss.Classifier(net, input_shape=(6,)), X, method)
    for compiled in (torch.compile(net, backend=fail), torch.compile(lambda x: net(x), backend=fail)):
        e = ss.explain(ss.Classifier(compiled, input_shape=(6,)), X, method)
        assert torch.equal(e.delta, plain.delta)


def test_weights_that_are_whole_numbers_are_refused() -> None:
    net = nn.Linear(2, 2)
    weights = {"weight": torch.ones(2, 2, dtype=torch.int32), "bias": torch.zeros(2)}
    with pytest.raises(ss.ModelError, match=r"1 not of floats \(weight of int32\)"):
        filled(net, weights, "the file")


def test_a_file_that_unpacks_to_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    e = ss.explain(linear(), X, "cafo")
    e.save(tmp_path / "e.npz")
    size = (tmp_path / "e.npz").stat().st_size
    with (
        zipfile.ZipFile(tmp_path / "e.npz", "a", zipfile.ZIP_DEFLATED) as file,
        file.open("extra.npy", "w", force_zip64=True) as entry,
    ):
        np.lib.format.write_array_header_1_0(entry, {"descr": "|u1", "fortran_order": False, "shape": (2**30 + 1,)})
        for _ in range(1024):
            entry.write(bytes(2**20))
        entry.write(b"0")
    assert (tmp_path / "e.npz").stat().st_size < size + 2**21
    with pytest.raises(ss.SecondsightError, match="bytes, more than 1,073,741,824"):
        ss.Explanation.load(tmp_path / "e.npz")


def test_only_formats_on_the_list_are_opened_whatever_a_file_is_called(tmp_path: Path) -> None:
    """An EPS file would start Ghostscript."""
    picture = Image.new("RGB", (8, 8), (200, 10, 10))
    model = ss.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), size=8)
    for kind in ("EPS", "ICO", "TGA"):
        picture.save(tmp_path / "photo.jpg", format=kind)
        with pytest.raises(ss.ImageError, match="is not an image of a format that is opened: JPEG, PNG"):
            model.load(tmp_path / "photo.jpg")
    for kind in FORMATS:
        picture.save(tmp_path / "photo.xyz", format=kind)
        assert model.load(tmp_path / "photo.xyz").shape == (3, 8, 8)


@pytest.mark.parametrize("resize", [None, 20])
def test_a_picture_of_the_networks_size_is_not_cropped(resize: int | None, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    model = ss.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(768, 3)), size=16, resize=resize)
    seen = model.load(tmp_path / "photo.png")
    assert torch.equal(seen, torch.from_numpy(pixels).permute(2, 0, 1).float() / 255)
    by_file, by_tensor = (ss.explain(model, x, "cafo") for x in (tmp_path / "photo.png", seen))
    assert torch.equal(by_file.delta, by_tensor.delta)
