"""From what was asked to a CASO solver: the problem in units of the gradient, and what its certificate rests on."""

from __future__ import annotations

from collections.abc import Sequence

from secondsight.config import CASO
from secondsight.operators.base import SymmetricOperator
from secondsight.operators.full_factor import is_small, proven_bounds
from secondsight.operators.loss_hessian import LossHessian
from secondsight.optim.caso import CasoSolver
from secondsight.optim.eigenvalue_bounds import Bounds, Estimated, Probable, Proven, TopBound
from secondsight.optim.metered_operator import MeteredOperator
from secondsight.optim.softmax_rounding import SoftmaxRounding
from secondsight.results.builder import ResultBuilder


def caso_solver(
    build: ResultBuilder, method: CASO, H: LossHessian, shared: SymmetricOperator, notes: Sequence[str]
) -> CasoSolver:
    """Make the solver of one input.

    Args:
        build: g, the penalty and the units.
        method: what was asked.
        H: the Hessian.
        shared: the operator that takes the products with H, perhaps together with those of other inputs.
        notes: what a reader of the result should know of H.
    """
    bound, rounding = _bound(method, H, build.curvature_unit)
    return CasoSolver(
        gradient=build.unit_gradient,
        H=MeteredOperator(shared, method.max_products, build.request.progress, build.curvature_unit),
        penalty=build.penalty,
        sparsity=build.sparsity,
        c1=build.c1(),
        lambda2=method.lambda2,
        tolerance=method.tolerance,
        seed=build.request.seed,
        dtype=build.dtype,
        bound=bound,
        softmax=build.softmax_rounding(rounding, H.uncertainty),
        notes=list(notes),
    )


def _bound(method: CASO, H: LossHessian, unit: float) -> tuple[TopBound, float]:
    """Choose how the certificate bounds L, and estimate how far rounding may move a logit.

    The bound is proven where that is asked for, or where "auto" finds that it costs little.
    """
    if method.bound == "proven" or (method.bound == "auto" and is_small(H)):
        rounding = H.logit_rounding(careful=True)
        top, negative, diagonal = proven_bounds(H, SoftmaxRounding(rounding).factor)
        diagonal = None if diagonal is None else diagonal / unit
        return Proven(Bounds(top / unit, negative / unit, diagonal)), rounding
    if method.bound == "probable":
        return Probable(method.failure), H.logit_rounding(careful=True)
    return Estimated(), H.logit_rounding(careful=False)
