"""A result as one record of plain values, for tables and JSON. It has only the keys that its method has."""

from __future__ import annotations

import math
from typing import Any

from secondsight.config import CAFO
from secondsight.results.explanation import Explanation, PictureExplanation, SecondOrderExplanation, SparseExplanation


def summary(e: Explanation) -> dict[str, Any]:
    """List everything but the arrays, ready for JSON: numbers that are not finite are None."""
    record: dict[str, Any] = {
        "model": e.model,
        "target": e.target,
        "label": e.label,
        "probability": e.probability,
        "method": e.method.name,
        "options": _options(e),
        "seed": e.seed,
        "sparsity": e.sparsity,
        "zero_pixels": e.zero_pixels,
    }
    if isinstance(e, SparseExplanation):
        certificate = e.certificate
        record |= {
            "lambda1": e.lambda1,
            "lambda1_max": e.lambda1_max,
            "lambda2": e.lambda2,
            "groups": group_count(e),
            "gap": certificate.gap,
            "relative_gap": certificate.relative_gap,
            "tolerance": certificate.tolerance,
            "certified": certificate.holds,
            "basis": certificate.basis,
            "top_eigenvalue_bound": certificate.top_eigenvalue_bound,
        }
    if isinstance(e, SparseExplanation) and e.smoothing is not None:
        record |= {"copies": e.smoothing.copies, "standard_error": e.smoothing.standard_error}
    if isinstance(e, SecondOrderExplanation):
        record |= {
            "products": e.products,
            "curvature": e.curvature,
            "top_eigenvalue": e.top_eigenvalue,
        }
    if isinstance(e, (PictureExplanation, SecondOrderExplanation)):
        record |= {
            "second_order_angle": e.second_order.angle,
            "second_order_error": e.second_order.error,
            "second_order": e.second_order.sentence,
        }
    record |= {"notes": [str(note) for note in e.notes], "seconds": e.seconds}
    return {name: _finite(value) for name, value in record.items()}


def group_count(e: SparseExplanation) -> int | None:
    """Count the groups, or the windows; None where every entry stands by itself, or it is not known."""
    if e.window is not None:
        height, width = e.delta.shape[1:]
        return (height + e.window - 1) * (width + e.window - 1)
    # A result from a run may lack its groups.
    groups = getattr(e, "groups", None)
    return None if groups is None else int(groups.max()) + 1


def _options(e: Explanation) -> str:
    """Write the config as a short string, in which an array of groups is only a word."""
    method = e.method
    if isinstance(method, CAFO) and not isinstance(method.groups, str):
        return str(method.with_options(groups="none")).replace(method.name, f"{method.name}, groups=array", 1)
    return str(method)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
