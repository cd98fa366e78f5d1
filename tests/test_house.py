"""The shape of the code: one name for each file, one home for each idea, and a way from the solver to the network."""

from __future__ import annotations

import ast
import re
import traceback
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

import secondsight as ss
from cases import PIECEWISE_LINEAR
from secondsight.operators.tape.linear_steps import Mask

HOUSE = Path(ss.__file__).parent
CONV = PIECEWISE_LINEAR[3]


def modules(folder: str = "") -> list[Path]:
    return sorted((HOUSE / folder).rglob("*.py"))


def test_every_file_name_stands_once() -> None:
    names = Counter(path.name for path in modules())
    assert {name for name, count in names.items() if count > 1} <= {"__init__.py", "base.py"}


def test_the_solver_asks_no_operator_what_it_is() -> None:
    asking = re.compile(r"isinstance|type\(.*\) is")
    assert modules("optim")
    assert [path.name for path in modules("optim") if asking.search(path.read_text())] == []


def test_the_pipeline_fits_on_a_screen() -> None:
    assert len((HOUSE / "pipeline.py").read_text().splitlines()) < 150


def unexplained(source: str) -> list[str]:
    """The constants of a module that neither a docstring below nor a comment above or beside them explains."""
    body, lines = ast.parse(source).body, source.splitlines()
    names = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        constants = [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
        has_docstring = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        above, beside = ["", *lines][node.lineno - 1 : node.lineno + 1]
        has_comment = above.startswith("#") or "#" in beside
        is_type = isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
        if not has_docstring and not has_comment and not is_type:
            names += constants
    return names


def test_every_constant_has_a_reason() -> None:
    assert unexplained("A_LIMIT = 3\nB_LIMIT = 4  # memory\nC_LIMIT = 5") == ["A_LIMIT", "C_LIMIT"]
    found = {str(path.relative_to(HOUSE)): unexplained(path.read_text()) for path in modules()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("inputs", [1, 3], ids=["alone", "batch"])
@pytest.mark.parametrize("step", ["forward", "transpose"])
def test_a_stack_leads_from_the_pipeline_through_the_solver_to_the_network(
    inputs: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a debugger shows inside a step of the tape, also where one pass answers several inputs."""
    model = CONV.classifier()
    x = list(torch.rand((inputs, *CONV.x.shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    ss.explain(model, x)
    stacks: list[list[str]] = []
    right = getattr(Mask, step)

    def watched(self: Mask, may_overwrite: bool, tangent: Tensor) -> object:
        stacks.append([frame.filename for frame in traceback.extract_stack()])
        return right(self, may_overwrite, tangent)

    monkeypatch.setattr(Mask, step, watched)
    ss.explain(model, x[0] if inputs == 1 else x)
    found = [[Path(name).relative_to(HOUSE) for name in stack if name.startswith(str(HOUSE))] for stack in stacks]
    in_solver = [stack for stack in found if any(path.parts[0] == "optim" for path in stack)]
    assert in_solver
    for stack in in_solver:
        order = [path.parts[0] for path in stack]
        assert order.index("pipeline.py") < order.index("optim") < order.index("operators")
