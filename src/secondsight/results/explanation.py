"""The result: a map, the proof of its optimality, the path it was chosen from, and what was asked."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from secondsight.errors import InputError, SecondsightError
from secondsight.optim.certificate import Support
from secondsight.optim.penalties import penalty_of
from secondsight.plotting.figures import STRIP_COLUMNS, Panel, Row, bars_figure, maps_figure, overlay, picture, png
from secondsight.plotting.shades import normalise

FORMAT = 2
"""Version of the NPZ files: raised whenever older files cannot be read any more."""

BoundBasis = Literal["estimated", "proven"]
"""What a bound of the largest eigenvalue rests on."""

NAMES = {
    "gradient": "Gradient",
    "smoothgrad": "SmoothGrad",
    "integrated-gradients": "Integrated Gradients",
    "cafo": "CAFO",
    "caso": "CASO",
    "smooth-cafo": "SmoothCAFO",
    "smooth-caso": "SmoothCASO",
}
"""The methods as figures call them."""


@dataclass(frozen=True)
class EigenvalueBound:
    """An upper bound of the Hessian's largest eigenvalue, and what it rests on."""

    value: float
    basis: BoundBasis

    def __float__(self) -> float:
        """The bound itself."""
        return self.value


@dataclass(frozen=True)
class SecondOrder:
    """Does second order matter? Degrees between CAFO and CASO at lambda1 = 0 and equal lambda2; 0 is no difference.

    Attributes:
        angle: in degrees.
        error: a bound of the error of `angle`.
        sentence: both in words.
    """

    angle: float
    error: float
    sentence: str

    @classmethod
    def of(cls, method: str, angle: float, error: float) -> SecondOrder:
        """Put an angle and its error into words."""
        if error > max(5, angle / 2):
            verdict = "Whether second order matters for this input was not settled"
        elif angle < 5:
            verdict = "Second order hardly matters for this input"
        elif angle < 20:
            verdict = "Second order matters somewhat for this input"
        else:
            verdict = "Second order matters for this input"
        within = f" (to within {error:.1f})" if error > 1 else ""
        first, second = NAMES[method.replace("caso", "cafo")], NAMES[method]
        sentence = f"{verdict}: without sparsity, {second} and {first} point {angle:.1f} degrees apart{within}."
        return cls(angle, error, sentence)


@dataclass(frozen=True)
class PathPoint:
    """The map at one lambda1.

    Attributes:
        lambda1: the penalty.
        sparsity: share of zero pixels or groups.
        objective: by the exact product where the point is certified, else a lower bound of it.
        relative_gap: certified gap over |objective|; None where no exact product was taken at this map.
        delta: the map.
    """

    lambda1: float
    sparsity: float
    objective: float
    relative_gap: float | None
    delta: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which input features the decision hangs on.

    For CAFO, CASO and their smooth versions `delta` is the perturbation that raises the loss of the target class most,
    under the penalties: where it is positive, increasing that feature works *against* the class; where it is negative,
    decreasing it does. For gradient, SmoothGrad and Integrated Gradients it is Captum's attribution of the score, where
    with score="logit" positive speaks *for* the class; what has to do with penalties is None there, and `path` empty.
    Maps live in the space of the input (pixels in [0, 1] for pictures). Tensors are on the CPU.

    Attributes:
        input: what was explained.
        delta: its map, of the same shape.
        target: index of the explained class.
        label: its name.
        probability: that the network gives it.
        method: by its name.
        sparsity: share of pixels that are zero in all channels; with groups, the share of zero groups.
        gradient: that of the loss; averaged over the noisy copies for the smooth versions.
        lambda1: the chosen penalty.
        lambda1_max: the smallest whose map is all zero.
        lambda2: the weight of |D|^2: L/2 + c1 (for cafo: c1), or what was asked for. A note says if it was raised.
        gap: proven distance from the optimal objective.
        relative_gap: gap over |objective|.
        certified: False, or what the proof rests on: "estimated" or "proven" largest eigenvalue.
        support: which zeros and non-zeros of the *optimal* map are proven.
        products: exact Hessian products used.
        curvature: "gauss-newton", "exact", or None for the methods of first order.
        top_eigenvalue: the L that lambda2 was set from.
        top_eigenvalue_bound: the bound of L that the certificate uses.
        path: maps by falling lambda1.
        second_order: does second order matter? None for the methods of first order.
        groups: the number of each entry's group; None where every entry stands by itself.
        settings: what was asked, with defaults filled in.
        notes: what a reader should know.
        seconds: wall time it took; in a batch, that of the batch over the number of its inputs.
    """

    input: Tensor = field(repr=False)
    delta: Tensor = field(repr=False)
    target: int
    label: str
    probability: float
    method: str
    sparsity: float
    settings: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...]
    gradient: Tensor | None = field(default=None, repr=False)
    lambda1: float | None = None
    lambda1_max: float | None = None
    lambda2: float | None = None
    gap: float | None = None
    relative_gap: float | None = None
    certified: Literal[False, "estimated", "proven"] | None = None
    support: Support | None = field(default=None, repr=False)
    products: int | None = None
    curvature: str | None = None
    top_eigenvalue: float | None = None
    top_eigenvalue_bound: EigenvalueBound | None = None
    path: tuple[PathPoint, ...] = field(default=(), repr=False)
    second_order: SecondOrder | None = None
    groups: Tensor | None = field(default=None, repr=False)
    seconds: float = 0.0

    def map(self) -> NDArray[np.float64]:
        """Turn the map into shades: 2-D, in [0, 1] (appendix D of the paper)."""
        return normalise(self.delta.numpy())

    def summary(self) -> dict[str, Any]:
        """List everything but the arrays, ready for JSON."""
        bound, second = self.top_eigenvalue_bound, self.second_order
        return {
            "model": self.settings.get("model"),
            "target": self.target,
            "label": self.label,
            "probability": self.probability,
            "method": self.method,
            "lambda1": self.lambda1,
            "lambda1_max": self.lambda1_max,
            "lambda2": self.lambda2,
            "sparsity": self.sparsity,
            "groups": None if self.groups is None else int(self.groups.max()) + 1,
            "gap": _finite(self.gap),
            "relative_gap": _finite(self.relative_gap),
            "certified": self.certified,
            "products": self.products,
            "curvature": self.curvature,
            "top_eigenvalue": self.top_eigenvalue,
            "top_eigenvalue_bound": None if bound is None else bound.value,
            "top_eigenvalue_basis": None if bound is None else bound.basis,
            "second_order_angle": None if second is None else second.angle,
            "second_order_error": None if second is None else second.error,
            "second_order": None if second is None else second.sentence,
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def cafo(self) -> Tensor:
        """Compute the CAFO map at this explanation's lambda1 and lambda2: the map without the second-order term."""
        if self.gradient is None or self.lambda1 is None or self.lambda2 is None:
            raise SecondsightError(f"{NAMES[self.method]} has no penalties that CAFO could share")
        kept = (
            penalty_of(self.groups).threshold(self.gradient.double().flatten(), self.lambda1).reshape(self.delta.shape)
        )
        delta = (kept / (2 * self.lambda2)).to(self.delta.dtype)
        return delta * self.input if self.settings["times_input"] else delta

    def figure(self) -> Figure:
        """Draw the input, the map (for CASO beside CAFO at the same penalties), an overlay, and the path of lambda1."""
        title = self._title()
        if self.delta.ndim != 3:
            against = bool(self.path) or self.settings["score"] == "loss"
            axes = (
                "feature",
                f"{'delta' if self.path else 'score'} (positive: {'against' if against else 'for'} the class)",
            )
            return bars_figure(
                f"{title}, {NAMES[self.method]}", self.delta.double().flatten().numpy(), axes, bool(against)
            )
        return maps_figure(title, [Row(self._panels(), len(self._panels()), fontsize=10), *self._strip()])

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        return png(self.figure())

    def _title(self) -> str:
        name, title = self.settings.get("model"), f"{self.label}, p = {self.probability:.3g}"
        return f"{name}: {title}" if name else title

    def _panels(self) -> list[Panel]:
        seen, shades = picture(self.input.numpy()), self.map()
        panels = [Panel(seen, "input")]
        if self.method.endswith("caso"):
            first = NAMES[self.method.replace("caso", "cafo")]
            panels.append(Panel(normalise(self.cafo().numpy()), f"{first}, same penalties"))
        return [*panels, Panel(shades, self._caption()), Panel(overlay(seen, shades), "overlay")]

    def _strip(self) -> list[Row]:
        panels = [
            Panel(
                normalise(point.delta.numpy()),
                f"lambda1 = {point.lambda1:.2g}\n{point.sparsity:.2%} zero",
                point.lambda1 == self.lambda1,
            )
            for point in self.path
        ]
        return [Row(panels[i : i + STRIP_COLUMNS], STRIP_COLUMNS) for i in range(0, len(panels), STRIP_COLUMNS)]

    def _caption(self) -> str:
        name = NAMES[self.method]
        return f"{name}, {self.sparsity:.0%} zero, {self.proof}" if self.proof else name

    @property
    def proof(self) -> str:
        """The certificate in a word or two; empty where the method has none."""
        if self.certified is None:
            return ""
        if not self.certified:
            return "not certified"
        return f"gap {self.relative_gap:.0e}" if self.gap else "exact"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure (.png) or everything (.npz). Nothing half-written is ever left under that name."""
        path = Path(path)
        if path.suffix.lower() == ".png":
            save_figure(self.figure(), path)
        elif path.suffix.lower() == ".npz":
            arrays = self._arrays()
            write_whole(path, lambda file: np.savez_compressed(file, **arrays))
        else:
            raise InputError("path", "a name that ends in .png or .npz", repr(str(path)))

    def _arrays(self) -> dict[str, Any]:
        record = self.summary() | {
            "format": FORMAT,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "second_order": None if self.second_order is None else asdict(self.second_order),
            "settings": self.settings,
            "path": [[p.lambda1, p.sparsity, p.objective, p.relative_gap] for p in self.path],
        }
        support = self.support
        arrays = {
            "input": self.input,
            "delta": self.delta,
            "gradient": self.gradient,
            "groups": self.groups,
            "support_nonzero": None if support is None else support.nonzero,
            "support_zero": None if support is None else support.zero,
            "path_deltas": torch.stack([point.delta for point in self.path]) if self.path else None,
        }
        # Numbers of numpy are not JSON.
        text = np.array(json.dumps(record, default=lambda number: number.item()))
        return {"record": text} | {name: array.numpy() for name, array in arrays.items() if array is not None}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Explanation:
        """Read what `save("x.npz")` wrote."""
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                record = json.loads(str(arrays["record"]))
                if record["format"] != FORMAT:
                    raise SecondsightError(f"{path} has format {record['format']}; this version reads format {FORMAT}")
                return cls._from(
                    record, {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "record"}
                )
        except FileNotFoundError:
            raise SecondsightError(f"{path} does not exist") from None
        except SecondsightError:
            raise
        except Exception as error:
            # Damaged bytes may raise anything on their way through zip, numpy and JSON.
            why = " ".join(str(error).split())
            raise SecondsightError(f"{path} is no explanation saved by secondsight ({why})") from None

    @classmethod
    def _from(cls, record: dict[str, Any], arrays: dict[str, Tensor]) -> Explanation:
        bound = record["top_eigenvalue_bound"]
        second = record["second_order"]
        penalised = record["lambda1"] is not None
        scalars = (
            "target label probability method lambda1 lambda1_max lambda2 sparsity gap relative_gap certified "
            "products curvature top_eigenvalue seconds"
        )
        return cls(
            **{name: record[name] for name in scalars.split()},
            input=arrays["input"],
            delta=arrays["delta"],
            gradient=arrays["gradient"] if penalised else None,
            groups=None if record["groups"] is None else arrays["groups"],
            support=Support(arrays["support_nonzero"], arrays["support_zero"]) if penalised else None,
            top_eigenvalue_bound=None if bound is None else EigenvalueBound(bound, record["top_eigenvalue_basis"]),
            path=tuple(
                PathPoint(lambda1, sparsity, objective, relative_gap, delta)
                for (lambda1, sparsity, objective, relative_gap), delta in zip(
                    record["path"], arrays["path_deltas"] if penalised else (), strict=True
                )
            ),
            second_order=None if second is None else SecondOrder(**second),
            # JSON has no tuples.
            settings={name: tuple(v) if isinstance(v, list) else v for name, v in record["settings"].items()},
            notes=tuple(record["notes"]),
        )


def demo_figure(smooth: Explanation, plain: Explanation) -> Figure:
    """The smooth maps of a picture above the plain ones, and the smooth ones along lambda1."""
    first, second = smooth._panels(), plain._panels()
    rows = [Row(first, len(first), fontsize=10), Row([None, *second[1:]], len(first), fontsize=10)]
    return maps_figure(smooth._title(), [*rows, *smooth._strip()])


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG."""
    if path.suffix.lower() != ".png":
        raise InputError("path", "a name that ends in .png", repr(str(path)))
    picture_file = png(figure)
    write_whole(path, lambda file: file.write(picture_file))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write under a temporary name and rename, so that a reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            write(file)
        temporary.replace(path)
    except OSError as error:
        raise SecondsightError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def zero_share(delta: Tensor, groups: Tensor | None = None) -> float:
    """Sparsity eta: zero groups / groups. Without groups, a pixel's channels count as one, and other entries singly."""
    if groups is not None:
        empty = torch.ones(int(groups.max()) + 1, dtype=torch.bool)
        empty[groups[delta != 0]] = False
        return float(empty.double().mean())
    sizes = delta.abs().amax(0) if delta.ndim == 3 else delta
    # Booleans are counted faster than floats.
    return 1 - int(sizes.bool().count_nonzero()) / sizes.numel()


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
