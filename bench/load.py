"""How much a busy machine slows `explain`, beside how much it slows the gradient that it is made of.

    python -m bench.load [--models lite0,resnet50] [--rounds 8] [--json FILE]

The competing program multiplies matrices in two threads, and is stopped and continued. In each round a gradient and
a `caso` map are timed with the program stopped, then both with the program running. The slow-down is the ratio of the
two. The row of a network is the slow-down of `explain` over that of the gradient, the mean of the rounds by logarithms,
with Student's interval. It should be at most 1.5.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import track

import secondsight as ss
from bench import record
from bench.ab import interval
from bench.measure import console, loss_gradient, timed
from bench.photographs import MODELS, model, photographs
from bench.row import Figures

LIMIT = 1.5
"""What the slow-down of `explain` may be over that of the gradient."""

GRADIENTS = 8
"""Gradients of which the mean is taken: together they last about as long as a map."""

COMPETITOR = """
import threading, torch
torch.set_num_threads(1)
def work():
    a = torch.randn(300, 300)
    while True:
        a = (a @ a).tanh()
threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
work()
"""
"""Two threads that are never idle and never wait for each other."""


class Competitor:
    """Another program on the same cores, which runs only within `running`."""

    def __init__(self) -> None:
        """Start it, and stop it at once."""
        self.process = subprocess.Popen([sys.executable, "-c", COMPETITOR], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.process.send_signal(signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it run."""
        self.process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def measure(network: str, rounds: int) -> Figures:
    """Measure the slow-downs on one network."""
    classifier = model(network)
    inputs = [classifier.tensor(file) for file in photographs(rounds)]
    gradients = [loss_gradient(classifier, x[None]) for x in inputs]
    competitor = Competitor()

    def seconds(i: int) -> tuple[float, float]:
        gradient = timed(lambda: [gradients[i]() for _ in range(GRADIENTS)]) / GRADIENTS
        return gradient, timed(lambda: ss.explain(classifier, inputs[i], "caso"))

    slower = []
    try:
        seconds(0)
        for i in track(range(rounds), network, console=console, transient=True):
            alone = seconds(i)
            with competitor.running():
                busy = seconds(i)
            slower.append((busy[0] / alone[0], busy[1] / alone[1]))
    finally:
        competitor.end()
    ratio, low, high = interval(slower)
    gradient, explain = (statistics.median(some) for some in zip(*slower, strict=True))
    return {
        "gradient": gradient,
        "explain": explain,
        "ratio": ratio,
        "low": low,
        "high": high,
        "limit": LIMIT,
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path, help="file for what was measured, for bench.publish --take")
    arguments = parser.parse_args()
    found = {}
    for network in arguments.models.split(","):
        found[network] = f = measure(network, arguments.rounds)
        console.print(
            f"{network}: beside another program a gradient takes {f['gradient']:.1f} times as long, explain "
            f"{f['explain']:.1f} times: {f['ratio']:.2f} [{f['low']:.2f}, {f['high']:.2f}], at most {LIMIT:g}",
            highlight=False,
        )
        record.write(arguments.json, "load", found)


if __name__ == "__main__":
    main()
