"""The figures of networks that are not piecewise linear, from what `secondsight paper non-relu` has written.

    secondsight paper non-relu --images DIR --model NAME,NAME --out OUT
    python -m bench.non_relu OUT [--json FILE]

OUT has a folder for each network with its non-relu.json, whose summary is taken. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench import record
from bench.measure import console
from bench.page_tables import NON_RELU

FOLDERS = {
    "lite0-softplus": "efficientnet-lite0",
    "resnet50-softplus": "resnet50-v1",
    "mobilenetv3": "timm-tf_mobilenetv3_small_100",
    "vit-tiny": "timm-vit_tiny_patch16_224",
}
"""Where the command writes the results of each network."""


def figures(out: Path) -> dict[str, Any]:
    """Read the summary of each network."""
    found = {}
    for key in NON_RELU:
        written = json.loads((out / FOLDERS[key] / "non-relu.json").read_text("utf-8"))["numbers"]
        found[key] = written["summary"] | {
            "rank_correlation": written["rank_correlation"]["exact"],
            "rank_correlation_relative": written["rank_correlation_relative"],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures, for bench.publish --take")
    arguments = parser.parse_args()
    found = figures(arguments.out)
    console.print_json(data=found)
    record.write(arguments.json, "non-relu", found)


if __name__ == "__main__":
    main()
