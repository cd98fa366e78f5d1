"""The methods as small configs. A config owns the options of its method: their defaults, their checks, their words.

>>> CASO(c1=1, groups="pixel")
CASO(c1=1.0, groups='pixel')
>>> str(CASO(c1=1, groups="pixel")), Method.from_string("caso(c1=1,groups=pixel)") == CASO(c1=1, groups="pixel")
('caso(c1=1.0,groups=pixel)', True)
>>> Gradient(tolerance=0.1)
Traceback (most recent call last):
secondsight.errors.InputError: tolerance must be an option of caso, smooth-caso, not of gradient
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from secondsight.errors import InputError, shown
from secondsight.option_types import (
    Option,
    Value,
    distance_from_edge,
    flag,
    group_labels_or_word,
    literal,
    number,
    one_of,
    option,
    plain,
    share,
    share_range,
    sparsity_weight,
    split_outside,
    whole,
    whole_or_auto,
    word,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    Groups = str | tuple[Value, ...] | Tensor | NDArray[np.integer] | None

PAPER_C1 = 10.0
"""The paper's c1, half the "lambda2 threshold" of 20 in its tables. It belongs to pixels in [0, 1]."""

RELATIVE_C1 = "0.25L"
"""The c1 of inputs that have units of their own. It scales with them, and is small enough for the curvature to show."""

MOST_COPIES = 10**6
"""The largest n. The error of an average of n copies falls like 1 / sqrt(n): more copies change nothing to the eye."""

MOST_STEPS = 5000
"""The largest n_steps. Captum places the steps by a matrix of n_steps x n_steps numbers: 200 MB for 5,000."""

MOST_POINTS = 1000
"""The most maps that a path may have: 1,000 maps of a photograph of 224 x 224 pixels take 600 MB of memory."""

WIDTH = 120
"""The most characters in a line of help."""

SIGMA = 0.15
"""Standard deviation of the paper's noise, as a share of the range of the input."""

GROUPS_METAVAR = "none|pixel|patch:SIDE|window:SIDE|superpixels|FILE.npy"
"""What `groups` takes on the command line."""

TIMES_INPUT = (
    "Multiply the map by the input. The paper argues against it (appendix D): it sharpens pictures, but dark pixels "
    "cannot show then, whatever they do to the decision."
)
"""The help for `times_input`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Method:
    """The base of all configs.

    A config is frozen. Two configs with the same options are equal. `repr` writes Python that can be pasted, and `str`
    the short string that `from_string` and the command line read.

    Attributes:
        name: the method in one word, as strings and the command line have it.
        title: the method as figures call it.

    Example:
        >>> method = CASO(c1=1, groups="pixel")
        >>> print(repr(method), str(method))
        CASO(c1=1.0, groups='pixel') caso(c1=1.0,groups=pixel)
        >>> Method.from_string(str(method)) == method == Method.from_json(method.to_json())
        True
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def __new__(cls, /, *args: Any, **options: Any) -> Self:
        """Refuse options that the method does not have, and say which methods have them."""
        for given in options:
            if given not in cls.options():
                raise _refusal(given, cls)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check every option, and bring it into its normal form."""
        for name, one in self.options().items():
            object.__setattr__(self, name, one.check(name, getattr(self, name)))

    @classmethod
    def options(cls) -> dict[str, Option]:
        """List the options of the method.

        Returns:
            For each name its declaration, with the check, the help and what it takes.
        """
        return {field.name: field.metadata["option"] for field in fields(cls)}

    def changed(self) -> dict[str, Any]:
        """List the options that differ from their defaults.

        Returns:
            Their values by their names.
        """
        usual = type(self)()
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {k: value for k, (value, raw) in values.items() if value not in (raw, getattr(usual, k))}

    def __repr__(self) -> str:
        """Write the config as Python, to be pasted."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"

    def __str__(self) -> str:
        """Write the config as a short string, which `from_string` and the command line read."""
        changed = ",".join(f"{name}={word(value)}" for name, value in self.changed().items())
        return f"{self.name}({changed})" if changed else self.name

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Read a short string: the name of a method, alone or with options.

        Args:
            text: such as "caso" or "caso(c1=1,groups=pixel)".

        Returns:
            The config.

        Raises:
            InputError: if there is no such method, or it has no such option or value.
        """
        found = (
            re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text, flags=re.DOTALL) if isinstance(text, str) else None
        )
        if found is None:
            raise InputError(
                "method", f"one of {', '.join(METHODS)}, perhaps with options as in caso(c1=1)", shown(text)
            )
        options = {}
        for part in split_outside(found[2] or ""):
            name, equals, value = part.partition("=")
            if not equals or name.strip() in options:
                raise InputError("method", "NAME(OPTION=VALUE,OPTION=VALUE), each option once", shown(text))
            options[name.strip()] = literal(value)
        return cls._of_this_kind(class_of(found[1])(**options))

    def to_json(self) -> str:
        """Write the method and all of its options as JSON, for `from_json`.

        Returns:
            The text.
        """
        return json.dumps({"method": self.name} | {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Args:
            text: the JSON.

        Returns:
            The config.

        Raises:
            InputError: if it is not the JSON of a config.
        """
        try:
            options = json.loads(text)
            name = options.pop("method")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InputError("method", "the JSON of a config", shown(text)) from None
        return cls._of_this_kind(class_of(name)(**{key: plain(value) for key, value in options.items()}))

    @classmethod
    def _of_this_kind(cls, method: Method) -> Self:
        if not isinstance(method, cls):
            raise InputError("method", cls.__name__, type(method).__name__)
        return method

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """List the default of each option.

        Returns:
            The defaults by the names of the options.
        """
        return {field.name: field.default for field in fields(cls)}

    @classmethod
    def help_text(cls, indent: int = 4) -> str:
        """Describe each option, as in the `Args:` of a docstring.

        Args:
            indent: spaces before each line.

        Returns:
            Lines with the name, the help and the default of each option.
        """
        indent, lines = whole(0, WIDTH // 2)("indent", indent), []
        for name, one in cls.options().items():
            default = one.default or repr(cls.defaults()[name])
            text = f"{name}: {one.help} Default: {default}."
            lines += textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))
        return "\n".join(lines)

    def has(self, name: str) -> bool:
        """Tell whether the method has an option of this name.

        Args:
            name: the name of an option, such as "lambda1".

        Returns:
            Whether it has one.
        """
        return isinstance(name, str) and name in self.options()

    def with_options(self, **options: Any) -> Self:
        """Change some options.

        Args:
            **options: their new values by their names.

        Returns:
            A new config; this one stays as it is.

        Raises:
            InputError: if the method has no such option, or the option no such value.
        """
        type(self).__new__(type(self), **options)
        return replace(self, **options)


def _batch_size(what: str) -> Any:
    """Declare how many copies or steps go through the network at a time."""
    help = f"How many {what} go through the network at a time; by default as many as fit into half a gigabyte."
    return option(None, whole(1, optional=True), help, "N", default="as fits")


@dataclass(frozen=True, kw_only=True, repr=False)
class Smooth(Method):
    """The options of methods that average over noisy copies of the input (definition 4 of the paper)."""

    n: int = option(50, whole(1, MOST_COPIES), "How many noisy copies of the input are averaged.", "N")
    sigma: float | None = option(
        None,
        number(0.0, inclusive=True, optional=True),
        "Standard deviation of the noise, as a share of the range (max - min) of the input.",
        default=str(SIGMA),
    )
    stdevs: float | None = option(
        None,
        number(0.0, inclusive=True, optional=True),
        "Standard deviation of the noise in the units of the input, instead of sigma.",
        default="none",
    )
    batch_size: int | None = _batch_size("copies")

    def __post_init__(self) -> None:
        """Refuse two strengths of the noise. Fill in sigma where none is given."""
        super().__post_init__()
        if self.sigma is not None and self.stdevs is not None:
            raise InputError("stdevs", "None beside sigma, which says the same in other units", self.stdevs)
        if self.sigma is None and self.stdevs is None:
            object.__setattr__(self, "sigma", SIGMA)

    def with_options(self, **options: Any) -> Self:
        """Change some options. One strength of the noise replaces the other."""
        for given, other in (("sigma", "stdevs"), ("stdevs", "sigma")):
            if options.get(given) is not None:
                options = {other: None} | options
        return super().with_options(**options)


@dataclass(frozen=True, kw_only=True, repr=False)
class Baseline(Method):
    """The options of Captum's methods, which maps are usually compared with. None has a penalty or a certificate."""

    score: str = option(
        "logit",
        one_of("logit", "loss"),
        "What is explained: the logit of the class, where positive speaks for it, or its loss.",
        "logit|loss",
    )
    times_input: bool = option(False, flag, TIMES_INPUT, "", default="false; integrated-gradients: true")


@dataclass(frozen=True, kw_only=True, repr=False)
class Gradient(Baseline):
    """The gradient of the class's logit, by Captum. With `score="loss"` that of its loss.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 2), input_shape=(4,))
        >>> e = ss.explain(model, torch.zeros(4), ss.Gradient(), target=1)
        >>> torch.allclose(e.delta, model.net.weight[1])
        True
    """

    name = "gradient"
    title = "Gradient"


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothGrad(Baseline, Smooth):
    """The gradient of the class's logit, averaged over noisy copies of the input, by Captum.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 2), input_shape=(4,))
        >>> ss.explain(model, torch.rand(4), ss.SmoothGrad(n=4, sigma=0.1)).delta.shape
        torch.Size([4])
    """

    name = "smoothgrad"
    title = "SmoothGrad"


@dataclass(frozen=True, kw_only=True, repr=False)
class IntegratedGradients(Baseline):
    """The gradient of the class's logit, averaged from the zero input to the input, times the input, by Captum.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 2, bias=False), input_shape=(4,))
        >>> x = torch.rand(4)
        >>> e = ss.explain(model, x, ss.IntegratedGradients(n_steps=10), target=1)
        >>> torch.allclose(e.delta.sum(), model(x[None])[0, 1])
        True
    """

    name = "integrated-gradients"
    title = "Integrated Gradients"

    n_steps: int = option(50, whole(1, MOST_STEPS), "How many steps lead from the zero input to the input.", "N")
    batch_size: int | None = _batch_size("steps")
    times_input: bool = option(True, flag, TIMES_INPUT, "", default="false; integrated-gradients: true")


@dataclass(frozen=True, kw_only=True, repr=False)
class CAFO(Method):
    r"""The sparse map of first order (definition 2 of the paper).

    $$
    \max_D\; g^\top D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    g is the gradient of the loss. The map has a closed form: lambda1 is subtracted from the absolute values of g, those
    below lambda1 become 0, and the rest is divided by 2 lambda2. So the certificate is exact. With groups, norms of
    groups take the place of absolute values.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 2), input_shape=(4,))
        >>> e = ss.explain(model, torch.rand(4), ss.CAFO(lambda1=0.0, c1=1.0))
        >>> torch.allclose(e.delta, e.gradient / 2)
        True
    """

    name = "cafo"
    title = "CAFO"

    lambda1: str | float | Sequence[float] = option(
        "auto",
        sparsity_weight,
        "How few features the map keeps: the larger, the fewer; 0 keeps all. auto stops where more features add "
        "little, along a path below lambda1_max; paper follows section 4.1 of the paper; 10% is a share of "
        "lambda1_max, the smallest lambda1 whose map is all zero; of several numbers, as in (0,0.01), the highest loss "
        "in sparsity_range wins.",
        "auto|paper|NUMBER|SHARE%",
    )
    c1: float | str = option(
        "auto",
        distance_from_edge,
        "How far lambda2 lies above L/2, where L is the Hessian's largest eigenvalue. Above L/2 there is one best map. "
        "Methods without a Hessian, such as cafo, take c1 itself as lambda2. If c1 is much larger than L/2, caso "
        "becomes cafo up to scale. 0.25L is relative to L; where L is 0 or not computed, to |g|^2. auto is the paper's "
        "10 for pictures in [0, 1], and 0.25L for inputs with units of their own.",
        "auto|NUMBER|NUMBERL",
    )
    lambda2: float | None = option(
        None,
        number(0.0, optional=True),
        "The weight of |D|^2 itself, instead of L/2 + c1. Refused where the objective would not be concave.",
        default="from c1",
    )
    groups: Groups = option(
        "none",
        group_labels_or_word,
        "Features that are zero or kept together: the channels of a pixel; squares of that side, in a grid (patch) or "
        "at every position (window); superpixels (SLIC, some 200; superpixels:500 for more); or those with the same "
        "whole number in an array of the input's shape.",
        GROUPS_METAVAR,
    )
    sparsity_range: tuple[float, float] = option(
        (0.75, 1.0),
        share_range,
        "The share of zero pixels (or groups) that a chosen map must have: low <= share < high. If no map has it, the "
        "nearest is chosen. A lambda1 of one NUMBER or SHARE% is taken whatever its share.",
        "(LOW,HIGH)",
    )
    path_points: int = option(16, whole(12, MOST_POINTS), "How many maps the path of lambda1 has.", "N")
    path_smallest: float | None = option(
        None,
        share("a share of lambda1_max", optional=True),
        "The last lambda1 of the path, as a share of lambda1_max; by default a hundredth, and with groups the share "
        "where cafo keeps three groups of four.",
        default="as fits",
    )
    times_input: bool = option(False, flag, TIMES_INPUT, "", default="false; integrated-gradients: true")

    def resolved(self, pictures: bool) -> Self:
        """Return the config with the c1 that "auto" stands for, by whether the inputs are pictures in [0, 1]."""
        c1 = PAPER_C1 if flag("pictures", pictures) else RELATIVE_C1
        return replace(self, c1=c1) if self.c1 == "auto" else self


@dataclass(frozen=True, kw_only=True, repr=False)
class CASO(CAFO):
    r"""The sparse map of second order (definition 3 of the paper).

    $$
    \max_D\; g^\top D + \tfrac12 D^\top H D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    g is the gradient of the loss, H its Hessian, and lambda2 = L/2 + c1 with L the largest eigenvalue of H. The map
    comes with a certificate: an upper bound of how far it is from the optimum.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> _ = torch.manual_seed(0)
        >>> net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> model = ss.Classifier(net, input_shape=(6,))
        >>> e = ss.explain(model, torch.rand(6), ss.CASO(lambda1="10%", tolerance=1e-3))
        >>> e.certificate.holds, e.certificate.basis
        (True, 'proven')
    """

    name = "caso"
    title = "CASO"
    first_order: ClassVar[type[CAFO]] = CAFO

    curvature: str = option(
        "auto",
        one_of("auto", "gauss-newton", "exact"),
        "The curvature H: exact is the true Hessian, which may be indefinite; gauss-newton leaves out how the network "
        "itself bends; auto is exact, computed as gauss-newton where the network is piecewise linear and both are "
        "equal.",
        "auto|gauss-newton|exact",
    )
    tolerance: float = option(
        1e-4,
        number(0.0),
        "The certificate holds if it proves that no map has an objective that is higher than the returned map's by "
        "more than this share.",
    )
    certify: str = option(
        "chosen",
        one_of("chosen", "path"),
        "Prove the returned map, or every map of the path, for one product more each.",
        "chosen|path",
    )
    bound: str = option(
        "auto",
        one_of("auto", "estimated", "probable", "proven"),
        "Where the proof takes its upper bound of the Hessian's largest eigenvalue from. estimated: from the products, "
        "with a margin. probable: from a random start, a few products more, wrong with probability `failure` at most. "
        "proven: from all of H, by one backward pass for each class, or one product for each entry of a small input. "
        "auto: proven for up to 64 entries, and for up to 16 classes where caso takes gauss-newton; else estimated.",
        "auto|estimated|probable|proven",
    )
    failure: float = option(
        0.01,
        share("a probability"),
        "With bound=probable, the largest probability that the bound is wrong.",
    )
    max_products: int = option(
        100,
        whole(1),
        "Stop after this many Hessian products and return the best map so far, not certified. The two to eight (for an "
        "indefinite Hessian, up to 16) that fix lambda2 are always taken, as are up to 10 for bound=probable.",
        "N",
    )

    def without_curvature(self, **options: Any) -> CAFO:
        """Return the config of the method without H, with the same options as far as it has them."""
        shared = {name: getattr(self, name) for name in self.first_order.options()}
        return self.first_order(**(shared | options))


def _copies(value: int) -> Any:
    """Declare how many noisy copies there are."""
    help = (
        "How many noisy copies of the input are averaged. auto, which smoothgrad does not have, takes copies until the "
        "standard error is at most noise_tolerance, or there are 248."
    )
    return option(value, whole_or_auto(1, MOST_COPIES), help, "N|auto")


def _antithetic(value: bool) -> Any:
    """Declare whether copies come in pairs."""
    return option(value, flag, "Take noisy copies in pairs, x + z and x - z. The last of an odd number is alone.", "")


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothMap(Smooth):
    """The options of our own smooth methods: copies may come in pairs, and the standard error is known."""

    n: int | str = _copies(50)  # type: ignore[assignment]
    antithetic: bool = _antithetic(False)
    noise_tolerance: float = option(
        0.15,
        number(0.0),
        "With n=auto, the standard error to reach: how far the norms of the groups of the averaged gradient (without "
        "groups, its entries) would move with other noise, as a share of their length.",
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothCAFO(CAFO, SmoothMap):
    r"""CAFO with the gradient averaged over noisy copies of the input (definition 4 of the paper).

    $$
    \max_D\; \bar g^\top D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2 ,
    \qquad \bar g = \tfrac1n \textstyle\sum_i g(x + z_i)
    $$

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(6, 3), input_shape=(6,))
        >>> e = ss.explain(model, torch.rand(6), ss.SmoothCAFO(n=8, lambda1="10%"))
        >>> e.smoothing.copies, e.certificate.basis
        (8, 'exact')
    """

    name = "smooth-cafo"
    title = "SmoothCAFO"


@dataclass(frozen=True, kw_only=True, repr=False)
class Picture(SmoothCAFO):
    """A map to look at: SmoothCAFO by sliding windows. It also tells whether second order matters at the clean input.

    The paper's maps are of single pixels. Windows of 8 x 8 pixels at every position show regions instead.

    Example:
        >>> import secondsight as ss
        >>> p = ss.explain(ss.load_model(), ss.example_photograph(), ss.Picture(n=4))
        >>> p.label, p.smoothing.copies, p.certificate.basis
        ('tiger cat', 4, 'exact')
    """

    name = "picture"
    title = "Picture"

    n: int | str = _copies(16)
    antithetic: bool = _antithetic(True)
    groups: Groups = option("window:8", group_labels_or_word, CAFO.options()["groups"].help, GROUPS_METAVAR)


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothCASO(CASO, SmoothMap):
    r"""CASO with the gradient and the Hessian averaged over noisy copies of the input (definition 4 of the paper).

    $$
    \max_D\; \bar g^\top D + \tfrac12 D^\top \bar H D - \lambda_1 \lVert D \rVert_1 - \lambda_2 \lVert D \rVert_2^2
    $$

    with the gradient and the Hessian averaged over the copies. One sparse problem is solved for all copies, and its map
    has a certificate. An average of the maps of single copies would be less sparse.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> _ = torch.manual_seed(0)
        >>> net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> model = ss.Classifier(net, input_shape=(6,))
        >>> e = ss.explain(model, torch.rand(6), ss.SmoothCASO(n=8, lambda1="10%"))
        >>> e.smoothing.copies, e.certificate.holds
        (8, True)
    """

    name = "smooth-caso"
    title = "SmoothCASO"
    first_order = SmoothCAFO


METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Gradient,
        SmoothGrad,
        IntegratedGradients,
        CAFO,
        CASO,
        SmoothCAFO,
        SmoothCASO,
        Picture,
    )
}
"""All methods by name, in the order that users see them."""


def class_of(name: str) -> type[Method]:
    """Find the method of this name."""
    if not isinstance(name, str) or name not in METHODS:
        near = difflib.get_close_matches(str(name), METHODS, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError("method", f"one of {', '.join(METHODS)}", f"{name!r}{hint}")
    return METHODS[name]


def described(name: str, methods: Sequence[type[Method]]) -> tuple[Option, str]:
    """Describe an option that several methods have: by its longest help, and its default with the exceptions."""
    owners = [method for method in methods if name in method.options()]
    one = max((owner.options()[name] for owner in owners), key=lambda option: len(option.help))
    if one.default is not None:
        return one, one.default
    usual = owners[0].defaults()[name]
    others = {owner.name: owner.defaults()[name] for owner in owners}
    exceptions = [f"{owner}: {word(value)}" for owner, value in others.items() if value != usual]
    return one, "; ".join([word(usual), *exceptions])


def method_of(method: Method | str, **options: Any) -> Method:
    """Turn a config or a short string into a config, with other values of some options."""
    known: tuple[type[Method], ...] = tuple(METHODS.values())
    made = method if isinstance(method, known) else Method.from_string(cast("str", method))
    return made.with_options(**options) if options else made


def _refusal(name: str, cls: type[Method]) -> InputError:
    """Say which methods have an option that this one does not have."""
    owners = [method.name for method in METHODS.values() if name in method.options()]
    if owners:
        return InputError(name, f"an option of {', '.join(owners)}", f"of {cls.name}")
    near = difflib.get_close_matches(name, cls.options(), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return InputError(f"options of {cls.name}", f"some of {', '.join(cls.options())}{hint}", name)
