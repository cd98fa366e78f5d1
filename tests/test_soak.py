"""A thousand explanations in one process: memory must not grow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = """
import gc, itertools, pathlib, re
import secondsight as ss

def resident():
    gc.collect()
    return int(re.search(r"VmRSS:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024

model = ss.load_model()
names = "caso", "cafo", "caso(groups=pixel)", "gradient", "caso(groups=window:8)", "caso(certify=path)"
methods = itertools.cycle(names)
for done in range(1, COUNT + 1):
    file = str(ss.example_photograph())
    ss.explain(model, file, next(methods), target=done % 1000, seed=done)
    if done % 50 == 0:
        # In one call, with threads of our own.
        for _ in ss.explain(model, [file] * 4):
            pass
    if done in (COUNT // 10, COUNT):
        print(resident(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_thousand_explanations_leave_no_memory_behind() -> None:
    script = SOAK.replace("COUNT", "1000")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=3600)
    early, late = map(float, done.stdout.split())
    assert late - early < 20
