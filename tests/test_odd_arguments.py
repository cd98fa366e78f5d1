"""Odd values for every argument of everything public: a call returns, or raises an error of ours in one line."""

from __future__ import annotations

import functools
import inspect
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image
from torch import Tensor, nn

import secondsight as ss
import secondsight.captum
import secondsight.quantus
from secondsight.config import METHODS

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
PICTURE_NET = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 3))
for net in (NET, PICTURE_NET):
    net[-1].weight.requires_grad_(False)
    net[-1].eval()
VECTORS = ss.Classifier(NET, input_shape=(6,), labels=["a", "b", "c"])
PICTURES = ss.Classifier(PICTURE_NET, size=8)
PARTS = ss.Classifier(lambda x, y: NET(torch.cat([x, y], 1)), input_shape=[(2,), (4,)])
X, PICTURE = torch.rand(6), torch.rand(3, 8, 8)
PHOTOGRAPH = Image.fromarray((PICTURE.permute(1, 2, 0).numpy() * 255).astype(np.uint8))


def states() -> list[tuple[bool, list[bool]]]:
    """What a call must leave as it was: the mode of every layer, and which weights want gradients."""
    return [
        (module.training, [weight.requires_grad for weight in module.parameters()])
        for net in (NET, PICTURE_NET)
        for module in net.modules()
    ]


STATES = states()


def holds_itself() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def deep() -> list[Any]:
    nest: list[Any] = []
    for _ in range(5000):
        nest = [nest]
    return nest


def inference() -> Tensor:
    with torch.inference_mode():
        return torch.rand(6)


KINDS: dict[str, Callable[[], Any]] = {
    # Numbers of Python.
    **{
        repr(value)[:12]: lambda value=value: value  # type: ignore[misc]
        for value in (None, True, -1, 0, 2, 2.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 10**400, 1j)
    },
    "5001 digits": lambda: 10**5000,
    "Fraction": lambda: Fraction(1, 10**400),
    "Decimal": lambda: Decimal("0.1"),
    # Numbers of numpy.
    **{
        f"np.{kind.__name__}": lambda kind=kind: kind(1)  # type: ignore[misc]
        for kind in (np.int8, np.uint64, np.float16, np.float64, np.longdouble, np.complex64, np.bool_)
    },
    "np nan": lambda: np.float64("nan"),
    "np largest": lambda: np.uint64(2**64 - 1),
    "np.str_": lambda: np.str_("caso"),
    "np.datetime64": lambda: np.datetime64("2020-01-01"),
    # Arrays of numpy.
    "array 0-d": lambda: np.array(2),
    "array 0-d of an object": lambda: np.array(object()),
    "array empty": lambda: np.array([]),
    "array of floats": lambda: np.array([0.25, 0.5]),
    "array with nan": lambda: np.array([1.0, math.nan]),
    "array of objects": lambda: np.array([None, "x"], dtype=object),
    "array 2-d": lambda: np.ones((2, 6), np.float32),
    "array of the picture's shape": lambda: np.arange(192).reshape(3, 8, 8) % 5,
    # Text and bytes.
    **{
        ascii(text)[:12]: lambda text=text: text  # type: ignore[misc]
        for text in ("", " ", "x", "caso", "0", "-1", "nan%", "1e400L", "patch:0", "patch:9999999999", "{}", "[[1, 2]]")
    },
    "zero in a name": lambda: "\0.png",
    "no Unicode": lambda: "\ud800.png",
    "longest name": lambda: "x" * 5000 + ".npz",
    "no method": lambda: "caso(lambda1=" + "(" * 5000 + ")" * 5000 + ")",
    "digits": lambda: "9" * 5000,
    "JSON": lambda: "[" * 100_000,
    "bytes": lambda: b"",
    "no UTF-8": lambda: b"\xff\xfe",
    "bytearray": lambda: bytearray(b"\x01\x02"),
    # Containers.
    "list": lambda: [],
    "tuple": lambda: (),
    "dict": lambda: {},
    "set": lambda: set(),
    "list of None": lambda: [None],
    "list of five": lambda: [1, 2, 3, 4, 5],
    "list of words": lambda: ["caso"],
    "lists in lists": lambda: [[1, [2.0]], "x"],
    "pair": lambda: (X, X),
    "pair of lists": lambda: ([X], [None, 5]),
    "pair of inputs and a number": lambda: (X[None], 5),
    "holds itself": holds_itself,
    "deep": deep,
    "dict of words": lambda: {"method": "caso"},
    "set of numbers": lambda: {1, 2},
    "range": lambda: range(3),
    "generator": lambda: (i for i in range(3)),
    "generator of inputs": lambda: (X for _ in range(2)),
    # Objects and classes.
    "object": object,
    "...": lambda: ...,
    "function": lambda: lambda *anything: None,
    "module": lambda: math,
    "network": lambda: nn.Linear(6, 3),
    "method": lambda: ss.Method(),
    "config": lambda: ss.CASO(),
    "classifier": lambda: VECTORS,
    **{
        f"class {kind.__name__}": lambda kind=kind: kind  # type: ignore[misc]
        for kind in (int, np.ndarray, np.float64, Tensor, Path, nn.Linear, ss.CASO)
    },
    # Files and pictures.
    "no file": lambda: Path("nowhere"),
    "folder": lambda: Path(),
    "photograph": lambda: PHOTOGRAPH,
    "empty picture": lambda: Image.new("RGB", (0, 0)),
    "floating-point picture": lambda: Image.new("F", (3, 3)),
    # Tensors.
    "sparse": lambda: X.to_sparse(),
    "sparse picture": lambda: PICTURE.to_sparse(),
    "sparse rows": lambda: torch.eye(6).to_sparse(),
    "meta": lambda: X.to("meta"),
    "meta picture": lambda: PICTURE.to("meta"),
    "meta number": lambda: torch.tensor(1.0, device="meta"),
    "complex": lambda: X.to(torch.complex64),
    "complex number": lambda: torch.tensor(1j),
    "whole": lambda: torch.arange(6),
    "booleans": lambda: X > 0.5,
    "empty": lambda: torch.tensor([]),
    "empty batch": lambda: torch.empty(0, 6),
    "number": lambda: torch.tensor(1),
    "number nan": lambda: torch.tensor(math.nan),
    "with nan": lambda: torch.full((6,), math.nan),
    "with infinity": lambda: torch.full((3, 8, 8), math.inf),
    "long": lambda: torch.rand(7),
    "batch": lambda: torch.rand(2, 6),
    "many dimensions": lambda: torch.rand(1, 1, 1, 1, 1, 1),
    "half": lambda: X.half(),
    "bfloat16": lambda: X.bfloat16(),
    "float8": lambda: X.to(torch.float8_e4m3fn),
    "nested": lambda: torch.nested.nested_tensor([torch.rand(2), torch.rand(3)], layout=torch.jagged),
    "inference": inference,
    "wants a gradient": lambda: X.clone().requires_grad_(),
    "huge": lambda: torch.full((6,), 1e38),
}
"""How to make each odd value. Generators can be used once only."""


@dataclass(frozen=True)
class Subject:
    """Something public that takes arguments.

    Attributes:
        call: what is called.
        usual: arguments that work.
        then: what is done with what it returns.
        arguments: those that are tried; None: those of its signature.
    """

    call: Callable[..., Any]
    usual: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], object] = lambda result: None
    arguments: tuple[str, ...] | None = None

    def cases(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.call).parameters) if self.arguments is None else self.arguments

    def run(self, odd: dict[str, Any]) -> None:
        """Call it with odd arguments. Only errors of ours may come out, of one line, and networks stay as they were."""
        said = "nothing"
        try:
            self.then(self.call(**(self.usual | odd)))
        except ss.SecondsightError as error:
            said = str(error)
        assert len(said.splitlines()) == 1
        assert states() == STATES
        assert torch.is_grad_enabled()


def use(model: ss.Classifier) -> None:
    """What follows when a Classifier could be made."""
    ss.explain(model, PICTURE if model.takes_pictures else X, "cafo")
    if model.takes_pictures:
        ss.explain(model, PHOTOGRAPH, "gradient")


def explained(method: ss.Method) -> None:
    """What follows when a config could be made."""
    assert type(method).from_json(method.to_json()) == method
    ss.explain(PICTURES, PICTURE, method)


def returns(odd: Any) -> None:
    """Explain a network that returns something odd."""
    ss.explain(ss.Classifier(lambda x: odd, input_shape=(6,)), X)


def filled(kind: type, odd: Any) -> Any:
    return kind(**dict.fromkeys(inspect.signature(kind).parameters, odd))


def in_a_list(odd: Any) -> None:
    ss.explain(VECTORS, [X, odd])


def run(**asked: Any) -> None:
    """Explain one vector into a new folder."""
    ss.run(**{"model": VECTORS, "items": [X], "method": "cafo", "out": tempfile.mkdtemp()} | asked)


RUN = ss.run(VECTORS, [X], "cafo", out=tempfile.mkdtemp())
GROUPED = ss.explain(PICTURES, PICTURE, ss.CASO(groups="patch:2"))
HESSIAN = ss.input_hessian(VECTORS, X)
ATTRIBUTION = secondsight.captum.CAFO(lambda x, *more: NET(x))

SUBJECTS: dict[str, Subject] = {
    "explain": Subject(ss.explain, {"model": VECTORS, "x": X, "method": "cafo"}),
    "explain, list": Subject(in_a_list),
    "explain, targets": Subject(ss.explain, {"model": VECTORS, "x": [X, X], "method": "cafo"}, arguments=("target",)),
    "explain, network": Subject(returns),
    "explain, parts": Subject(ss.explain, {"model": PARTS, "x": (X[:2], X[2:]), "method": "cafo"}, arguments=("x",)),
    "explain_batches": Subject(ss.explain_batches, {"model": VECTORS, "batches": X[None], "method": "cafo"}, list),
    "explain_batches, labels": Subject(
        lambda odd: list(ss.explain_batches(VECTORS, [(X[None], odd)], "cafo", use_labels=True))
    ),
    "explain_batches, parts": Subject(
        lambda odd: list(ss.explain_batches(PARTS, [(X[None, :2], odd)], "cafo", use_labels=True))
    ),
    "compare": Subject(ss.compare, {"models": PICTURES, "x": PICTURE, "methods": "gradient,cafo"}),
    "sweep": Subject(ss.sweep, {"model": PICTURES, "x": PICTURE}),
    "run": Subject(
        run,
        arguments=(
            *("model", "items", "method", "target", "out", "seed", "use_labels", "limit", "store_path", "dense"),
            *("retry_errors", "chunk", "engine", "workers", "address"),
        ),
    ),
    "open_run": Subject(ss.open_run, {"path": RUN.path}, list),
    "StoredRun.by_id": Subject(RUN.by_id),
    "StoredRun.where": Subject(RUN.where),
    "StoredRun.table": Subject(RUN.table),
    "input_hessian": Subject(ss.input_hessian, {"model": VECTORS, "x": X}),
    "load_model": Subject(ss.load_model),
    "load_model, file": Subject(lambda odd: ss.load_model(f"resnet50-v1@{odd}" if isinstance(odd, str) else odd)),
    "InputHessian": Subject(ss.InputHessian, {"model": VECTORS, "x": X, "target": None, "curvature": "auto"}),
    "InputHessian.matmul": Subject(HESSIAN.matmul),
    "InputHessian.eigh": Subject(HESSIAN.eigh, {"k": 2}),
    "InputHessian.trace": Subject(HESSIAN.trace),
    "Classifier": Subject(ss.Classifier, {"net": PICTURE_NET, "size": 8}, use),
    "Classifier, vectors": Subject(
        ss.Classifier, {"net": NET, "input_shape": (6,)}, use, ("mean", "std", "input_shape")
    ),
    "Classifier.__call__": Subject(VECTORS.__call__),
    "Classifier.load": Subject(PICTURES.load),
    "Classifier.read": Subject(PICTURES.read),
    "Classifier.tensor": Subject(VECTORS.tensor),
    "Classifier.batch": Subject(PICTURES.batch, {"x": PICTURE[None]}),
    "Classifier.is_batch": Subject(VECTORS.is_batch),
    "Classifier.split": Subject(PARTS.split),
    "Classifier.target_index": Subject(VECTORS.target_index, {"target": 0, "classes": 3}),
    "Classifier.label": Subject(VECTORS.label),
    **{
        method.__name__: Subject(
            method, {"n": 2} if "n" in method.options() else {}, explained, tuple(method.options())
        )
        for method in METHODS.values()
    },
    "Method": Subject(ss.Method, arguments=("lambda1",)),
    "Method.from_string": Subject(ss.Method.from_string),
    "Method.from_json": Subject(ss.Method.from_json),
    "Method.has": Subject(ss.CASO().has),
    "Method.help_text": Subject(ss.CASO.help_text),
    "Method.with_options": Subject(ss.CASO().with_options, arguments=("lambda1", "unknown")),
    "Smooth.with_options": Subject(ss.SmoothCASO().with_options, arguments=("sigma", "stdevs", "unknown")),
    "CAFO.resolved": Subject(ss.CAFO().resolved),
    "CASO.without_curvature": Subject(ss.CASO().without_curvature, arguments=("lambda2", "unknown")),
    "Explanation.map": Subject(GROUPED.map),
    "Explanation.figure": Subject(ss.explain(PICTURES, PICTURE, "gradient").figure),
    "Explanation.figure, bars": Subject(ss.explain(VECTORS, X, "cafo").figure),
    "Explanation.save": Subject(GROUPED.save),
    "Explanation.load": Subject(ss.Explanation.load),
    "Comparison.save": Subject(ss.compare(PICTURES, PICTURE, "gradient").save),
    "Sweep.save": Subject(ss.sweep(PICTURES, PICTURE).save),
    "InputError": Subject(ss.InputError, {"argument": "x", "may_be": "this"}, str, ("was",)),
    # What only holds is made of anything.
    **{
        kind.__name__: Subject(functools.partial(filled, kind), arguments=("odd",))
        for kind in (
            ss.Certificate,
            ss.Comparison,
            ss.Explanation,
            ss.PathPoint,
            ss.PictureExplanation,
            ss.SecondOrder,
            ss.SecondOrderExplanation,
            ss.Smoothing,
            ss.SparseExplanation,
            ss.Support,
            ss.Sweep,
        )
    },
    **{
        kind.__name__: Subject(kind, arguments=())
        for kind in (ss.ImageError, ss.ModelError, ss.NotStoredError, ss.SecondsightError, ss.SecondsightWarning)
    },
    **{
        f"captum.{kind.__name__}": Subject(
            kind,
            {"forward_func": NET},
            lambda made: made.attribute(X[None]),
            ("forward_func", "sign", "seed", "lambda1"),
        )
        for kind in secondsight.captum.ATTRIBUTIONS.values()
    },
    "captum._Penalised.attribute": Subject(
        ATTRIBUTION.attribute, {"inputs": X[None].repeat(2, 1), "additional_forward_args": None}
    ),
    "captum, positions": Subject(
        lambda odd: secondsight.captum.CAFO(lambda x: NET(x)[:, :, None]).attribute(X[None], target=(0, odd))
    ),
    "captum.TargetError": Subject(secondsight.captum.TargetError, {"argument": "x", "may_be": "this"}, str, ("was",)),
    "quantus.explain_func": Subject(
        secondsight.quantus.explain_func, {"model": NET, "inputs": X[None].numpy(), "targets": [0], "method": "cafo"}
    ),
}
"""Everything public. A name with a comma is a second look at something."""

CASES = [(name, argument) for name, subject in SUBJECTS.items() for argument in subject.cases()]

UNCHECKED = {
    *("Classifier.logits", "Classifier.check_logits", "Classifier.telling_failures"),
    *("Explanation.from_source", "Standing", "Standing.advance", "StoredRun"),
}
"""These stand between a network and the operators, or between a run and its results, and check nothing of what they are
given. What a network may return is tried as "explain, network"."""

OF_CAPTUM = {"captum._Penalised.attribute_future"}
"""There are no futures. Captum's own methods that have none raise a NotImplementedError, too."""


def public() -> set[str]:
    """Name everything public that takes arguments."""
    modules = {"": ss, "captum.": secondsight.captum, "quantus.": secondsight.quantus}
    names = set()
    for prefix, module in modules.items():
        for name in getattr(module, "__all__", ["explain_func"]):
            one = getattr(module, name)
            members = inspect.getmembers(one, callable) if isinstance(one, type) else []
            methods = [member for key, member in members if not key.startswith("_") or key == "__call__"]
            for found in [one, *methods]:
                ours = getattr(found, "__module__", "").startswith("secondsight")
                if ours and callable(found) and (isinstance(found, type) or _takes_arguments(found)):
                    names.add(prefix + found.__qualname__)
    return names


def _takes_arguments(function: Callable[..., Any]) -> bool:
    return bool([name for name in inspect.signature(function).parameters if name != "self"])


def test_nothing_public_is_left_out() -> None:
    assert len(public()) > 50
    assert public() - set(SUBJECTS) == UNCHECKED | OF_CAPTUM


@pytest.fixture(autouse=True, scope="module")
def _in_an_empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("odd"))
        yield


def attempt(name: str, argument: str, odd: Any) -> None:
    # The errors of a user's own function are the user's.
    if not (callable(odd) and argument in ("progress", "started")):
        SUBJECTS[name].run({argument: odd})


@pytest.mark.parametrize(("name", "argument"), CASES, ids=[f"{name}, {argument}" for name, argument in CASES])
def test_each_kind(name: str, argument: str) -> None:
    for kind, make in KINDS.items():
        try:
            attempt(name, argument, make())
        except Exception as error:
            raise AssertionError(f"{name} of {argument} = {kind}: {type(error).__name__}") from error


SCALARS = npst.scalar_dtypes().flatmap(npst.from_dtype)
ODD = st.recursive(
    st.sampled_from(list(KINDS)).map(lambda kind: KINDS[kind]()) | st.floats() | st.integers() | st.text() | SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.lists(inner, max_size=2).map(iter)
    ),
    max_leaves=4,
)
"""Odd values, and lists, tuples, dictionaries and iterators of them."""


@settings(max_examples=1500, derandomize=True, deadline=None, database=None)
@given(st.sampled_from(CASES), ODD)
def test_drawn_values(case: tuple[str, str], odd: Any) -> None:
    attempt(*case, odd)


SIZES = st.floats(-323, 308).map(lambda exponent: 10.0**exponent) | st.floats(-3, 3).map(
    lambda exponent: 10.0**exponent
)
"""Numbers of any size."""

WORDS: dict[str, list[Any]] = {
    "lambda1": ["auto", "paper", "0%", "10%", "100%", (0, 1e-3), (1e308,)],
    "c1": ["auto", "1e-300L", "1e300L"],
    "groups": ["none", "pixel", "patch:3", "patch:999999999", "window:2", "window:8"],
    "sparsity_range": [(0, 1), (0, 1e-300), (1 - 1e-16, 1), (0.5, 0.5000001)],
    "path_points": [12, 13],
    **{name: [1, 2, 3] for name in ("n", "n_steps", "batch_size", "max_products")},
    **{name: [False, True] for name in ("times_input", "antithetic")},
    "score": ["logit", "loss"],
    "curvature": ["auto", "gauss-newton", "exact"],
    "certify": ["chosen", "path"],
    "bound": ["auto", "estimated", "probable", "proven"],
}
"""What options take beside numbers of any size."""


def options_of(method: type[ss.Method]) -> st.SearchStrategy[tuple[type[ss.Method], dict[str, Any]]]:
    sized = {name: SIZES for name in method.options() if name not in WORDS}
    words = {name: st.sampled_from(WORDS[name]) for name in method.options() if name in WORDS}
    words |= {name: words[name] | SIZES for name in ("lambda1", "c1") if name in words}
    needed = {"n": words.pop("n")} if "n" in words else {}
    return st.tuples(st.just(method), st.fixed_dictionaries(needed, optional=words | sized))


@settings(max_examples=250, derandomize=True, deadline=None, database=None)
@given(st.sampled_from(list(METHODS.values())).flatmap(options_of))
def test_options_of_any_size(asked: tuple[type[ss.Method], dict[str, Any]]) -> None:
    method, options = asked
    Subject(method, options, explained).run({})


SENSIBLE: dict[str, Any] = {
    "lambda1": 0.5,
    "c1": 2.0,
    "lambda2": 4.0,
    "sigma": 0.25,
    "stdevs": 0.5,
    "tolerance": 0.5,
    "failure": 0.25,
    "path_smallest": 0.25,
    "noise_tolerance": 0.5,
    "sparsity_range": (0.5, 1.0),
    "n": 3,
    "n_steps": 4,
    "batch_size": 2,
    "path_points": 12,
    "max_products": 8,
    "times_input": True,
    "antithetic": True,
}
"""A sensible value of each option that is a number, several, or a truth. Every type of numpy has these floats."""

NO_NUMBERS = {"groups", "score", "curvature", "certify", "bound"}
"""Options that are words."""

FLOATS = (np.float16, np.float32, np.float64, np.longdouble, np.array, torch.tensor)
WHOLES = (np.int8, np.uint8, np.int64, np.uint64, np.array, torch.tensor)
TRUTHS = (np.bool_, np.array, torch.tensor)
"""What makes numbers of numpy and torch of those of Python."""


def makers(value: Any) -> tuple[Callable[[Any], Any], ...]:
    if isinstance(value, tuple):
        return np.array, torch.tensor, list
    return TRUTHS if isinstance(value, bool) else WHOLES if isinstance(value, int) else FLOATS


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_options_take_numbers_of_numpy(method: type[ss.Method]) -> None:
    assert set(method.options()) <= {*SENSIBLE, *NO_NUMBERS}
    for name, value in SENSIBLE.items():
        for make in makers(value) if name in method.options() else ():
            found, usual = method(**{name: make(value)}), method(**{name: value})
            assert (found, repr(found), found.to_json()) == (usual, repr(usual), usual.to_json())


NUMBERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "explain, seed": (lambda n: ss.explain(VECTORS, X, "smooth-cafo(n=2)", seed=n).delta, 3),
    "explain, target": (lambda n: ss.explain(VECTORS, X, "cafo", n).delta, 2),
    "explain_batches, target": (lambda n: next(ss.explain_batches(VECTORS, X[None], "cafo", n)).delta, 2),
    "explain_batches, use_labels": (
        lambda flag: next(ss.explain_batches(VECTORS, [(X[None], [1])], "cafo", use_labels=flag)).delta,
        True,
    ),
    "compare, times_input": (
        lambda flag: ss.compare(PICTURES, PICTURE, "gradient", times_input=flag).times_input,
        True,
    ),
    "sweep, seed": (lambda n: ss.sweep(PICTURES, PICTURE, seed=n).path[1].delta, 3),
    "input_hessian, target": (lambda n: ss.input_hessian(VECTORS, X, n).gradient, 2),
    "eigh, k": (lambda n: HESSIAN.eigh(n)[0], 2),
    "eigh, tolerance": (lambda n: HESSIAN.eigh(2, tolerance=n)[0], 0.5),
    "eigh, seed": (lambda n: HESSIAN.eigh(2, seed=n)[0], 3),
    "trace, samples": (lambda n: HESSIAN.trace(n), 3),
    "trace, seed": (lambda n: HESSIAN.trace(2, n), 3),
    "figure, blur": (lambda n: len(GROUPED.figure(blur=n).axes), 2.0),
    "label": (VECTORS.label, 2),
    "help_text, indent": (ss.CASO.help_text, 8),
    **{
        f"Classifier, {name}": (
            lambda n, name=name: ss.Classifier(PICTURE_NET, **{"size": 8, name: n}).load(PHOTOGRAPH),  # type: ignore[misc]
            value,
        )
        for name, value in {
            "size": 4,
            "resize": 16,
            "channels": 3,
            "max_pixels": 100,
            "value_range": (0.0, 64.0),
        }.items()
    },
    **{
        f"Classifier, {name}": (
            lambda n, name=name: ss.Classifier(NET, **{"input_shape": (6,), name: n})(X[None]),  # type: ignore[misc]
            value,
        )
        for name, value in {"mean": 0.5, "std": 0.5, "input_shape": (6,), "piecewise_linear": True}.items()
    },
    "Classifier, mean of each": (lambda n: ss.Classifier(PICTURE_NET, mean=n)(PICTURE[None]), (0.5, 0.25, 0.125)),
    "captum, seed": (lambda n: secondsight.captum.SmoothCAFO(NET, n=2, seed=n).attribute(X[None]), 3),
    "captum, target": (lambda n: ATTRIBUTION.attribute(X[None], target=n), 2),
    "captum, batch": (lambda n: ATTRIBUTION.attribute(X[None], internal_batch_size=n), 2),
    "captum, kept": (lambda flag: len(ATTRIBUTION.attribute(X[None], return_explanations=flag)), True),
    "quantus, seed": (
        lambda n: secondsight.quantus.explain_func(NET, X[None], [0], method="smooth-cafo(n=2)", seed=n),
        3,
    ),
}
"""The other numbers and truths: what is made of them, and a sensible value."""


@pytest.mark.parametrize("name", NUMBERS)
def test_arguments_take_numbers_of_numpy(name: str) -> None:
    result, value = NUMBERS[name]
    usual = result(value)
    for make in makers(value):
        found = result(make(value))
        assert np.array_equal(found, usual) if isinstance(usual, np.ndarray | Tensor) else found == usual


def test_a_batch_of_another_size_after_a_right_one() -> None:
    """What a network says of it is no longer the first thing that it says."""
    model, attribution = ss.Classifier(PICTURE_NET), secondsight.captum.CAFO(NET)
    ss.explain(model, PICTURE)
    attribution.attribute(X[None])
    for call in (
        lambda: ss.explain(model, PICTURE[:, :4]),
        lambda: ss.explain(model, PICTURE[:, :4], "gradient"),
        lambda: model(PICTURE[None, :, :4]),
        lambda: attribution.attribute(X[None, :4]),
    ):
        with pytest.raises(ss.ModelError, match="does not take a batch of shape"):
            call()
