"""Docstrings of the public surface: an entry for each argument, what is returned, and an example."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from griffe import Docstring, DocstringSectionKind
from scripts.reference_index import FUNCTIONS, METHOD, OPERATORS, RESULTS

import secondsight as ss

PUBLIC = {f"ss.{name}": getattr(ss, name) for name in ss.__all__ if callable(getattr(ss, name))} | {
    f"{module}.{name}": getattr(importlib.import_module(f"secondsight.{module}"), name)
    for module, names in {"captum": ["CAFO", "CASO", "SmoothCAFO", "SmoothCASO"], "quantus": ["explain_func"]}.items()
    for name in names
}
"""Everything a user imports."""

SHOWN = {entry.title: entry.members for entry in (*FUNCTIONS, *RESULTS, *OPERATORS, METHOD)}
"""The members that the pages of the reference show. Others without an underscore are for the package itself."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, and methods of classes; properties have no arguments."""
    for name, public in PUBLIC.items():
        if not inspect.isclass(public):
            yield name, public
            continue
        for member, value in vars(public).items():
            function = getattr(value, "__func__", value)
            shown = SHOWN.get(name.removeprefix("ss."), "[attribute]")
            listed = (shown == "true" and not member.startswith("_")) or member in re.findall(r"\w+", shown)
            if inspect.isfunction(function) and listed:
                yield f"{name}.{member}", function


def sections(what: object) -> dict[DocstringSectionKind, Any]:
    found = Docstring(inspect.getdoc(what) or "").parse("google", warnings=False)
    return {section.kind: section.value for section in found}


@pytest.mark.parametrize(
    ("name", "function"), list(functions()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_argument_has_one_entry_and_results_are_described(name: str, function: Callable[..., Any]) -> None:
    there = sections(function)
    arguments = [one for one in inspect.signature(function).parameters.values() if one.name not in ("self", "cls")]
    described = [entry.name.lstrip("*") for entry in there.get(DocstringSectionKind.parameters, [])]
    assert described == [one.name for one in arguments]
    returned = inspect.signature(function).return_annotation
    results = {DocstringSectionKind.returns, DocstringSectionKind.yields} & set(there)
    assert bool(results) or returned in ("None", "NoReturn", "Self", inspect.Signature.empty), "what is returned?"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name: str) -> None:
    public = PUBLIC[name]
    is_warning = inspect.isclass(public) and issubclass(public, Warning)
    assert is_warning or ">>>" in (inspect.getdoc(public) or "")


def test_methods_say_what_they_maximise() -> None:
    for method in (ss.CAFO, ss.CASO, ss.SmoothCAFO, ss.SmoothCASO):
        assert "$$" in (inspect.getdoc(method) or "")
