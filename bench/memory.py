"""Peak memory of one gradient and of one explanation, each in a process of its own.

python -m bench.memory lite0 gradient PHOTO        prints the bytes above the loaded model, after one plain forward pass
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import torch

import secondsight as ss
from bench.photographs import model as load


def peak_bytes(name: str, what: str, photograph: str) -> int:
    """Measured in a fresh process, with large blocks given back to the system at once."""
    command = [sys.executable, "-m", "bench.memory", name, what, photograph]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main(name: str, what: str, photograph: str) -> None:
    model = load(name)
    x = model.tensor(photograph)
    with torch.no_grad():
        model(x[None])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if what == "gradient":
        leaf = x[None].clone().requires_grad_()
        torch.autograd.grad(model(leaf).log_softmax(1).max(), leaf)
    else:
        ss.explain(model, x, method=what)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
