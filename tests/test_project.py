"""What the files around the code say: version, changelog, make targets, hooks and the workflow."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import secondsight as ss

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_citation_has_the_version() -> None:
    assert read("CITATION.cff")["version"] == ss.__version__


def test_the_changelog_has_the_version_and_its_sections() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[([\d.]+)\]", text, re.MULTILINE)
    assert versions[0] == ss.__version__.partition(".dev")[0]
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Old names and new"}
    assert set(re.findall(r"^### (.*)", text, re.MULTILINE)) <= allowed


def test_make_help_lists_every_target() -> None:
    listed = subprocess.run(["make", "help"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    targets = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)[0].split()
    assert re.findall(r"^  make (\S+)", listed, re.MULTILINE) == targets


def test_the_workflow_runs_what_everybody_runs() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == [".ci/run"]
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("hook", read(".pre-commit-config.yaml")["repos"][0]["hooks"], ids=lambda hook: hook["id"])
def test_hooks_run_what_make_test_runs(hook: dict[str, Any]) -> None:
    command = hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
    recipe = re.findall(r"^test:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[0]
    assert f"$(BIN)/{command}" in recipe
