"""Results in words: titles, captions, and what second order does."""

from __future__ import annotations

import math

from secondsight.config import CASO
from secondsight.results.explanation import (
    Explanation,
    PictureExplanation,
    SecondOrder,
    SecondOrderExplanation,
    SparseExplanation,
)

HARDLY, SOMEWHAT = 5.0, 20.0
"""Degrees: below the first, maps of first and second order look the same; from the second on, they look different."""


def title(e: Explanation) -> str:
    """Name the network, the class and its probability."""
    named = f"{e.label}, p = {e.probability:.3g}"
    return f"{e.model}: {named}" if e.model else named


def proof(e: Explanation) -> str:
    """Put the certificate into a word or two; empty where the method has none."""
    if not isinstance(e, SparseExplanation):
        return ""
    if not e.certificate.holds:
        return "not certified"
    return f"gap {e.certificate.relative_gap:.0e}" if e.certificate.gap else "exact"


def caption(e: Explanation) -> str:
    """Name the method, the share of zeros and the proof."""
    if not isinstance(e, SparseExplanation):
        return e.method.title
    of = " of windows" if e.window else " of groups" if getattr(e, "groups", 0) is not None else ""
    return f"{e.method.title}, {e.sparsity:.0%}{of} zero, {proof(e)}"


def subtitle(e: Explanation) -> str:
    """Say what second order does, and the standard error of the average; empty where the method tells neither."""
    lines = [e.second_order.sentence] if isinstance(e, (PictureExplanation, SecondOrderExplanation)) else []
    if isinstance(e, SparseExplanation) and e.smoothing is not None and e.smoothing.standard_error is not None:
        lines.append(f"{e.smoothing.copies} noisy copies: standard error {e.smoothing.standard_error:.0%}.")
    return " ".join(lines)


def second_order(method: CASO, angle: float, error: float) -> SecondOrder:
    """Put the angle between CAFO and CASO, with its error, into words."""
    if error > max(HARDLY, angle / 2):
        verdict = "Whether second order matters for this input was not settled"
    elif angle < HARDLY:
        verdict = "Second order hardly matters for this input"
    elif angle < SOMEWHAT:
        verdict = "Second order matters somewhat for this input"
    else:
        verdict = "Second order matters for this input"
    within = f" (to within {error:.1f})" if error > 1 else ""
    names = f"{method.title} and {method.first_order.title}"
    return SecondOrder(angle, error, f"{verdict}: without sparsity, {names} point {angle:.1f} degrees apart{within}.")


def certificate(e: SparseExplanation) -> str:
    """Say how near the map is proven to be to the best one."""
    c = e.certificate
    if not c.gap and c.holds:
        return "No map has a higher objective than this one."
    if math.isinf(c.gap):
        return "Nothing is proven of how near this map is to the best one."
    return f"The best map's objective is higher than this one's by at most {c.gap:.1e}, or {c.relative_gap:.0e} of it."


def basis(e: SparseExplanation) -> str:
    """Say what the certificate rests on."""
    if e.certificate.basis == "exact":
        return "Basis: exact. The map is a closed form."
    bound = "an upper bound of the Hessian's largest eigenvalue"
    if e.certificate.basis == "proven":
        return f"Basis: proven. It rests on {bound} that follows from the whole Hessian."
    if e.certificate.basis == "probable":
        failure = f" of at most {e.method.failure:.1g}" if isinstance(e.method, CASO) else ""
        return f"Basis: probable. It rests on {bound} from a random start, which is wrong with a probability{failure}."
    return (
        f"Basis: estimated. It rests on {bound} from what the products with it have shown, with a margin. "
        "Experience stands behind that, no theorem."
    )
