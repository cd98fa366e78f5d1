"""What each operation of torch does to tangents: one file for each family of operations."""

from secondsight.operators.tape.rules import (
    activations,
    arithmetic,
    attention,
    curved_activations,
    layers,
    pooling,
    reductions,
    shapes,
)
from secondsight.operators.tape.rules.registry import RULES, Call, Outcome, Placed
from secondsight.operators.tape.rules.shapes import CONSTANT, DETACH

__all__ = [
    "CONSTANT",
    "DETACH",
    "RULES",
    "Call",
    "Outcome",
    "Placed",
    "activations",
    "arithmetic",
    "attention",
    "curved_activations",
    "layers",
    "pooling",
    "reductions",
    "shapes",
]
