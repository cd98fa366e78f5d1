"""Golden maps: what the code gave before a move, to compare with what it gives after.

    python -m bench.golden record FILE.npz [--only lite0/caso]     # with the code that is trusted
    python -m bench.golden compare FILE.npz [--only random]        # with the code that was changed

A part is 40 photographs by one method on one network, one by one or all in one call, or 200 random problems (small
networks in float64: groups, indefinite Hessians, every rule for lambda1). Each part is stored in a file of its own
beside FILE, so that a recording that was cut short goes on where it stopped. Keep FILE outside the repository.

Two maps are the same if all of their bits are. Else they agree if the chosen lambda1 is the same to rounding and their
distance is at most what their certificates allow: |D - D'| <= sqrt(2 gap / mu) + sqrt(2 gap' / mu), plus rounding.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from torch import nn

import secondsight as ss
from bench.measure import console, method_with
from bench.photographs import model, photographs

PHOTOGRAPHS = 40
COPIES = 4
"""Noisy copies of the smooth methods: few, because only equality is looked at."""
PROBLEMS = 200
METHODS = ("cafo", "caso", "smooth-cafo", "smooth-caso")
MANY = "caso-many"
"""CASO for all photographs in one call."""
RANDOM = "random"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Golden:
    """What is kept of one explanation. mu: lower bound of the eigenvalues of 2 lambda2 I - H."""

    delta: NDArray[Any]
    lambda1: float
    gap: float
    mu: float
    products: int

    @classmethod
    def of(cls, e: ss.SparseExplanation) -> Golden:
        """Keep the map, its certificate and its cost."""
        mu = 2 * e.lambda2 - e.certificate.top_eigenvalue_bound
        products = e.products if isinstance(e, ss.SecondOrderExplanation) else 0
        return cls(e.delta.numpy(), e.lambda1, e.certificate.gap, mu, products)

    def verdict(self, other: Golden) -> str:
        """Compare with the map of other code: "equal", "agrees" or what is wrong."""
        if np.array_equal(self.delta, other.delta) and self.numbers() == other.numbers():
            return "equal"
        if not math.isclose(self.lambda1, other.lambda1, rel_tol=1e-5, abs_tol=1e-300):
            return f"lambda1 {self.lambda1:.6g} became {other.lambda1:.6g}"
        distance = float(np.linalg.norm((self.delta - other.delta).astype(np.float64)))
        size = float(np.linalg.norm(self.delta.astype(np.float64)))
        allowed = self._radius() + other._radius() + 1e-5 * size
        if not distance <= allowed:
            return f"moved by {distance:.3g} of {size:.3g}, allowed {allowed:.3g}"
        return "agrees" if self.products == other.products else f"products {self.products} became {other.products}"

    def numbers(self) -> tuple[float, ...]:
        """All that is kept beside the map."""
        return self.lambda1, self.gap, self.mu, self.products

    def _radius(self) -> float:
        return math.sqrt(2 * self.gap / self.mu) if self.mu > 0 else math.inf


def photograph_part(network: str, method: str) -> Iterator[ss.SparseExplanation]:
    """Explain the photographs on one network, the first of which pays for its checks."""
    classifier, files = model(network), photographs(PHOTOGRAPHS)
    if method == MANY:
        yield from ss.explain(classifier, files)
        return
    for file in track(files, f"{network} {method}", console=console, transient=True):
        yield ss.explain(classifier, file, method_with(method, n=COPIES))


def random_part() -> Iterator[ss.SparseExplanation]:
    """Explain random inputs of random networks with random options, each from a seed of its own."""
    for seed in range(PROBLEMS):
        generator = torch.Generator().manual_seed(seed)

        def pick(*choices: Any, generator: torch.Generator = generator) -> Any:
            return choices[int(torch.randint(len(choices), (), generator=generator))]

        size, classes = pick(12, 20, 48), pick(2, 4, 7)
        activation = pick(nn.ReLU, nn.LeakyReLU, nn.GELU, nn.Tanh, nn.Softplus)
        layers = [nn.Linear(size, 24), activation(), nn.Linear(24, 16), activation(), nn.Linear(16, classes)]
        net = nn.Sequential(*layers).double()
        for weights in net.parameters():
            weights.data = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
            weights.data *= pick(1.0, 2.0) / weights.shape[-1] ** 0.5
        method = pick("caso", "caso", "caso", "cafo", "smooth-caso", "smooth-cafo")
        # All are drawn, also those that the method does not have, so that a problem stays the same.
        options: dict[str, Any] = {
            "lambda1": pick("auto", "auto", "paper", 0.0, 1e-3, 0.05, (0.0, 1e-3, 1e-2)),
            "groups": pick("none", torch.arange(size) // 3, torch.arange(size) % 4),
            "curvature": pick("auto", "auto", "gauss-newton"),
            "certify": pick("chosen", "path"),
            "bound": pick("estimated", "estimated", "proven"),
            "c1": pick(0.05, 1.0, 10.0),
            "max_products": pick(3, 10, 100, 100),
            "n": 3,
        }
        x = torch.rand(size, generator=generator, dtype=torch.float64)
        yield ss.explain(ss.Classifier(net, input_shape=(size,)), x, method_with(method, **options))


PARTS: dict[str, Callable[[], Iterator[ss.SparseExplanation]]] = {RANDOM: random_part} | {
    f"{network}/{method}": lambda network=network, method=method: photograph_part(network, method)
    for network in ("lite0", "resnet50")
    for method in (*METHODS, MANY)
}


def file_of(base: Path, part: str) -> Path:
    """Name the file of a part after the whole."""
    return base.with_name(f"{base.stem}-{part.replace('/', '-')}.npz")


def write(file: Path, maps: list[Golden]) -> None:
    """Write a part under a temporary name first, because half of one would look whole."""
    arrays: Arrays = {"numbers": np.array([m.numbers() for m in maps])}
    arrays |= {f"delta{i}": m.delta for i, m in enumerate(maps)}
    temporary = file.with_suffix(".tmp.npz")
    np.savez_compressed(temporary, **arrays)
    temporary.replace(file)


def read(file: Path) -> list[Golden]:
    """Read what `write` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        rows = arrays["numbers"].tolist()
        return [Golden(arrays[f"delta{i}"], lambda1, gap, mu, int(n)) for i, (lambda1, gap, mu, n) in enumerate(rows)]


def record(base: Path, parts: list[str]) -> None:
    """Record the parts that are not there yet."""
    base.parent.mkdir(parents=True, exist_ok=True)
    for part in parts:
        if not file_of(base, part).exists():
            write(file_of(base, part), [Golden.of(e) for e in PARTS[part]()])
            console.print(f"{part}: recorded", highlight=False)


def compare(base: Path, parts: list[str]) -> bool:
    """Print how each part compares, and whether all agree."""
    good = True
    for part in parts:
        before = read(file_of(base, part))
        after = [Golden.of(e) for e in PARTS[part]()]
        verdicts = [a.verdict(b) for a, b in zip(before, after, strict=True)]
        wrong = [f"  {i}: {v}" for i, v in enumerate(verdicts) if v not in ("equal", "agrees")]
        counts = f"{verdicts.count('equal')} equal, {verdicts.count('agrees')} agree, {len(wrong)} differ"
        console.print("\n".join([f"{part}: {counts}", *wrong]), highlight=False)
        good = good and not wrong
    return good


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help=f"the parts whose name contains this: {', '.join(PARTS)}")
    arguments = parser.parse_args()
    parts = [part for part in PARTS if arguments.only in part]
    if not parts:
        parser.error(f"--only {arguments.only!r} is in no name; the parts are {', '.join(PARTS)}")
    # Maps that are all zero, or that a budget left without a certificate, are compared like the others.
    warnings.simplefilter("ignore", ss.SecondsightWarning)
    if arguments.action == "record":
        record(arguments.file, parts)
    elif not compare(arguments.file, parts):
        sys.exit(1)


if __name__ == "__main__":
    main()
