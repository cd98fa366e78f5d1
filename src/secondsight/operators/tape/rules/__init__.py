"""What each operation of torch does to tangents: one file for each family of operations."""

from secondsight.operators.tape.rules import activations, arithmetic, layers, pooling, shapes
from secondsight.operators.tape.rules.registry import RULES, Call
from secondsight.operators.tape.rules.shapes import DETACH, FREE

__all__ = ["DETACH", "FREE", "RULES", "Call", "activations", "arithmetic", "layers", "pooling", "shapes"]
