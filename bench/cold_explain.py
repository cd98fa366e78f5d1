"""Where the first map of a new process spends its time: the child process of bench.startup.

    python -m bench.cold_explain PHOTO FOLDER     # run `secondsight explain`; stderr gets the seconds by part, as JSON

Nothing is imported here that the command would import itself, because importing is a part of what is timed.
"""

from __future__ import annotations

import builtins
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from bench.stopwatch import Part, Stopwatch

PACKAGES = {
    "torch": "torch",
    "torchgen": "torch",
    "functorch": "torch",
    # torch imports sympy, and sympy imports mpmath.
    "sympy": "torch",
    "mpmath": "torch",
    "matplotlib": "matplotlib",
    "mpl_toolkits": "matplotlib",
    # What matplotlib imports.
    "contourpy": "matplotlib",
    "cycler": "matplotlib",
    "dateutil": "matplotlib",
    "fontTools": "matplotlib",
    "kiwisolver": "matplotlib",
    "pyparsing": "matplotlib",
    "captum": "captum",
    "scipy": "scipy",
    "numpy": "numpy",
    "PIL": "pil",
    "rich": "terminal",
    "typer": "terminal",
    # What rich and typer import.
    "click": "terminal",
    "markdown_it": "terminal",
    "pygments": "terminal",
    "secondsight": "own",
}
"""What the time for importing a package counts for, by the package's name. All others count as "other"."""
IMPORTS = {"torch": "import_torch", "matplotlib": "import_matplotlib", "own": "import_own"}
"""The parts of importing; "import_other" has the rest."""
STAGES = (
    Part("load", "cli.explain_command", "checked_model"),
    Part("explain", "cli.explain_command", "_Batches._explain"),
    Part("draw", "results.explanation", "Explanation.figure"),
    Part("draw", "results.storage", "save_figure"),
    Part("network", "model.classifier", "Classifier.logits"),
    Part("network", "operators.jacobian", "Jacobian.jvp"),
    Part("network", "operators.jacobian", "Jacobian.vjp"),
)


def package_of(module: str) -> str:
    """What the time for importing a module counts for."""
    return PACKAGES.get(module.partition(".")[0], "other")


def timed_import(watch: Stopwatch) -> Callable[..., Any]:
    """Return an `__import__` that times itself by package."""
    original = builtins.__import__

    def timed(name: str, namespace: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
        # "from .x import y" names no package: it is the one of the module that says so.
        package = package_of(namespace["__package__"] if level else name)
        part = Part(IMPORTS.get(package, "import_other"))
        return watch.call(part, original, name, namespace, local, names, level)

    return timed


def explain(watch: Stopwatch, photograph: str, folder: str) -> None:
    """Run `secondsight explain`, with its stages timed."""
    for module in ("cli", *(part.module for part in STAGES)):
        watch.call(Part("import_own"), importlib.import_module, f"secondsight.{module}")
    with watch.watching(STAGES):
        sys.modules["secondsight.cli"].main(["explain", photograph, "--out", folder])


def main(photograph: str, folder: str) -> None:
    watch = Stopwatch()
    builtins.__import__ = timed_import(watch)
    watch.call(Part("rest"), explain, watch, photograph, folder)
    sys.stderr.write(json.dumps(watch.seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
