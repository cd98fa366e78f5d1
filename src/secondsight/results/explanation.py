"""The results: a map and what was explained; for penalised methods also the certificate and the path of lambda1.

Results only hold values. Other files of this folder make files, figures and sentences of them, and the methods here
call those. The `limits` of a field are for stored results: `record_schema.py` refuses a file that exceeds them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from secondsight.config import CAFO, CASO, Method
from secondsight.errors import Caution
from secondsight.groups import window_side, zero_share
from secondsight.results.certificate import Certificate
from secondsight.results.field_limits import limits

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Smoothing:
    """How many noisy copies of the input were averaged, and the standard error that is left.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph(), ss.SmoothCAFO(n=4, groups="patch:16"))
        >>> e.smoothing.copies, 0 < e.smoothing.standard_error < 1
        (4, True)

    Attributes:
        copies: how many noisy copies were averaged.
        standard_error: how far the norms of the groups of the averaged gradient (without groups, its entries) would
            move with other noise, as a share of their length: a jackknife over pairs of copies. None for fewer than
            four copies.
    """

    copies: int = field(metadata=limits(1))
    standard_error: float | None = field(metadata=limits(0, math.inf, nan=True))


MapKind: TypeAlias = Literal["entries", "groups"]
"""What one shade of a drawn map stands for."""


@dataclass(frozen=True)
class SecondOrder:
    """Does second order matter? Degrees between CAFO and CASO at lambda1 = 0 and equal lambda2; 0 is no difference.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph())
        >>> 5 < e.second_order.angle < 20, e.second_order.sentence[:29]
        (True, 'Second order matters somewhat')

    Attributes:
        angle: between the two maps, in degrees.
        error: a bound of the error of `angle`, in degrees.
        sentence: the angle and its error in words.
    """

    angle: float = field(metadata=limits(0, 180, nan=True))
    error: float = field(metadata=limits(0, 180, nan=True))
    sentence: str


@dataclass(frozen=True)
class PathPoint:
    """The map at one lambda1.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph(), "cafo")
        >>> len(e.path), e.path[0].lambda1 < e.lambda1_max, e.path[0].sparsity > e.path[-1].sparsity
        (16, True, True)

    Attributes:
        lambda1: the weight of the penalty.
        sparsity: share of zero pixels or groups.
        objective: a lower bound of the objective at the map. It comes from the exact product where one was taken at
            this map, else from what is known of H. What rounding may have added is subtracted. For a Hessian that may
            be indefinite, the bound rests on the same estimate as the certificate.
        relative_gap: certified gap over |objective|; None where no exact product was taken at this map.
        delta: the map.
        window_norms: as in `SparseExplanation`.
    """

    lambda1: float = field(metadata=limits(0, math.inf))
    sparsity: float = field(metadata=limits(0, 1))
    objective: float = field(metadata=limits(-math.inf, math.inf, nan=True))
    relative_gap: float | None = field(metadata=limits(0, math.inf, nan=True))
    delta: Tensor = field(repr=False)
    window_norms: Tensor | None = field(repr=False, default=None, metadata=limits(array="pixels"))


class FieldSource(Protocol):
    """Reads the fields of a stored result that are left in its file until they are asked for."""

    def read(self, name: str) -> Any:
        """Read a field.

        Raises:
            NotStoredError: if it was not stored, or cannot be read any more.
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Which input features the decision hangs on: what every method gives.

    For `Gradient`, `SmoothGrad` and `IntegratedGradients` `delta` is Captum's attribution of the score, where with
    score="logit" positive speaks *for* the class. `SparseExplanation` says what it is for the other methods. Maps live
    in the space of the input (pixels in [0, 1] for pictures). Tensors are on the CPU.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph(), "gradient")
        >>> e.label, tuple(e.delta.shape), e.map().shape
        ('tiger cat', (3, 224, 224), (224, 224))

    Attributes:
        input: what was explained.
        delta: its map, of the same shape.
        target: index of the explained class.
        label: name of the explained class.
        probability: what the network gives the explained class.
        prediction: index of the class that the network predicts.
        model: the name of the network.
        method: the config that was asked for. Where it said c1="auto", it has the c1 that this stood for.
        seed: of all random numbers.
        sparsity: share of pixels that are zero in all channels; with groups, the share of zero groups.
        notes: what a reader should know.
        seconds: wall time in seconds; for several inputs in one call, the mean over them.
    """

    input: Tensor = field(repr=False, metadata=limits(array="input"))
    delta: Tensor = field(repr=False)
    target: int = field(metadata=limits(0))
    label: str
    probability: float = field(metadata=limits(0, 1))
    prediction: int = field(metadata=limits(0))
    model: str
    method: Method
    seed: int = field(metadata=limits(0, 2**63 - 1))
    sparsity: float = field(metadata=limits(0, 1))
    notes: tuple[str | Caution, ...]
    seconds: float = field(default=0.0, metadata=limits(0))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read a field that was left in the file of this result, or say which methods have a field of this name."""
            source = self.__dict__.get("_source")
            if source is not None and name in {one.name for one in fields(self)}:
                # A frozen result still keeps what was read.
                self.__dict__[name] = source.read(name)
                return self.__dict__[name]
            owners = {
                SparseExplanation: "cafo, caso, smooth-cafo, smooth-caso, picture",
                PictureExplanation: "caso, smooth-caso, picture",
                SecondOrderExplanation: "caso, smooth-caso",
            }
            for kind, methods in owners.items():
                if name in kind.__annotations__ and name != "method":
                    raise AttributeError(f"the result of {self.method.name} has no {name}: only {methods} have one")
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @classmethod
    def from_source(cls, known: dict[str, Any], source: FieldSource) -> Self:
        """Make a result of the fields that are known. `source` reads the others when they are asked for."""
        e = object.__new__(cls)
        e.__dict__.update(known, _source=source)
        return e

    @property
    def zero_pixels(self) -> float:
        """The share of pixels that are zero in all channels, whatever the groups; of entries, if this is no picture."""
        return zero_share(self.delta)

    def map(self, kind: MapKind | None = None) -> NDArray[np.float64]:
        """Turn the map into shades, as figures show them (appendix D of the paper).

        Args:
            kind: "entries" shades each pixel by the sum of its absolute values. "groups" shades each group by its norm,
                one shade for all of its pixels; with windows a pixel has the mean norm of its windows. None: by groups
                where there are any.

        Returns:
            An array of two dimensions with values in [0, 1].

        Raises:
            InputError: if `kind` is another word, or "groups" for a map without groups or multiplied by the input.
        """
        from secondsight.plotting.shades import normalise
        from secondsight.results.strengths import strengths

        return normalise(strengths(self, kind))

    def summary(self) -> dict[str, Any]:
        """List everything but the arrays, ready for JSON.

        Returns:
            A record of numbers, words and lists.
        """
        from secondsight.results.summary import summary

        return summary(self)

    def figure(self, kind: MapKind | None = None, blur: float = 0.0) -> Figure:
        """Draw the input, the map (for CASO beside CAFO at the same penalties), an overlay, and maps along lambda1.

        The map of an input that is no picture is drawn as bars.

        Args:
            kind: what a shade stands for, as for `map`.
            blur: blur maps by a Gaussian of this many pixels. The figure says so, because the certificate speaks of the
                map as it is.

        Returns:
            A figure of matplotlib.

        Raises:
            InputError: if `kind` or `blur` cannot be used for this map.
        """
        from secondsight.results.explanation_figure import explanation_figure

        return explanation_figure(self, kind, blur)

    def _repr_html_(self) -> str:
        """Return the viewer, which a notebook shows."""
        from secondsight.viewer.notebook import frame
        from secondsight.viewer.page import Tab

        return frame([Tab(self)])

    def _repr_png_(self) -> bytes:
        """Return the figure as a picture, for notebooks that show no HTML."""
        from secondsight.plotting.figures import png

        return png(self.figure())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure (.png), a page with a slider over lambda1 (.html), or everything (.npz).

        Nothing half-written is ever left under that name.

        Args:
            path: the name of the file. Its ending says what is written.

        Raises:
            InputError: if the name has another ending.
            SecondsightError: if the file cannot be written.
        """
        from secondsight.results.storage import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Explanation:
        """Read what `save("x.npz")` wrote. No pickle is involved, so a file cannot run code.

        Args:
            path: the name of the file.

        Returns:
            A result of the class that was saved.

        Raises:
            SecondsightError: if the file cannot be read as a result.
        """
        from secondsight.results.storage import load

        return load(path)


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseExplanation(Explanation):
    """What the penalised methods give: the best map under a penalty, with its certificate and the path of lambda1.

    `delta` is the perturbation that raises the loss of the target class most, under the penalties: where it is
    positive, increasing that feature works *against* the class; where it is negative, decreasing it does.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph(), "cafo")
        >>> e.certificate.basis, e.lambda1 < e.lambda1_max, 0.75 <= e.sparsity < 1
        ('exact', True, True)

    Attributes:
        certificate: how near the map is to the best one, and what proves it.
        gradient: that of the loss; averaged over the noisy copies for the smooth versions.
        lambda1: the chosen weight of the penalty.
        lambda1_max: the smallest lambda1 whose map is all zero.
        lambda2: the weight of |D|^2: L/2 + c1 (for CAFO: c1), or what was asked for. A note says if it was raised.
        path: maps by falling lambda1.
        groups: the number of each entry's group; None where every entry stands by itself, or groups are windows.
        window_norms: with `groups="window:N"`, for each pixel the mean norm of the windows that contain it: zero where
            all of them are. None without windows.
        smoothing: of the smooth methods, the number of copies and their standard error; None for the others.
    """

    method: CAFO
    certificate: Certificate
    gradient: Tensor = field(repr=False)
    lambda1: float = field(metadata=limits(0, math.inf))
    lambda1_max: float = field(metadata=limits(0, math.inf))
    lambda2: float = field(metadata=limits(0, math.inf))
    path: tuple[PathPoint, ...] = field(repr=False)
    groups: Tensor | None = field(repr=False, metadata=limits(array="labels"))
    window_norms: Tensor | None = field(repr=False, default=None, metadata=limits(array="pixels"))
    smoothing: Smoothing | None = None

    @property
    def window(self) -> int | None:
        """The side of the windows in pixels; None: there are no windows."""
        return window_side(self.method.groups, self.delta.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class PictureExplanation(SparseExplanation):
    """What Picture gives: also whether second order matters.

    Example:
        >>> import secondsight as ss
        >>> p = ss.explain(ss.load_model(), ss.example_photograph(), ss.Picture(n=4))
        >>> p.window, p.second_order.sentence[:29]
        (8, 'Second order matters somewhat')

    Attributes:
        second_order: does second order matter at the input itself, without noise? Computed as for CASO.
    """

    second_order: SecondOrder


@dataclass(frozen=True, eq=False, kw_only=True)
class SecondOrderExplanation(SparseExplanation):
    """What CASO and SmoothCASO give: also what was found out about the Hessian.

    Example:
        >>> import secondsight as ss
        >>> e = ss.explain(ss.load_model(), ss.example_photograph())
        >>> e.curvature, e.products < 20, abs(e.lambda2 - e.top_eigenvalue / 2 - 10) < 1e-6
        ('gauss-newton', True, True)

    Attributes:
        second_order: does second order matter?
        products: the number of exact Hessian products that were taken.
        curvature: "gauss-newton" or "exact".
        top_eigenvalue: the L that lambda2 was set from.
        ritz_values: what the products showed of the Hessian's spectrum, rising: numbers between its extreme
            eigenvalues, one for each vector of the solver's basis.
    """

    method: CASO
    second_order: SecondOrder
    products: int = field(metadata=limits(0))
    curvature: str = field(metadata=limits(words=("gauss-newton", "exact")))
    top_eigenvalue: float = field(metadata=limits(0, math.inf))
    ritz_values: tuple[float, ...] = field(repr=False, metadata=limits(-math.inf, math.inf, nan=True))
