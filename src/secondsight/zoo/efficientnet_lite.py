"""EfficientNet-Lite: inverted residual blocks with ReLU6 and neither squeeze-excitation nor swish.

In eval mode its logits are exactly piecewise linear, so the Gauss-Newton matrix is the Hessian of the loss.
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, relu6

# (expansion, kernel, stride, channels of the output, blocks) of each stage of Lite0, as published.
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class SameConv2d(nn.Conv2d):
    """Convolution without bias, with TensorFlow's "same" padding.

    If the number of rows to add is odd, one more is added below than above. Likewise, one more column is added at the
    right. The output has the height and width of the input divided by the stride, rounded up.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        """Make a square convolution.

        Args:
            inputs: channels of the input.
            outputs: channels of the output.
            kernel: side of the kernel.
            stride: step in both directions.
            groups: as of `torch.nn.Conv2d`.
        """
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Pad a batch (N, C, H, W) and convolve it."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        height, width = (max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in x.shape[-2:])
        if height % 2 or width % 2:
            x = pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))
            height = width = 0
        return conv2d(x, self.weight, None, self.stride, (height // 2, width // 2), groups=self.groups)


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """Make a batch normalisation with the epsilon that the published weights were trained with."""
    return nn.BatchNorm2d(channels, eps=1e-3)


class MBConv(nn.Module):
    """An inverted residual block: expand by a 1x1 convolution, filter each channel by itself, project back."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        """Make a block. It adds its input to its output if both have the same shape.

        Args:
            inputs: channels of the input.
            outputs: channels of the output.
            expansion: channels in the middle over `inputs`; with 1 there is no expanding convolution.
            kernel: side of the kernel that filters each channel.
            stride: step of that kernel.
        """
        super().__init__()
        width = inputs * expansion
        self.expands = expansion != 1
        self.residual = stride == 1 and inputs == outputs
        if self.expands:
            self.expand_conv = SameConv2d(inputs, width, 1)
            self.bn0 = batch_norm(width)
        self.depthwise_conv = SameConv2d(width, width, kernel, stride, groups=width)
        self.bn1 = batch_norm(width)
        self.project_conv = SameConv2d(width, outputs, 1)
        self.bn2 = batch_norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch (N, inputs, H, W) to (N, outputs, H / stride, W / stride), rounded up."""
        y: Tensor = x
        if self.expands:
            y = relu6(self.bn0(self.expand_conv(y)))
        y = relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        return x + y if self.residual else y


def scaled_channels(channels: int, width: float) -> int:
    """Scale a number of channels to a multiple of 8: the nearest, or the next if the nearest is over a tenth too small.

    Args:
        channels: the number in Lite0.
        width: the factor.
    """
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite of any size: Lite0, scaled. The stem and the head keep their size."""

    def __init__(self, width: float = 1.0, depth: float = 1.0, classes: int = 1000) -> None:
        """Make a network with random weights.

        Args:
            width: factor of the channels.
            depth: factor of the number of blocks, in all stages but the first and the last.
            classes: the number of logits.
        """
        super().__init__()
        self.conv_stem = SameConv2d(3, 32, 3, 2)
        self.bn0 = batch_norm(32)
        blocks: list[nn.Module] = []
        channels = 32
        for stage in STAGES:
            expansion, kernel, stride, base, repeats = stage
            if stage not in (STAGES[0], STAGES[-1]):
                repeats = math.ceil(repeats * depth)
            outputs = scaled_channels(base, width)
            for i in range(repeats):
                blocks.append(MBConv(channels, outputs, expansion, kernel, stride if i == 0 else 1))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConv2d(channels, 1280, 1)
        self.bn1 = batch_norm(1280)
        self.fc = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch of normalised pictures (N, 3, H, W) to logits (N, classes)."""
        x = relu6(self.bn0(self.conv_stem(x)))
        x = self.blocks(x)
        x = relu6(self.bn1(self.conv_head(x)))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
