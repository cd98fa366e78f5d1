"""The certificate of a map: how far it is at most from the best one, and what the proof rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from secondsight.optim.eigenvalue_bounds import Basis
from secondsight.optim.proof import Support
from secondsight.results.field_limits import limits


@dataclass(frozen=True)
class Certificate:
    """The proof of how near a map is to the optimum of its objective.

    Example:
        >>> import secondsight as ss
        >>> proof = ss.explain(ss.load_model(), ss.example_photograph()).certificate
        >>> proof.holds, proof.relative_gap <= proof.tolerance, proof.basis
        (True, True, 'estimated')

    Attributes:
        gap: an upper bound of the optimal objective minus the objective of the map.
        relative_gap: the gap over |objective|.
        tolerance: the relative gap that was asked for.
        basis: what the proof rests on. "exact": the map is a closed form. The others rest on an upper bound of the
            Hessian's largest eigenvalue. "proven": from all of the Hessian. "probable": from a random start; it is
            wrong with the probability `failure` of the method at most. "estimated": from what the products have
            shown, with a margin; it rests on experience, not on a theorem.
        top_eigenvalue_bound: that upper bound; infinite where there is none; 0 for methods without a Hessian.
        support: which zeros and non-zeros of the *optimal* map are proven.
    """

    gap: float = field(metadata=limits(0, math.inf, nan=True))
    relative_gap: float = field(metadata=limits(0, math.inf, nan=True))
    tolerance: float = field(metadata=limits(0))
    basis: Basis
    top_eigenvalue_bound: float = field(metadata=limits(0, math.inf))
    support: Support = field(repr=False, metadata=limits(array="mask"))

    @property
    def holds(self) -> bool:
        """Whether the relative gap is proven to be at most the tolerance."""
        return self.relative_gap <= self.tolerance
