"""The networks and photographs of the benchmarks, from a folder that does not belong to the project."""

from __future__ import annotations

import os
from pathlib import Path

import secondsight as ss

SHARED = Path(os.environ.get("SECONDSIGHT_SHARED", Path(__file__).parents[2] / "shared"))
MODELS = {"resnet50": f"resnet50-v1@{SHARED / 'weights' / 'resnet50.safetensors'}", "lite0": "efficientnet-lite0"}


def model(name: str) -> ss.Classifier:
    return ss.load_model(MODELS[name])


def photographs(count: int) -> list[Path]:
    """Every n-th photograph of the folder, so that a few stand for all."""
    files = sorted((SHARED / "imagenet-val" / "images").glob("*.JPEG"))
    if len(files) < count:
        raise SystemExit(f"{count} ImageNet photographs are needed in {SHARED / 'imagenet-val' / 'images'}")
    return files[:: len(files) // count][:count]
