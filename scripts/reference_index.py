"""What the reference describes beside methods and commands, which it finds by itself."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

PUBLIC = "true"
"""All members with a name that does not begin with an underscore: the default filters of mkdocs.yml leave these out."""


@dataclass(frozen=True)
class Entry:
    """A page of one class or function.

    Attributes:
        title: its public name.
        path: where it is defined.
        members: the members that are shown, as mkdocstrings takes them.
        more: what the page says after the docstring.
        words: what the list of all pages says of it; by default the first line of its docstring.
    """

    title: str
    path: str
    members: str = "false"
    more: str = ""
    words: str = ""

    @property
    def file(self) -> str:
        """The name of the page."""
        return self.title

    @property
    def object(self) -> object:
        """The class or function."""
        module, _, name = self.path.rpartition(".")
        return pkgutil.resolve_name(f"{module}:{name}")


METHOD = Entry(
    "Method",
    "secondsight.config.Method",
    "[from_string, to_json, from_json, changed, has, with_options, options, defaults]",
)

FUNCTIONS = (
    Entry("explain", "secondsight.api.explain"),
    Entry("explain_batches", "secondsight.api.explain_batches"),
    Entry("compare", "secondsight.comparison.compare"),
    Entry("sweep", "secondsight.path_sweep.sweep"),
    Entry("Classifier", "secondsight.model.classifier.Classifier", "[__call__, device, load, split]"),
    Entry("load_model", "secondsight.zoo.catalogue.load_model"),
    Entry("example_photograph", "secondsight.model.images.example_photograph"),
    Entry("PRESETS", "secondsight.presets.PRESETS", words="The hyper-parameters of the paper's tables"),
    Entry("run", "secondsight.runs.dataset_run.run"),
    Entry("open_run", "secondsight.runs.stored_run.open_run"),
)

RESULTS = (
    Entry(
        "Explanation", "secondsight.results.explanation.Explanation", "[map, zero_pixels, summary, figure, save, load]"
    ),
    Entry("SparseExplanation", "secondsight.results.explanation.SparseExplanation", "[window]"),
    Entry("SecondOrderExplanation", "secondsight.results.explanation.SecondOrderExplanation"),
    Entry("PictureExplanation", "secondsight.results.explanation.PictureExplanation"),
    Entry("Certificate", "secondsight.results.certificate.Certificate", "[holds]"),
    Entry("Support", "secondsight.optim.proof.Support", "[undecided]"),
    Entry("PathPoint", "secondsight.results.explanation.PathPoint"),
    Entry("SecondOrder", "secondsight.results.explanation.SecondOrder"),
    Entry("Smoothing", "secondsight.results.explanation.Smoothing"),
    Entry("Comparison", "secondsight.comparison.Comparison", "[summaries, figure, save]"),
    Entry("Entry", "secondsight.comparison.Entry", "[summary]"),
    Entry("Sweep", "secondsight.path_sweep.Sweep", "[summaries, figure, save]"),
    Entry("StoredRun", "secondsight.runs.stored_run.StoredRun", PUBLIC),
    Entry("Standing", "secondsight.runs.standing.Standing", "[seconds, seconds_left]"),
)

INTERNAL = """Not in `secondsight` itself: most programs use [`InputHessian`](InputHessian.md), which chooses such a
Hessian.
"""

OPERATORS = (
    Entry("input_hessian", "secondsight.operators.input_hessian.input_hessian"),
    Entry(
        "InputHessian",
        "secondsight.operators.input_hessian.InputHessian",
        "[gradient, matmul, eigh, factor, trace]",
    ),
    Entry(
        "SymmetricOperator",
        "secondsight.operators.base.SymmetricOperator",
        "[size, shape, times_rows, __matmul__]",
        more="This is the contract between network and solver. The solver knows H only through it, so it also solves "
        "problems that have no network.\n",
    ),
    Entry(
        "GaussNewton",
        "secondsight.operators.gauss_newton.GaussNewton",
        more=INTERNAL
        + r"""
$$
H = W \bigl(\operatorname{diag} p - p p^\top\bigr) W^\top
$$

W is the d x c Jacobian of the logits, p the probabilities. A product takes one tangent pass and one backward pass.

```python
import torch

import secondsight as ss

net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
model = ss.Classifier(net, input_shape=(6,))
h = ss.input_hessian(model, torch.randn(6), curvature="gauss-newton")
values, _ = h.eigh()
assert h.kind == "gauss-newton" and bool((values > 0).all()) and len(values) < 3
```
""",
    ),
    Entry(
        "ExactHessian",
        "secondsight.operators.exact_hessian.ExactHessian",
        more=INTERNAL
        + r"""
$$
\begin{aligned}
H = {}& W \bigl(\operatorname{diag} p - p p^\top\bigr) W^\top \\
&+ \sum_k (p - y)_k \nabla^2 f_k
\end{aligned}
$$

The second part is the curvature of the logits f. It is zero where the network is piecewise linear.

```python
import torch

import secondsight as ss

net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
model = ss.Classifier(net, input_shape=(6,))
h = ss.input_hessian(model, torch.randn(6), curvature="exact")
v = torch.randn(6).double()
assert h.kind == "exact" and h.matmul(v).shape == (6,)
```
""",
    ),
    Entry(
        "AveragedHessian",
        "secondsight.operators.averaged.AveragedHessian",
        more=INTERNAL
        + r"""
$$
\begin{gathered}
H = \frac{1}{n} \sum_{i=1}^{n} H(x + z_i) , \\
z_i \sim \mathcal{N}\bigl(0, (\sigma r)^2 I\bigr)
\end{gathered}
$$

r is the range of the input, max - min. `SmoothCASO` uses it, and `SmoothCAFO` its gradient.

```python
import torch

import secondsight as ss

net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
model = ss.Classifier(net, input_shape=(6,))
e = ss.explain(model, torch.randn(6), ss.SmoothCASO(n=8, sparsity_range=(0.0, 1.0)))
assert e.smoothing.copies == 8 and e.certificate.holds
```
""",
    ),
)

ERRORS = (
    "secondsight.errors.SecondsightError",
    "secondsight.errors.InputError",
    "secondsight.errors.ImageError",
    "secondsight.errors.ModelError",
    "secondsight.errors.NotStoredError",
    "secondsight.captum.TargetError",
    "secondsight.errors.SecondsightWarning",
)
