"""The evidence that a proof starts from, and its result. Each penalty has its own proof."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Support:
    """What the certificate proves of the optimum's zeros: two masks of the input's shape, which never overlap.

    Entries in neither mask are undecided, because the gap is too large to tell.

    Example:
        >>> import secondsight as ss
        >>> support = ss.explain(ss.load_model(), ss.example_photograph()).certificate.support
        >>> bool((support.zero & support.nonzero).any()), bool(support.zero.float().mean() > 0.9)
        (False, True)

    Attributes:
        nonzero: entries that are not zero in the optimal map.
        zero: entries that are zero in the optimal map.
    """

    nonzero: Tensor
    zero: Tensor

    @property
    def undecided(self) -> Tensor:
        """Entries of which nothing is proven."""
        return ~(self.nonzero | self.zero)


@dataclass(frozen=True)
class Origin:
    """Where a map comes from: D = S(y, lambda1) / a, with S the threshold of the penalty, up to the rounding of D.

    Attributes:
        y: g + HD as the solver knew it.
        lambda1: the weight of the penalty.
        a: what S is divided by, 2 lambda2 + shift.
    """

    y: Tensor
    lambda1: float
    a: float


@dataclass(frozen=True)
class Evidence:
    """A map and its exact product, with what is known of Q = 2 lambda2 I - H >= mu I.

    Attributes:
        delta: the map D.
        pull: g + HD.
        lambda1: the weight of the penalty.
        lambda2: the weight of |D|^2.
        mu: a lower bound of Q's eigenvalues, above 0.
        negative: an upper bound of -(smallest eigenvalue of H).
        error: the largest length that the rounding error of `pull` may have.
        shift: what was added to H to make it semidefinite, where the penalty depends on it.
        origin: where the map comes from, where the penalty needs to know.
        diagonal: upper bounds of H's diagonal, where all of a semidefinite H is known.
    """

    delta: Tensor
    pull: Tensor
    lambda1: float
    lambda2: float
    mu: float
    negative: float
    error: float
    shift: float
    origin: Origin | None
    diagonal: Tensor | None = None


@dataclass(frozen=True)
class Proof:
    """What follows from the evidence.

    Attributes:
        gap: an upper bound of optimum minus objective.
        gap_without_rounding: the same if `error` were 0.
        support: which entries of the optimum are zero, and which are not.
    """

    gap: float
    gap_without_rounding: float
    support: Support
