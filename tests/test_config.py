"""The configs of methods: their defaults, what they refuse, and that nothing is lost on paper."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import secondsight as ss
from secondsight.config import METHODS, Method, method_of

NAMES = {
    "gradient": ss.Gradient,
    "smoothgrad": ss.SmoothGrad,
    "integrated-gradients": ss.IntegratedGradients,
    "cafo": ss.CAFO,
    "caso": ss.CASO,
    "smooth-cafo": ss.SmoothCAFO,
    "smooth-caso": ss.SmoothCASO,
    "picture": ss.Picture,
}
PENALTY: dict[str, Any] = {
    "lambda1": "auto",
    "c1": "auto",
    "lambda2": None,
    "groups": "none",
    "sparsity_range": (0.75, 1.0),
    "path_points": 16,
    "path_smallest": None,
    "times_input": False,
}
CURVATURE: dict[str, Any] = {
    "curvature": "auto",
    "tolerance": 1e-4,
    "certify": "chosen",
    "bound": "auto",
    "failure": 0.01,
    "max_products": 100,
}
NOISE: dict[str, Any] = {"n": 50, "sigma": 0.15, "stdevs": None, "batch_size": None}
OUR_NOISE: dict[str, Any] = NOISE | {"antithetic": False, "noise_tolerance": 0.15}
SCORE: dict[str, Any] = {"score": "logit", "times_input": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "gradient": SCORE,
    "smoothgrad": SCORE | NOISE,
    "integrated-gradients": SCORE | {"n_steps": 50, "batch_size": None, "times_input": True},
    "cafo": PENALTY,
    "caso": PENALTY | CURVATURE,
    "smooth-cafo": PENALTY | OUR_NOISE,
    "smooth-caso": PENALTY | CURVATURE | OUR_NOISE,
    "picture": PENALTY | OUR_NOISE | {"n": 16, "antithetic": True, "groups": "window:8"},
}

positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
weights = st.floats(min_value=0, allow_infinity=False)
counts = st.integers(1, 10**6)
shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
labels = st.lists(st.integers(-3, 10**9), min_size=1, max_size=4)
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "lambda1": st.sampled_from(["auto", "paper", "10%", "0%", "100%"])
    | weights
    | st.floats(0, 100).map(lambda percent: f"{percent!r}%")
    | st.lists(weights, min_size=1, max_size=4),
    "c1": st.just("auto") | positive | positive.map(lambda times: f"{times!r}L"),
    "lambda2": st.none() | positive,
    "groups": st.sampled_from(["none", None, "pixel", "patch:3", "window:3", "superpixels", "superpixels:50"])
    | labels
    | labels.map(np.array)
    | labels.map(lambda row: torch.tensor([row, row])),
    "sparsity_range": st.tuples(st.floats(0, 0.5), st.floats(0.6, 1)),
    "path_points": st.integers(12, 100),
    "path_smallest": st.none() | shares,
    "times_input": st.booleans(),
    "curvature": st.sampled_from(["auto", "gauss-newton", "exact"]),
    "tolerance": positive,
    "certify": st.sampled_from(["chosen", "path"]),
    "bound": st.sampled_from(["auto", "estimated", "probable", "proven"]),
    "failure": shares,
    "max_products": counts,
    "n": counts | st.just("auto"),
    "n_steps": st.integers(1, 5000),
    "sigma": st.none() | weights,
    "stdevs": st.none() | weights,
    "batch_size": st.none() | counts,
    "score": st.sampled_from(["logit", "loss"]),
    "antithetic": st.booleans(),
    "noise_tolerance": positive,
}


def fitting(config: Method, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that a config has. SmoothGrad knows no auto."""
    unknown = {"n"} if options.get("n") == "auto" and not config.has("noise_tolerance") else set()
    return {name: value for name, value in options.items() if config.has(name) and name not in unknown}


@st.composite
def configs(draw: st.DrawFn) -> Method:
    """Any config: a method with any of its options."""
    cls = draw(st.sampled_from(list(METHODS.values())))
    names = draw(st.lists(st.sampled_from(sorted(cls.options())), unique=True))
    options = {name: draw(VALUES[name]) for name in names}
    if options.get("sigma") is not None and options.get("stdevs") is not None:
        del options["sigma"]
    return cls(**fitting(cls(), options))


def test_the_methods_and_their_names() -> None:
    assert METHODS == NAMES
    assert {name: method.name for name, method in METHODS.items()} == {name: name for name in NAMES}
    assert len({method.title for method in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize("name", NAMES)
def test_defaults(name: str) -> None:
    config = NAMES[name]()
    assert {option: getattr(config, option) for option in config.options()} == DEFAULTS[name]
    assert config.changed() == {}
    assert (repr(config), str(config)) == (f"{NAMES[name].__name__}()", name)
    assert method_of(name) == Method.from_string(name) == NAMES[name].from_string(name) == config
    # An option at its default says nothing, however it is given.
    assert NAMES[name](**DEFAULTS[name]) == config
    assert repr(NAMES[name](**DEFAULTS[name])) == repr(config)


def test_every_option_is_explained() -> None:
    for method in METHODS.values():
        text = method.help_text()
        assert all(f"{name}: {one.help[:20]}" in text for name, one in method.options().items())
        assert all(len(line) <= 120 for line in text.splitlines())
    assert all(VALUES.keys() >= method.options().keys() for method in METHODS.values())


@given(configs())
def test_configs_are_frozen_compared_by_value_and_hashed(config: Method) -> None:
    again = type(config)(**{name: getattr(config, name) for name in config.options()})
    assert again == config
    assert hash(again) == hash(config)
    assert again is not config
    for name in config.options():
        with pytest.raises(FrozenInstanceError):
            setattr(config, name, getattr(config, name))
    assert config == again


def test_methods_with_equal_options_are_not_equal() -> None:
    assert len({method() for method in METHODS.values()}) == len(METHODS)
    assert ss.CAFO(c1=1) != ss.CASO(c1=1)
    assert ss.CASO(c1=1) != ss.CASO(c1=2)
    assert ss.CASO(c1=1) == ss.CASO(c1=1.0)


OTHER: dict[str, Any] = {
    **{"lambda1": 0.5, "c1": 0.5, "lambda2": 0.5, "groups": "pixel", "sparsity_range": (0.1, 0.2), "path_points": 20},
    **{
        "path_smallest": 0.5,
        "curvature": "exact",
        "tolerance": 0.5,
        "certify": "path",
        "bound": "proven",
        "failure": 0.5,
    },
    **{"max_products": 7, "n": 7, "n_steps": 7, "sigma": 0.5, "stdevs": 0.5, "batch_size": 7, "score": "loss"},
    **{"noise_tolerance": 0.5},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_option_tells_two_configs_apart(method: str) -> None:
    usual = METHODS[method]()
    for name in usual.options():
        other = usual.with_options(**{name: OTHER.get(name, not getattr(usual, name))})
        assert other != usual
        assert name in repr(other)
        assert len({usual, other, usual.with_options()}) == 2


@given(configs())
def test_nothing_is_lost_on_paper(config: Method) -> None:
    cls = type(config)
    assert eval(repr(config), {method.__name__: method for method in METHODS.values()}) == config
    for written in (str(config), f" {config} "):
        assert Method.from_string(written) == cls.from_string(written) == method_of(written) == config
    text = config.to_json()
    assert json.loads(text)["method"] == config.name
    assert Method.from_json(text) == cls.from_json(text) == config
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config


@given(configs())
def test_a_short_string_has_what_was_changed_and_nothing_else(config: Method) -> None:
    defaults = DEFAULTS[config.name] | ({"sigma": None} if getattr(config, "stdevs", None) is not None else {})
    changed = {name: getattr(config, name) for name in config.options() if getattr(config, name) != defaults[name]}
    assert config.changed() == changed
    assert set(re.findall(r"[(,](\w+)=", str(config))) == changed.keys()


def test_what_strings_look_like() -> None:
    config = ss.CASO(c1=1, groups="pixel")
    assert repr(config) == "CASO(c1=1.0, groups='pixel')"
    assert str(config) == "caso(c1=1.0,groups=pixel)"
    assert Method.from_string("caso( c1 = 1 ,\n groups = pixel )") == config
    assert str(ss.CAFO(lambda1=[0, 0.5], times_input=True)) == "cafo(lambda1=(0.0,0.5),times_input=true)"
    assert str(ss.CAFO(lambda1=[0.5])) == "cafo(lambda1=(0.5,))"
    assert str(ss.CASO(groups=np.array([[0, 1], [1, 1]]))) == "caso(groups=((0,1),(1,1)))"
    assert str(ss.SmoothCASO(stdevs=2)) == "smooth-caso(stdevs=2.0)"
    assert str(ss.Picture(n="auto", antithetic=False)) == "picture(n=auto,antithetic=false)"


@pytest.mark.parametrize(
    ("given_value", "kept"),
    [
        ({"lambda1": " 10 %"}, "10%"),
        ({"lambda1": "10.0%"}, "10%"),
        ({"lambda1": "33.33333333333%"}, "33.33333333333%"),
        ({"lambda1": [1, 0.5]}, (1.0, 0.5)),
        ({"lambda1": np.array([1, 2])}, (1.0, 2.0)),
        ({"c1": "0.250 L"}, "0.25L"),
        ({"c1": "0.1234567890123L"}, "0.1234567890123L"),
        ({"c1": 3}, 3.0),
        ({"groups": None}, "none"),
        ({"groups": " pixel "}, "pixel"),
        ({"groups": torch.tensor([[1, 2]])}, ((1, 2),)),
        ({"groups": [[1, 2], [3, 4]]}, ((1, 2), (3, 4))),
        ({"sparsity_range": [0, 1]}, (0.0, 1.0)),
    ],
)
def test_values_have_one_normal_form(given_value: dict[str, Any], kept: Any) -> None:
    (name,) = given_value
    found = getattr(ss.CASO(**given_value), name)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    "options",
    [
        {"c1": np.float32(0.5), "lambda1": np.float64(0.5), "lambda2": np.int64(3), "tolerance": np.float16(0.5)},
        {"max_products": np.int64(7), "path_points": np.uint8(20), "n": np.int32(3), "batch_size": torch.tensor(2)},
        {"sparsity_range": np.array([0.25, 0.5]), "path_smallest": np.float32(0.5), "sigma": np.float32(0.5)},
        {"lambda1": [np.float32(0.5), np.int64(1)], "c1": torch.tensor(0.5), "times_input": np.True_},
        {"groups": [np.int64(1), np.int64(2)], "stdevs": torch.tensor(0.5)},
    ],
)
def test_numbers_of_numpy_and_torch_are_numbers(options: dict[str, Any]) -> None:
    config = ss.SmoothCASO(**options)
    plain = {
        name: [one.item() for one in value] if isinstance(value, list) else value.tolist()
        for name, value in options.items()
    }
    assert config == ss.SmoothCASO(**plain)
    assert Method.from_json(config.to_json()) == config
    for name in options:
        flat = np.array(getattr(config, name), dtype=object).ravel()
        assert {type(value) for value in flat} <= {int, float, bool}


# Each bad value of each option.
NO_NUMBER = [math.nan, math.inf, -math.inf, "x", [1.0, "x"], {"a": 1}, {1.0}, object(), True, 10**400]
BAD: dict[str, list[Any]] = {
    "lambda1": [
        *NO_NUMBER,
        None,
        -1.0,
        -1e-300,
        [],
        (),
        [[1.0]],
        [0.1, -0.1],
        "knee",
        "%",
        "-1%",
        "101%",
        "nan%",
        "x%",
    ],
    "c1": [*NO_NUMBER, None, 0, 0.0, -1.0, [1.0], "L", "0L", "-1L", "nanL", "infL", "xL", "0.25l", "1", ""],
    "lambda2": [*NO_NUMBER, 0.0, -3.0, [1.0], "auto"],
    "groups": [
        *("pixels", "patch", "patch:0", "patch:-2", "patch:1.5", "pixel:3", "none:1", "superpixels:0", ""),
        *(3, 0.5, [], [[]], [0.5], ["a"], [None], {"a": 1}, object(), np.zeros(3), torch.zeros(2, 2), np.array(3)),
    ],
    "sparsity_range": [
        *(None, 0.5, "x", {0.1, 0.2}, (0.5,), (0.1, 0.2, 0.3), (0.9, 0.1), (0.5, 0.5), (-0.1, 0.5), (0.5, 1.1)),
        *((0.5, math.nan), (0.5, "x"), (False, True)),
    ],
    "path_points": [*NO_NUMBER[:-1], None, 11, 0, -20, 16.0, "16"],
    "path_smallest": [*NO_NUMBER, 0, 0.0, 1, 1.0, -0.5, 2.0],
    "times_input": [None, 0, 1, "true", "yes", [True], 0.0],
    "curvature": [None, "", "hutchinson", "Exact", 1, ["exact"]],
    "tolerance": [*NO_NUMBER, None, 0.0, -1e-4],
    "certify": [None, "", "all", True],
    "bound": [None, "", "guessed", 0],
    "failure": [*NO_NUMBER, None, 0, 0.0, 1, 1.0, -0.5, 2.0],
    "max_products": [*NO_NUMBER[:-1], None, 0, -1, 2.0],
    "n": [*NO_NUMBER[:-1], None, 0, -1, 1.5, 2.0, "", "Auto", "16"],
    "n_steps": [*NO_NUMBER[:-1], None, 0, -1, 1.5, 2.0],
    "sigma": [*NO_NUMBER, -1.0],
    "stdevs": [*NO_NUMBER, -1.0],
    "batch_size": [*NO_NUMBER[:-1], 0, -1, 2.0],
    "score": [None, "", "probability", 1],
    "antithetic": [None, 0, 1, "true", "yes", [True], 0.0],
    "noise_tolerance": [*NO_NUMBER, None, 0.0, -1e-4],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("option", BAD)
def test_bad_values_are_refused_by_name(option: str, method: str) -> None:
    assert VALUES.keys() == BAD.keys()
    cls = METHODS[method]
    if option not in cls.options():
        owners = [name for name, one in METHODS.items() if option in one.options()]
        with pytest.raises(ss.InputError) as refusal:
            cls(**{option: None})
        assert str(refusal.value) == f"{option} must be an option of {', '.join(owners)}, not of {method}"
        return
    for bad in BAD[option]:
        for make in (cls, cls().with_options):
            with pytest.raises(ss.InputError) as refusal:
                make(**{option: bad})
            message = str(refusal.value)
            assert refusal.value.argument == option
            assert message.startswith(f"{option} must be ")
            assert "\n" not in message


@pytest.mark.parametrize("method", METHODS)
def test_a_misspelt_option_suggests_the_right_one(method: str) -> None:
    cls = METHODS[method]
    for name in cls.options():
        if len(name) < 3:
            continue
        wrong = name[:1] + name[2:]
        for attempt in (
            lambda wrong=wrong: cls(**{wrong: 1}),
            lambda wrong=wrong: cls().with_options(**{wrong: 1}),
            lambda wrong=wrong: method_of(method, **{wrong: 1}),
            lambda wrong=wrong: Method.from_string(f"{method}({wrong}=1)"),
            lambda wrong=wrong: Method.from_json(json.dumps({"method": method, wrong: 1})),
        ):
            with pytest.raises(
                ss.InputError, match=rf"options of {method} must be .* \(did you mean \w+\?\), not {wrong}"
            ):
                attempt()
    with pytest.raises(ss.InputError, match=r"options of caso must be some of lambda1, c1, .*, not colour") as refusal:
        ss.CASO(colour="red")
    assert "did you mean" not in str(refusal.value)


def test_one_strength_of_the_noise() -> None:
    for cls in (ss.SmoothGrad, ss.SmoothCAFO, ss.SmoothCASO, ss.Picture):
        with pytest.raises(ss.InputError, match=r"stdevs must be None beside sigma, .*, not 0\.2"):
            cls(sigma=0.1, stdevs=0.2)
        with pytest.raises(ss.InputError, match="stdevs must be None beside sigma"):
            Method.from_string(f"{cls.name}(sigma=0.1,stdevs=0.2)")
        with pytest.raises(ss.InputError, match="stdevs must be None beside sigma"):
            cls().with_options(sigma=0.1, stdevs=0.2)
        assert (cls(stdevs=0.2).sigma, cls(stdevs=0.2).stdevs) == (None, 0.2)
        assert (cls(sigma=0.2).sigma, cls(sigma=0.2).stdevs) == (0.2, None)
        assert cls(sigma=None) == cls(stdevs=None) == cls()
        # The later of two replaces the earlier.
        assert cls().with_options(stdevs=0.2) == cls(stdevs=0.2)
        assert cls(stdevs=0.2).with_options(sigma=0.1) == cls(sigma=0.1)
        assert cls(stdevs=0.2).with_options(n=3) == cls(stdevs=0.2, n=3)
        assert cls(stdevs=0.2).with_options(stdevs=None) == cls()


def test_only_our_own_methods_know_how_many_copies_are_enough() -> None:
    for cls in (ss.SmoothCAFO, ss.SmoothCASO, ss.Picture):
        assert cls(n="auto").n == Method.from_string(f"{cls.name}(n=auto)").n == "auto"
    with pytest.raises(ss.InputError, match="n must be a whole number of at least 1, not 'auto'"):
        ss.SmoothGrad(n="auto")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "(", ")", "caso(", "caso)", "caso(c1=1", "caso(c1=1))(", "caso(c1)", "caso(c1=1,,n=2)", "caso(,)"),
        *("caso(c1=1)(c1=2)", "caso(c1=1)x", "x(c1=1)", "CASO", "casso", "caso,cafo", "caso(=1)", "caso(c1=1,c1=2)"),
        *("caso(c1=)", "caso(self=1)", "caso(cls=1)", "caso(method=1)", "caso(c1=1 groups=pixel)", "caso(lambda1=())"),
        *(
            "caso(groups=(1,(2))",
            "caso(groups=((1,2)",
            "caso(n=3)",
            "caso(c1=[1])",
            "\0",
            "caso\ncafo",
            "🙂",
            "caso()()",
        ),
        *(f"caso(c1=1{'0' * 400})", None, 3, b"caso", ["caso"], ss.CASO, ss.CASO()),
    ],
)
def test_strings_that_are_none(text: Any) -> None:
    with pytest.raises(ss.InputError) as refusal:
        Method.from_string(text)
    assert "\n" not in str(refusal.value)
    assert "must be" in str(refusal.value)


def config_or_refusal(read: Callable[[str], Method], text: str) -> Method | None:
    """Read a config; None where it is refused in one line."""
    try:
        return read(text)
    except ss.InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return None


@given(st.text() | st.from_regex(r"\Acaso\([(),=\w% ]*\)\Z"))
def test_any_string_is_a_config_or_one_clear_error(text: str) -> None:
    config = config_or_refusal(Method.from_string, text)
    assert config is None or Method.from_string(str(config)) == config


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "null", '"caso"', "{}", "{", '{"c1": 1}', "[[1, 2]]", "nonsense", None, 3, b"\xff", ["caso"]),
        *('{"method": null}', '{"method": []}', '{"method": {}}', '{"method": 3}', '{"method": "casso"}'),
        *('{"method": "caso", "c1": 0}', '{"method": "caso", "c1": {"a": 1}}', '{"method": "caso", "c1": 1e999}'),
        *('{"method": "caso", "c1": NaN}', '{"method": "caso", "cls": 1}', '{"method": "caso", "self": 1}'),
        *('{"method": "caso", "n": 3}', '{"method": "caso", "": 3}', '{"method": "caso", "groups": [[0.5]]}'),
    ],
)
def test_json_that_is_none(text: Any) -> None:
    with pytest.raises(ss.InputError) as refusal:
        Method.from_json(text)
    assert "\n" not in str(refusal.value)
    assert "must be" in str(refusal.value)


@given(anything)
def test_any_json_is_a_config_or_one_clear_error(value: Any) -> None:
    for tried in (value, {"method": value}, {"method": "caso", "c1": value}, {"method": "caso", "groups": value}):
        config = config_or_refusal(Method.from_json, json.dumps(tried))
        assert config is None or Method.from_json(config.to_json()) == config


def test_a_config_of_another_method_is_refused() -> None:
    with pytest.raises(ss.InputError, match="method must be CASO, not CAFO"):
        ss.CASO.from_string("cafo")
    with pytest.raises(ss.InputError, match="method must be CASO, not CAFO"):
        ss.CASO.from_json(ss.CAFO().to_json())
    with pytest.raises(ss.InputError, match="method must be SmoothCASO, not CASO"):
        ss.SmoothCASO.from_string("caso(c1=1)")
    # A SmoothCASO is a CASO.
    assert ss.CASO.from_string("smooth-caso") == ss.SmoothCASO()


def test_options_are_for_names_only() -> None:
    with pytest.raises(TypeError):
        ss.CASO(1.0)  # type: ignore[misc]


@given(configs(), configs())
def test_with_options_replaces_and_leaves_the_old_config_alone(config: Method, other: Method) -> None:
    before = repr(config)
    options = fitting(config, other.changed())
    changed = config.with_options(**options)
    assert {name: getattr(changed, name) for name in options} == options
    assert type(changed) is type(config)
    kept = set(config.options()) - options.keys() - {"sigma", "stdevs"}
    assert all(getattr(changed, name) == getattr(config, name) for name in kept)
    assert repr(config) == before
    assert config.with_options() == config
    assert method_of(config, **options) == changed


def test_without_curvature() -> None:
    config = ss.SmoothCASO(c1=2, n=3, stdevs=0.5, antithetic=True, groups="pixel", curvature="exact", max_products=5)
    assert config.without_curvature() == ss.SmoothCAFO(c1=2, n=3, stdevs=0.5, antithetic=True, groups="pixel")
    assert ss.CASO(c1=2, bound="proven").without_curvature(lambda2=7) == ss.CAFO(c1=2, lambda2=7)


@pytest.mark.parametrize("method", [ss.CAFO, ss.CASO, ss.SmoothCAFO, ss.SmoothCASO, ss.Picture])
def test_c1_is_resolved_by_the_kind_of_input(method: type[ss.CAFO]) -> None:
    assert method().resolved(pictures=True) == method(c1=10.0)
    assert method().resolved(pictures=False) == method(c1="0.25L")
    for given_c1 in (3.0, "2L"):
        assert method(c1=given_c1).resolved(pictures=True) == method(c1=given_c1).resolved(False) == method(c1=given_c1)
