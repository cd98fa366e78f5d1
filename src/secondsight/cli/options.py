"""The options that the commands share and that belong to no method, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondsight.presets import NO_PRESET, PRESETS

Photographs = Annotated[
    list[Path], typer.Argument(metavar="PHOTO", help="Photographs: JPEG, PNG, WebP, TIFF, BMP, GIF or PPM.")
]
Target = Annotated[
    str | None, typer.Option(metavar="NAME|INDEX", help="Explain this class instead of the predicted one.")
]
Preset = Annotated[
    str,
    typer.Option(
        metavar="|".join([NO_PRESET, *PRESETS]),
        help="Hyper-parameters of the paper's tables, as far as the method has them; `secondsight paper tables` shows "
        "them. Your own options win.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the noise and of the eigenvalue estimate's start."),
]
Model = Annotated[str, typer.Option(metavar="NAME", help="The classifier; `secondsight models` lists them.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where figures go, one PNG for each photograph.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per map instead of the table.")]
