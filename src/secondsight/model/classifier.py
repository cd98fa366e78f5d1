"""A user's network made safe to explain: it is called with pixels, returns logits, and is put back as it was."""

from __future__ import annotations

import copy
import difflib
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from secondsight.errors import InputError, ModelError, SecondsightWarning, shown
from secondsight.model import images
from secondsight.model.classifier_checks import (
    channels_of,
    height_and_width,
    is_length,
    label_of,
    lengths_of,
    per_channel,
    require_dense,
    why_no_logits,
)
from secondsight.model.failures import why_it_failed, why_not_usable
from secondsight.model.joined_inputs import HALF, JoinedInputs
from secondsight.model.network_facts import NetworkFacts
from secondsight.model.network_lock import locked, plain_attention
from secondsight.model.single_input_norms import right_gradients
from secondsight.option_types import flag, levels, plain, whole

Target = int | str | None
"""The class to explain: its index, its name, or None for the predicted one."""

Item = images.Photograph | Tensor | tuple[Tensor, ...] | images.Pixels
"""One input: a photograph, a tensor of floats, or a tuple of tensors for a network of several inputs. Or the
`Pixels` that `Classifier.read` returned."""


class Classifier:
    """A network that gives logits, with its preprocessing and class names.

    `net` maps a *normalised* batch to logits of shape (N, classes). The classifier itself is called with pixels in
    [0, 1], so every map lives in the space of the picture:

        logits = net((x - mean) / std)

    Args:
        net: a module, or any function of a batch. It is used in eval mode with frozen parameters and given back as it
            was. A half-precision module is copied and computed in float32.
        mean: what is subtracted from the input: a number, or one number per channel of a picture, or one per entry of
            the last axis of other inputs. None: nothing. A network of several inputs takes neither `mean` nor `std`.
        std: what the difference is divided by, given like `mean`. None: nothing.
        size: height and width in pixels of the pictures that the network takes, or one number for both. None: any size.
        labels: the class names, in the order of the class indices.
        input_shape: shape of one input of a network that does not take pictures (tabular, embeddings): any finite float
            is then allowed, and `size` and the arguments from `channels` to `value_range` do not apply. A list of
            shapes for a network of several inputs: `net` is called with one batch for each shape. Each input is then a
            tuple, and its map is flat, one part after the other (`split` takes it apart).
        channels: 1, 3 or 4; by default as many as `mean` or `std` has, else 3.
        resize: length in pixels of a photograph's shorter side before the centre crop of `size`. By default the crop
            has 0.875 of the height and of the width of the largest part of the photograph that has the shape of `size`.
            A photograph that already has `size` is not cropped.
        interpolation: bilinear, bicubic, lanczos or nearest.
        max_pixels: photographs of more pixels are refused before they are decoded.
        value_range: the grey levels that are black and white in photographs of more than 8 bits, such as (0, 4095) for
            data of 12 bits in files of 16. By default (0, 65535). It is (0, 255) for 32-bit whole numbers of which none
            is above 255, and (0, 1) for floating-point levels.
        name: shown in figures and tables; by default the name of the class of `net`.
        piecewise_linear: whether the logits are piecewise linear in the input. Your word is not checked. None: found
            out at each input from the operations that the network runs.

    Raises:
        InputError: if an argument cannot be used.
        ModelError: if the network cannot be explained as it is, such as one made in `torch.inference_mode`.

    Example:
        >>> model = Classifier(nn.Linear(4, 3), input_shape=(4,), labels=["setosa", "versicolor", "virginica"])
        >>> model(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
        >>> model.target_index("virginica", classes=3)
        2
    """

    def __init__(
        self,
        net: Callable[..., Tensor],
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        size: int | tuple[int, int] | None = None,
        labels: Sequence[str] | None = None,
        *,
        input_shape: Sequence[int] | Sequence[Sequence[int]] | None = None,
        channels: int | None = None,
        resize: int | None = None,
        interpolation: str = "bilinear",
        max_pixels: int = images.MAX_PIXELS,
        value_range: tuple[float, float] | None = None,
        name: str | None = None,
        piecewise_linear: bool | None = None,
    ) -> None:
        """Check the arguments. The network itself is not run."""
        if not callable(net) or isinstance(net, type):
            raise InputError("net", "a torch.nn.Module or a function of a batch", shown(net))
        if not isinstance(interpolation, str) or interpolation not in images.FILTERS:
            raise InputError("interpolation", f"one of {', '.join(images.FILTERS)}", shown(interpolation))
        self.net = net
        net = _uncompiled(net)
        if name is not None and not isinstance(name, str):
            raise InputError("name", "a text", shown(name))
        self.name = name or type(net).__name__
        labels = plain(labels)
        if labels is not None and (isinstance(labels, (str, bytes, Tensor)) or not isinstance(labels, Iterable)):
            raise InputError("labels", "a list of names", shown(labels))
        self.labels = None if labels is None else [label_of(label) for label in labels]
        self.notes: list[str] = []
        self.takes_pictures = input_shape is None
        self._joined = _joined(net, input_shape)
        if self._joined is not None:
            net, input_shape = self._joined, (self._joined.size,)
            if mean is not None or std is not None:
                raise InputError("mean and std", "None for a network of several inputs", shown((mean, std)))
        shape: Any = input_shape
        features = None if shape is None else lengths_of("input_shape", shape, "positive whole numbers")
        self.mean = per_channel("mean", mean, features)
        self.std = per_channel("std", std, features)
        if self.std is not None and not bool((self.std > 0).all()):
            raise InputError("std", "positive", std)
        self.channels = channels_of(channels, self.mean, self.std) if self.takes_pictures else 0
        self.size = None if size is None else height_and_width(size)
        self.resize = resize
        if resize is not None:
            (self.resize,) = lengths_of("resize", [resize], "a positive whole number")
        self.interpolation = interpolation
        self.max_pixels = whole(1)("max_pixels", max_pixels)
        self.value_range = levels("value_range", value_range)
        # None stands for "any length".
        self.input_shape: tuple[int | None, ...]
        if features is not None:
            self.input_shape = features
        else:
            self.input_shape = (self.channels, *(self.size or (None, None)))
        # The network that computes: the user's own, or a copy in float32.
        self._original = net
        self.computed = self._in_computing_precision(net)
        known = None if piecewise_linear is None else flag("piecewise_linear", piecewise_linear)
        self.facts = NetworkFacts(piecewise_linear=known)

    def _in_computing_precision(self, net: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        tensors = list(_tensors(net))
        refusal = why_not_usable(net, tensors)
        if refusal is not None:
            raise ModelError(refusal)
        half = next((tensor.dtype for tensor in tensors if tensor.dtype in HALF), None)
        if half is None or not isinstance(net, nn.Module):
            return net
        self.notes.append(f"the {half} network was computed in float32")
        try:
            return copy.deepcopy(net).float()
        except RuntimeError as error:
            # The old weight_norm keeps weights that were computed, which torch does not copy.
            why = "the network cannot be copied to float32: call .float() on it first, or remove its weight_norm"
            raise ModelError(why) from error

    def _copy_weights(self) -> None:
        """Bring a float32 copy up to date, because the weights of the user's network may have changed."""
        if self.computed is not self._original:
            with torch.no_grad():
                for own, original in zip(_tensors(self.computed), _tensors(self._original), strict=True):
                    # Only changed tensors are written: autograd refuses to go back through a graph, such as that of
                    # an InputHessian, after one of its tensors was written to.
                    if not torch.equal(own, original.to(own)):
                        own.copy_(original)

    def __repr__(self) -> str:
        """Name the network and the shape of its inputs."""
        shape = "x".join("any" if n is None else str(n) for n in self.input_shape)
        return f"Classifier({self.name}, input {shape})"

    @property
    def device(self) -> torch.device:
        """The device of the network's weights. The CPU for a function, whose weights are not known."""
        tensor = _first_float(self.computed)
        return torch.device("cpu") if tensor is None else tensor.device

    def weights(self) -> list[Tensor]:
        """List the parameters and buffers of the network that computes. Empty for a function."""
        return list(_tensors(self.computed))

    def __call__(self, x: Tensor) -> Tensor:
        """Compute the logits of a batch of inputs. Pixels may lie outside [0, 1], as those of noisy copies do.

        Args:
            x: inputs with a batch dimension.

        Returns:
            Logits of shape (N, classes).

        Raises:
            InputError: if the batch does not fit the network.
            ModelError: if the network cannot run, or gives no logits.
        """
        with self.ready():
            batch = self.batch(x, any_pixels=True)
            with self.telling_failures(batch, last=True):
                return self.logits(batch)

    def load(self, photograph: images.Photograph) -> Tensor:
        """Read a photograph, scaled and cropped as this network wants it.

        Args:
            photograph: a path or a PIL image.

        Returns:
            Pixels in [0, 1], of shape (C, H, W).

        Raises:
            ImageError: if the photograph cannot be read as a picture.
            InputError: if this network takes no pictures.
        """
        return self._picture(photograph).values

    def _picture(self, photograph: images.Photograph) -> images.Pixels:
        if not self.takes_pictures:
            raise InputError(
                "photograph",
                f"a tensor of shape {self.input_shape}, because this network takes no pictures",
                photograph,
            )
        return self.picture_reader().read(photograph)

    def picture_reader(self) -> images.PictureReader:
        """Make the reader that scales and crops photographs for this network."""
        return images.PictureReader(
            self.channels, self.size, self.resize, self.interpolation, self.max_pixels, self.value_range
        )

    def require_pictures(self) -> None:
        """Raise InputError unless the inputs, and so the maps, have the three dimensions (C, H, W) of a picture."""
        if len(self.input_shape) != 3:
            raise InputError("model", "a network of pictures (C, H, W) for this", f"{self.name} of {self.input_shape}")

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Prepare the network for explanations, and restore all settings at the end, also after an error.

        Inside, the network is in eval mode with frozen parameters. Gradients are enabled. Autocast and fused attention
        are off. One thread at a time can prepare a network. The others wait.
        """
        with locked(self._original), self._set_up():
            yield

    @contextmanager
    def _set_up(self) -> Iterator[None]:
        net = self.computed
        self._copy_weights()
        modules = list(net.modules()) if isinstance(net, nn.Module) else []
        modes = [module.training for module in modules]
        parameters = list(net.parameters()) if isinstance(net, nn.Module) else []
        wanted = [parameter.requires_grad for parameter in parameters]
        try:
            for module in modules:
                module.training = False
            for parameter in parameters:
                parameter.requires_grad_(False)
            with (
                plain_attention(),
                right_gradients(modules),
                torch.inference_mode(False),
                torch.enable_grad(),
                torch.autocast(self.device.type, enabled=False),
            ):
                yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode
            for parameter, want in zip(parameters, wanted, strict=True):
                parameter.requires_grad_(want)

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits of a batch as `batch` returns it, without checks. For use inside `ready()`."""
        if self.mean is not None:
            x = x - self.mean.to(x.dtype).to(x.device)
        if self.std is not None:
            x = x / self.std.to(x.dtype).to(x.device)
        with self.telling_failures(x):
            return self.computed(x)

    @contextmanager
    def telling_failures(self, x: Tensor, last: bool = False) -> Iterator[None]:
        """Turn errors of a network that cannot run into a ModelError that says what to do.

        Args:
            x: the batch that the network is given.
            last: whether no other way to run the network will be tried. If so, or if the network never ran before, an
                error about shapes is also turned into a ModelError.
        """
        try:
            yield
        except (TypeError, RuntimeError) as error:
            refusal = why_it_failed(error, self.net, x, first=last or not self.facts.outputs_checked)
            if refusal is None:
                raise
            raise ModelError(refusal) from error

    def read(self, item: Item) -> images.Pixels:
        """Turn one input into a checked tensor as `tensor` does, and keep the notes on what was lost of a photograph.

        `explain` accepts the result as an input.
        """
        if isinstance(item, (str, Path, Image.Image, images.EncodedPicture)) or hasattr(item, "__fspath__"):
            item = self._picture(item)
        notes = item.notes if isinstance(item, images.Pixels) else ()
        return images.Pixels(self.tensor(item.values if isinstance(item, images.Pixels) else item), notes)

    def tensor(self, item: Item) -> Tensor:
        """Turn one input of any kind into a checked tensor on the network's device, without batch dimension.

        Raises:
            InputError: if the input does not fit the network.
            ImageError: if a photograph cannot be read as a picture.
        """
        if isinstance(item, tuple):
            item = self._one_of_parts(item)
        if isinstance(item, Tensor):
            require_dense("the input", item)
            if not self._fits(item.shape):
                raise InputError("the input", f"of shape {self._shape_text()}", f"of shape {tuple(item.shape)}")
            # A copy, because a network may change its input in place.
            return self.batch(item[None])[0].clone()
        if isinstance(item, (str, Path, Image.Image, images.EncodedPicture, images.Pixels)) or hasattr(
            item, "__fspath__"
        ):
            return self.read(item).values
        raise InputError("the input", "a path, a PIL image or a float tensor", f"a {type(item).__name__}")

    def _one_of_parts(self, parts: tuple[Tensor, ...]) -> Tensor:
        if self._joined is None:
            may_be = "one tensor for this network (a tuple is one input of several parts; several inputs are a list)"
            raise InputError("the input", may_be, f"a tuple of {len(parts)}")
        return self._joined.join(parts)

    @property
    def parts(self) -> int:
        """The number of tensors that make one input."""
        return 1 if self._joined is None else len(self._joined.shapes)

    def is_batch(self, x: Tensor) -> bool:
        """Whether a tensor has one dimension more than an input, or than the first part of an input of several."""
        return isinstance(x, Tensor) and x.ndim == 1 + len(
            self.input_shape if self._joined is None else self._joined.shapes[0]
        )

    def split(self, delta: Tensor) -> tuple[Tensor, ...]:
        """Take a flat map (or input) apart into the parts of a network of several inputs.

        Args:
            delta: the map, as `e.delta` has it.

        Returns:
            Its parts, in the shapes of `input_shape`. For a network of one input a tuple of the map alone.

        Raises:
            InputError: if `delta` does not have the shape of a map.
        """
        require_dense("delta", delta)
        if self._joined is None:
            return (delta,)
        if delta.shape != (self._joined.size,):
            raise InputError("delta", f"of shape ({self._joined.size},)", f"of shape {tuple(delta.shape)}")
        return tuple(part[0] for part in self._joined.split(delta[None]))

    def batch(self, x: Tensor, any_pixels: bool = False) -> Tensor:
        """Check a batch for shape, type and values, and bring it to the network's device and precision.

        For a function, the batch stays on its device. It becomes float32, unless it is float64.

        Args:
            x: the batch.
            any_pixels: accept pixels outside [0, 1], such as those of noisy copies.

        Raises:
            InputError: if the batch does not fit the network.
        """
        require_dense("the input", x)
        if not self._fits(x.shape[1:]):
            wanted = f"a batch of shape (N, {self._shape_text()[1:]}"
            raise InputError("the input", wanted, f"of shape {tuple(x.shape)}")
        if x.numel() == 0:
            raise InputError("the input", "at least one number", f"empty, of shape {tuple(x.shape)}")
        if not x.is_floating_point():
            hint = ": divide by 255" if x.dtype == torch.uint8 else ""
            raise InputError("the input", "a tensor of floats", f"of {x.dtype}{hint}")
        weights = _first_float(self.computed)
        if weights is not None:
            x = x.to(weights)
        elif x.dtype != torch.float64:
            x = x.float()
        if not bool(torch.isfinite(x).all()):
            raise InputError("the input", f"finite in {x.dtype}", "a tensor with NaN or infinite entries")
        if self.takes_pictures and not flag("any_pixels", any_pixels) and (x.min() < 0 or x.max() > 1):
            raise InputError(
                "pixels",
                "in [0, 1], before normalisation (mean and std belong to the Classifier)",
                f"in [{x.min():.3g}, {x.max():.3g}]",
            )
        return x

    def _fits(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.input_shape) and all(
            want in (None, n) for want, n in zip(self.input_shape, shape, strict=True)
        )

    def check_logits(self, logits: Tensor, inputs: int = 1) -> None:
        """Check what the network returned.

        Warn, once for a network, if its outputs look like probabilities or like several labels at a time.

        Args:
            logits: what the network returned.
            inputs: the number of inputs in the batch.

        Raises:
            ModelError: unless `logits` are finite, with a row for each input, at least two columns, and as many columns
                as there are labels.
        """
        what = why_no_logits(logits, inputs)
        if what is not None:
            raise ModelError(
                f"the network must return logits of shape (N, classes) with two classes or more, not {what}"
            )
        if not bool(torch.isfinite(logits).all()):
            raise ModelError("the network returned NaN or infinite logits for this input")
        if self.facts.outputs_checked:
            return
        classes = logits.shape[1]
        if self.labels is not None and len(self.labels) != classes:
            raise ModelError(f"the network has {classes} classes but {len(self.labels)} labels were given")
        self.facts.outputs_checked = True
        if bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() < 1e-4).all()):
            note = (
                "the network's outputs are non-negative and sum to one: they look like probabilities, "
                "but logits are needed. Remove its last softmax; the map below explains a softmax of a softmax"
            )
            self.notes.append(note)
            warnings.warn(note, SecondsightWarning, stacklevel=2)
        elif _is_multi_label(self.net):
            note = (
                "the network seems to give several labels at a time, but its outputs are taken for classes, of which "
                "one is true. To explain one label, wrap the network so that it returns [0, the logit of that label]"
            )
            self.notes.append(note)
            warnings.warn(note, SecondsightWarning, stacklevel=2)

    def target_index(self, target: int | str, classes: int) -> int:
        """Find the class index that a user's index or class name stands for.

        A number is an index. A string is a label if the model has that label, else an index if it is made of digits.
        In labels, case does not matter, and an underscore counts as a space.

        Args:
            target: the index or the name.
            classes: the number of classes.

        Raises:
            InputError: if there is no such class, or if several classes share the name.
        """
        is_label = isinstance(target, str) and _plain(target) in map(_plain, self.labels or [])
        if isinstance(target, str) and (is_label or not re.fullmatch(r"-?\d+", target.strip())):
            return self._named_target(target)
        try:
            index = int(target) if isinstance(target, str) else operator.index(target)
        except (TypeError, ValueError, RuntimeError):
            index = -1
        if isinstance(target, bool) or not 0 <= index < whole(1)("classes", classes):
            raise InputError("target", f"a class index from 0 to {classes - 1} or a class name", shown(target))
        return index

    def _named_target(self, name: str) -> int:
        if self.labels is None:
            raise InputError("target", "a class index, because this model has no labels", repr(name))
        wanted = _plain(name)
        plain = [_plain(label) for label in self.labels]
        found = [i for i, label in enumerate(plain) if label == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                "target", f"one of the indices {', '.join(map(str, found))}, which share that name", repr(name)
            )
        near = difflib.get_close_matches(wanted, plain, n=3, cutoff=0.5)
        near += [label for label in plain if wanted in label and label not in near][:3]
        hint = f" (near: {', '.join(near)})" if near else ""
        raise InputError("target", f"a class index or one of the model's labels{hint}", repr(name))

    def label(self, index: int) -> str:
        """Return the name of a class, or its index as text if there are no labels."""
        index = whole(0, None if self.labels is None else len(self.labels) - 1)("index", index)
        return str(index) if self.labels is None else self.labels[index]

    def _shape_text(self) -> str:
        names = ("C", "H", "W")
        return "(" + ", ".join(names[i] if n is None else str(n) for i, n in enumerate(self.input_shape)) + ")"


def require_classifier(model: object) -> None:
    """Raise InputError unless this is a Classifier."""
    if not isinstance(model, Classifier):
        may_be = "a Classifier, as from ss.Classifier(net) or ss.load_model(name)"
        raise InputError("model", may_be, f"a {type(model).__name__}")


def _joined(net: Callable[..., Tensor], input_shape: Any) -> JoinedInputs | None:
    """Wrap a network of several inputs as a network of one. None: `input_shape` is not a list of shapes."""
    shapes = plain(input_shape)
    if not isinstance(shapes, tuple) or not any(isinstance(shape, tuple) for shape in shapes):
        return None
    if not all(isinstance(shape, tuple) and all(map(is_length, shape)) for shape in shapes):
        raise InputError("input_shape", "a shape or a list of shapes", shown(input_shape))
    return JoinedInputs(net, shapes)


def _uncompiled(net: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the network that torch.compile was given, because explaining would compile it again and again."""
    original: Callable[..., Tensor] = getattr(net, "_orig_mod", getattr(net, "_torchdynamo_orig_callable", net))
    return original


def _is_multi_label(net: object) -> bool:
    """Whether the last layer is a sigmoid, or the network's `config` (of transformers) says multi-label."""
    last = list(net.modules())[-1] if isinstance(net, nn.Module) else None
    problem = getattr(getattr(net, "config", None), "problem_type", None)
    return isinstance(last, nn.Sigmoid) or problem == "multi_label_classification"


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", " ")


def _tensors(net: object) -> Iterator[Tensor]:
    return itertools.chain(net.parameters(), net.buffers()) if isinstance(net, nn.Module) else iter(())


def _first_float(net: object) -> Tensor | None:
    return next((tensor for tensor in _tensors(net) if tensor.is_floating_point()), None)
