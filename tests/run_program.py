"""A program that tests start in a process of its own, to be killed: a run of a tiny network over a folder.

python run_program.py FOLDER OUT CHUNK SECONDS_OF_A_PASS MOST_BYTES_OF_A_FILE [ENGINE]

ENGINE is "ray", with two workers, or anything else for the local engine.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

import secondsight as ss

SIDE = 8


class Slow(torch.nn.Module):
    """Takes its time, so that there is time to kill it."""

    seconds = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return x


def network(seconds: float = 0.0) -> ss.Classifier:
    torch.manual_seed(3)
    slow = Slow()
    slow.seconds = seconds
    layers = (torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    return ss.Classifier(torch.nn.Sequential(slow, *layers, torch.nn.Linear(32, 4)), size=SIDE, name="tiny")


def main() -> None:
    folder, out, chunk, seconds, most, *engine = sys.argv[1:]
    chosen: dict[str, Any] = {"engine": "ray", "workers": 2} if engine == ["ray"] else {}
    if int(most):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    try:
        run = ss.run(network(float(seconds)), Path(folder), "caso", out=out, chunk=int(chunk), **chosen)
    except ss.SecondsightError as error:
        sys.exit(f"refused: {error}")
    sys.stdout.write(f"{len(run)}\n")


if __name__ == "__main__":
    main()
