"""Peak memory of one gradient, one explanation or one spectrum, each in a process of its own (Linux).

python -m bench.memory lite0 gradient PHOTO        prints the bytes above the loaded model
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

import secondsight as ss
from bench.curved_networks import ARCHITECTURES, classifier
from bench.measure import method_with
from bench.paper import Pearlmutter
from bench.photographs import model as load

EIGENPAIRS = 20
WINDOWS = ss.CASO(groups="window:8")


def peak_bytes(name: str, what: str, photograph: Path) -> int:
    """Measured in a fresh process, with freed blocks given back to the system at once."""
    command = [sys.executable, "-m", "bench.memory", name, what, str(photograph)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def status(field: str) -> int:
    """VmRSS (resident now) or VmHWM (its peak), in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def work(model: ss.Classifier, x: Tensor, what: str, warm_up: bool) -> int:
    """Do what is measured, or a small part of it; how many bytes of the result do not count."""
    kind, _, more = what.partition("-")
    if what == "gradient":
        leaf = x[None].clone().requires_grad_()
        torch.autograd.grad(model(leaf).log_softmax(1).max(), leaf)
    elif what == "eigenpairs":
        ss.input_hessian(model, x).eigh(1 if warm_up else EIGENPAIRS)
    elif what == "factor":
        h = ss.input_hessian(model, x)
        if not warm_up:
            return int(h.factor().untyped_storage().nbytes())
        h.matmul(h.gradient)
    elif what == "paper":
        # Its later steps only add a few vectors to the graph of the gradient.
        with model.ready():
            hessian = Pearlmutter(model, x)
            hessian.product(hessian.gradient)
    elif kind == "batch":
        ss.explain(model, [x] * (1 if warm_up else int(more)))
    elif what in ("caso-exact", "caso-gauss-newton"):
        ss.explain(model, x, ss.CASO(curvature=more))
    elif what == "caso-path":
        ss.explain(model, x, ss.CASO(certify="chosen" if warm_up else "path"))
    elif what in ("picture", "caso-window"):
        ss.explain(model, x, ss.Picture() if what == "picture" else WINDOWS)
    else:
        size = 10 if what in ("smoothgrad", "integrated-gradients") else None
        count = 2 if warm_up else 50
        ss.explain(model, x, method_with(what, n=count, n_steps=count, batch_size=size))
    return 0


def main(name: str, what: str, photograph: str) -> None:
    model = classifier(name) if name in ARCHITECTURES else load(name)
    x = model.tensor(photograph)
    # The first run imports parts of torch.
    work(model, x, what, warm_up=True)
    gc.collect()
    before = status("VmRSS")
    # Makes the kernel forget the peak so far.
    Path("/proc/self/clear_refs").write_text("5")
    result = work(model, x, what, warm_up=False)
    print(status("VmHWM") - before - result)


if __name__ == "__main__":
    main(*sys.argv[1:])
