"""The random problems of the campaign. A problem is a function of the seed and its number: the generator never changes.

What makes certificates fail is drawn on purpose: hidden, repeated and crowded eigenvalues, saturated predictions, tiny
and huge logits, two classes, float32.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import secondsight as ss

Activation = Callable[[], nn.Module]

RELU: dict[str, Activation] = {"relu": nn.ReLU, "leaky relu": nn.LeakyReLU}
CURVED: dict[str, Activation] = {"tanh": nn.Tanh, "gelu": nn.GELU, "softplus": nn.Softplus, "sigmoid": nn.Sigmoid}

WEIGHTS = {
    "mlp": 4,
    "conv": 2,
    "max-pool": 2,
    "curved": 4,
    "curved, gauss-newton": 2,
    "decaying": 2,
    "hidden": 2,
    "repeated": 2,
    "crowded": 2,
}
"""How often each kind of network is drawn."""

SPECTRA = ("decaying", "hidden", "repeated", "crowded")
"""The kinds that are linear networks whose Hessian has given eigenvalues."""


@dataclass(frozen=True)
class Problem:
    """One map to compute.

    Attributes:
        kind: of the network, a key of WEIGHTS.
        traits: what else was drawn, in words.
        net: the network, in the precision to compute in.
        x: the input, without batch dimension.
        target: the class to explain.
        method: the method and its options, without the basis of the certificate.
        curved: whether the exact Hessian of a curved network is meant.
    """

    kind: str
    traits: tuple[str, ...]
    net: nn.Module
    x: Tensor
    target: int
    method: ss.CASO
    curved: bool

    def classifier(self) -> ss.Classifier:
        """Make a classifier of which nothing is known yet."""
        if self.x.ndim == 3:
            return ss.Classifier(self.net, channels=self.x.shape[0], size=tuple(self.x.shape[1:]))
        return ss.Classifier(self.net, input_shape=tuple(self.x.shape))


class _Draw:
    """Random numbers of one problem."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{number}")
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(60))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, dtype=torch.float64)

    def power(self, low: float, high: float) -> float:
        """Draw a power of ten."""
        return float(10 ** self.random.uniform(low, high))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def problem(seed: int, number: int) -> Problem:
    """Draw a problem."""
    draw = _Draw(seed, number)
    kind = draw.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    traits = []
    if kind in SPECTRA:
        net, x, target = _with_spectrum(draw, kind)
    else:
        classes = 2 if draw.chance(0.1) else draw.whole(3, 40)
        if classes == 2:
            traits.append("two classes")
        net, x = _network(draw, kind, classes)
        target = int(net(x[None]).argmax()) if draw.chance(0.7) else draw.whole(0, classes - 1)
        traits += _rescale(draw, net, x, target)
    method, named = _method(draw, kind, x)
    traits += named
    if draw.chance(0.3):
        traits.append("float32")
        net, x = net.float(), x.float()
    return Problem(kind, tuple(traits), net.eval(), x, target, method, curved=kind == "curved")


def _method(draw: _Draw, kind: str, x: Tensor) -> tuple[ss.CASO, list[str]]:
    """Draw the options. A share of lambda1_max from a thousandth up, and now and then the automatic choice."""
    options: dict[str, Any] = {
        "c1": draw.power(-2, 3),
        "lambda1": "auto" if draw.chance(0.2) else f"{100 * draw.power(-3, 0):.6g}%",
        "tolerance": 1e-4 if draw.chance(0.7) else draw.power(-8, -2),
        "certify": "path" if draw.chance(0.1) else "chosen",
        "curvature": "gauss-newton" if kind == "curved, gauss-newton" else "auto",
    }
    traits = [f"c1 = {options['c1']:.2g}", f"lambda1 = {options['lambda1']}"]
    if draw.chance(0.25):
        traits.append("groups")
        numbers = draw.whole(2, max(2, x.numel() // 2))
        labels = torch.randint(numbers, (x.numel(),), generator=draw.generator).reshape(x.shape)
        options["groups"] = "pixel" if x.ndim == 3 and draw.chance(0.5) else labels
    if draw.chance(0.15):
        traits.append("smooth")
        return ss.SmoothCASO(**options, n=draw.whole(2, 5), sigma=draw.power(-2, -0.5)), traits
    return ss.CASO(**options), traits


def _network(draw: _Draw, kind: str, classes: int) -> tuple[nn.Sequential, Tensor]:
    """Draw a network with random weights, and an input."""
    if kind in ("conv", "max-pool"):
        channels, side, width = draw.random.choice((1, 3)), draw.whole(5, 8), draw.whole(3, 8)
        pool: list[nn.Module] = [nn.MaxPool2d(2)] if kind == "max-pool" else []
        inner = side // 2 if pool else side
        conv = nn.Conv2d(channels, width, 3, padding=1)
        layers = [conv, nn.ReLU(), *pool, nn.Flatten(), nn.Linear(width * inner**2, classes)]
        x = draw.uniform(channels, side, side)
    else:
        size, width = draw.whole(8, 160), draw.whole(8, 64)
        names = RELU if kind == "mlp" else CURVED
        activation = names[draw.random.choice(list(names))]
        layers = [nn.Linear(size, width), activation(), nn.Linear(width, classes)]
        if draw.chance(0.5):
            layers[2:2] = [nn.Linear(width, width), activation()]
        x = draw.normal(size)
    net = nn.Sequential(*layers).double()
    for weights in net.parameters():
        fan = weights[0].numel() if weights.ndim > 1 else 10
        weights.data = draw.normal(*weights.shape) * (2 / fan) ** 0.5
    return net, x


def _with_spectrum(draw: _Draw, kind: str) -> tuple[nn.Sequential, Tensor, int]:
    """Make a linear network whose Hessian at x has given eigenvalues.

    With B = W Ls, H = BB' and Ls Ls' = diag p - pp': W = U sqrt(values) V' Ls^+ for orthonormal columns U and V, those
    of V orthogonal to sqrt(p), the null vector of Ls. "hidden": the first column of V has no part in the gradient.
    """
    values = _eigenvalues(draw, kind)
    rank = len(values)
    classes, size = rank + draw.whole(2, 12), rank + draw.whole(0, 40)
    p = (draw.normal(classes) * draw.random.uniform(0, 1.5)).softmax(0)
    target = int(p.argmax())
    root = torch.diag(p.sqrt()) - torch.outer(p, p.sqrt())
    away = [p.sqrt()]
    if kind == "hidden":
        # g = W (p - y) = U sqrt(values) V' Ls^+ (p - y).
        cotangent = p - nn.functional.one_hot(torch.tensor(target), classes)
        away.append(torch.linalg.pinv(root) @ cotangent)
    columns, _ = torch.linalg.qr(torch.stack([*away, *draw.normal(rank, classes)], 1))
    v = columns[:, len(away) :]
    if kind == "hidden" and rank > 1:
        # The others share the gradient's direction, which they were made orthogonal to.
        v, _ = torch.linalg.qr(torch.stack([v[:, 0], *(v[:, 1:] + columns[:, 1:2] * draw.normal(rank - 1)).T], 1))
    u, _ = torch.linalg.qr(draw.normal(size, rank))
    layer = nn.Linear(size, classes).double()
    x = draw.normal(size)
    with torch.no_grad():
        layer.weight.copy_((u * values.sqrt() @ v.T @ torch.linalg.pinv(root)).T)
        layer.bias.copy_(p.log() - layer.weight @ x)
    return nn.Sequential(layer), x, target


def _eigenvalues(draw: _Draw, kind: str) -> Tensor:
    """Draw falling eigenvalues: with a hidden top, a repeated top, a crowd near the top, or none of these."""
    top = draw.power(-2, 3)
    if kind == "crowded":
        count, width = draw.whole(20, 200), draw.power(-3, -0.5)
        return top * (1 - width * draw.uniform(count).sort().values)
    decay = draw.random.uniform(0.3, 0.95)
    values = top * decay ** torch.arange(draw.whole(2, 30), dtype=torch.float64)
    if kind == "repeated":
        values[: draw.whole(2, len(values))] = top
    return values


@torch.no_grad()
def _rescale(draw: _Draw, net: nn.Sequential, x: Tensor, target: int) -> list[str]:
    """Multiply the logits, and now and then make the prediction nearly certain. Say so in words."""
    scale = draw.power(-2, 2)
    last = net[-1]
    last.weight.mul_(scale)
    last.bias.mul_(scale)
    traits = [f"logits times {scale:.2g}"]
    if draw.chance(0.15):
        rest = torch.tensor(draw.power(-12, -1), dtype=torch.float64)
        traits.append(f"1 - p = {float(rest):.0e}")
        logits = net(x[None])[0]
        others = torch.cat([logits[:target], logits[target + 1 :]]).logsumexp(0)
        last.bias[target] += others + (-rest).log1p() - rest.log() - logits[target]
    return traits
