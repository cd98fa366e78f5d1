"""One thread per test process: the matrices are small, and the processes run side by side."""

import torch

torch.set_num_threads(1)
