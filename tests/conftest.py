"""One thread per test process, for the matrices are small and processes run side by side; fixed examples in CI."""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
