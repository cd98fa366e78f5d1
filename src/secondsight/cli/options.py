"""The options that the commands share, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from secondsight.presets import NO_PRESET, PRESETS

Photographs = Annotated[
    list[Path], typer.Argument(metavar="PHOTO", help="Photographs in any format that Pillow reads.")
]
Target = Annotated[
    str | None, typer.Option(metavar="NAME|INDEX", help="Explain this class instead of the predicted one.")
]
Lambda1 = Annotated[
    str,
    typer.Option(
        metavar="auto|paper|NUMBER",
        help="How few pixels the map keeps: the larger, the fewer; 0 keeps all. auto stops where more pixels add "
        "little; paper follows section 4.1 of the paper.",
    ),
]
C1 = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        help="How far the penalty on large changes lies above the least for which there is one best map. If it is much "
        "larger than half the Hessian's largest eigenvalue, caso becomes cafo up to scale.",
    ),
]
Curvature = Annotated[
    Literal["auto", "gauss-newton", "exact"],
    typer.Option(
        help="The curvature that caso sees: exact is the true Hessian; gauss-newton leaves out how the network "
        "itself bends; auto is exact, computed as gauss-newton where both are equal."
    ),
]
Groups = Annotated[
    str,
    typer.Option(
        metavar="none|pixel|patch:SIDE|superpixels|FILE.npy",
        help="Pixels that stand or fall together: the channels of a pixel, squares of that side, superpixels "
        "(superpixels:500 for 500 of them), or those with the same whole number in an array.",
    ),
]
Samples = Annotated[
    int,
    typer.Option(
        "--n", metavar="N", help="Noisy copies for smooth methods and smoothgrad; steps for integrated-gradients."
    ),
]
Sigma = Annotated[
    float, typer.Option(metavar="NUMBER", help="Strength of the noise, over the range of the picture's values.")
]
BatchSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Noisy copies at a time; by default as many as fit half a gigabyte."),
]
Score = Annotated[
    Literal["logit", "loss"],
    typer.Option(help="What gradient, smoothgrad and integrated-gradients explain. The others explain the loss."),
]
Preset = Annotated[
    str,
    typer.Option(
        metavar="|".join([NO_PRESET, *PRESETS]),
        help="Hyper-parameters of the paper's tables; `secondsight paper tables` shows them. Your own options win.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of the noise and of the eigenvalue estimate's start."),
]
Model = Annotated[str, typer.Option(metavar="NAME", help="The classifier; `secondsight models` lists them.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where figures go, one PNG for each photograph.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per map instead of the table.")]
