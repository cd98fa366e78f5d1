"""Results in words: titles, captions, and what second order does."""

from __future__ import annotations

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
    of = " of windows" if e.window else " of groups" if e.groups is not None else ""
    return f"{e.method.title}, {e.sparsity:.0%}{of} zero, {proof(e)}"


def subtitle(e: Explanation) -> str:
    """Say what second order does, and what the noise left to chance; empty where the method tells neither."""
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
