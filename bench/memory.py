"""Peak memory of one gradient and of one explanation, each in a process of its own (Linux).

python -m bench.memory lite0 gradient PHOTO        prints the bytes above the loaded model
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import torch

import secondsight as ss
from bench.photographs import model as load


def peak_bytes(name: str, what: str, photograph: Path) -> int:
    """Measured in a fresh process, with freed blocks given back to the system at once."""
    command = [sys.executable, "-m", "bench.memory", name, what, str(photograph)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def status(field: str) -> int:
    """VmRSS (resident now) or VmHWM (its peak), in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def main(name: str, what: str, photograph: str) -> None:
    model = load(name)
    x = model.tensor(photograph)

    def work() -> None:
        if what == "gradient":
            leaf = x[None].clone().requires_grad_()
            torch.autograd.grad(model(leaf).log_softmax(1).max(), leaf)
        else:
            ss.explain(model, x, method=what)

    # The first run imports parts of torch.
    work()
    gc.collect()
    before = status("VmRSS")
    # Makes the kernel forget the peak so far.
    Path("/proc/self/clear_refs").write_text("5")
    work()
    print(status("VmHWM") - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
