"""The options that the commands share and that belong to no method, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondsight.presets import NO_PRESET, PRESETS

Photographs = Annotated[
    list[Path],
    typer.Argument(
        metavar="PHOTO|DIR|GLOB",
        help="Photographs (JPEG, PNG, WebP, TIFF, BMP, GIF or PPM), folders of them, or quoted globs such as "
        "'photos/**/*.jpg'.",
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        metavar="NAME|NAME(OPTION=VALUE,...)",
        help="picture is a map to look at; caso proves the paper's objective, with the curvature of the loss; cafo "
        "leaves the curvature out, and is faster; smooth-caso and smooth-cafo average over noisy copies. For "
        "comparison: gradient, smoothgrad, integrated-gradients.",
    ),
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
MaxPixels = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Refuse photographs of more pixels before they are decoded.",
        show_default="89,478,485",
    ),
]
ValueRange = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH",
        help="The grey levels that are black and white in photographs of more than 8 bits, such as 0,4095.",
        show_default="0,65535; 0,255 for 32-bit levels up to 255; 0,1 for floating-point levels",
    ),
]
Out = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder to write to: by default one PNG for each photograph.")
]
Html = Annotated[
    bool,
    typer.Option(
        "--html",
        help="Write a page instead of a figure: one file for any browser, with a slider over lambda1. It works "
        "offline.",
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Write over files that exist. Without this they are refused before any work."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per map instead of the table.")]
