"""What the rounding of the logits does to g = W (p - y) and to H = W (diag p - pp') W'.

All products contain this error, so comparing products cannot show it. If the logits are off by e with |e_k| <= t, then
g is off by W (diag p - pp') e. Its length is at most sqrt(L) times the standard deviation of e under p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST_EXPONENT = 700.0
"""exp overflows above 709. Far smaller exponents already leave nothing proven."""


@dataclass(frozen=True)
class SoftmaxRounding:
    """The error of g + HD that comes from the logits.

    Attributes:
        logits: how far a logit may be off.
        spread: sqrt(1 - p_y), in the units of the solver's gradient.
    """

    logits: float = 0.0
    spread: float = 0.0

    @property
    def factor(self) -> float:
        """Bound the factor by which H may grow. With logits off by t, probabilities grow by at most exp(2t)."""
        return math.exp(min(2 * self.logits, LARGEST_EXPONENT))

    def error(self, top: float, quadratic: float) -> float:
        """Bound the length of the error, given L and D'HD."""
        # The 2 comes from e_k - e_y, the 3 from the two factors p_k and the mean under p.
        return self.logits * math.sqrt(max(top, 0.0)) * (2 * self.spread + 3 * math.sqrt(max(quadratic, 0.0)))
