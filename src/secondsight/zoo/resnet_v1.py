"""ResNet-50 as first published (He et al., 2016): the stride of a stage sits on its first 1x1 convolution.

Today's ResNet-50 ("v1.5") moves that stride to the 3x3 convolution. Parameter names and shapes are the same, so weights
of one load into the other without an error, and give wrong answers.
"""

from __future__ import annotations

from torch import Tensor, nn

EXPANSION = 4
"""Channels of a block's output over those in its middle, as published."""


class Bottleneck(nn.Module):
    """A residual block: reduce the channels by a 1x1 convolution, filter by 3x3, expand by 1x1, add the input.

    If the output has another shape than the input, a 1x1 convolution brings the input to that shape.
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        """Make a block.

        Args:
            inputs: channels of the input.
            width: channels in the middle; the output has EXPANSION times as many.
            stride: step of the first convolution.
        """
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch (N, inputs, H, W) to (N, width * EXPANSION, H / stride, W / stride), rounded up."""
        y: Tensor = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        y = self.bn3(self.conv3(y))
        shortcut: Tensor = self.downsample(x)
        return (y + shortcut).relu()


def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    """Make a row of blocks, of which the first changes the shape.

    Args:
        inputs: channels of the input.
        width: channels in the middle of each block.
        blocks: the number of blocks.
        stride: step of the first block.
    """
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(width * EXPANSION, width, 1) for _ in range(blocks - 1)))


class ResNet50V1(nn.Module):
    """ResNet-50 with the stride of each stage on its first 1x1 convolution. Tensors have torchvision's names."""

    def __init__(self, classes: int = 1000) -> None:
        """Make a network with random weights and this number of logits."""
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = stage(64, 64, 3, 1)
        self.layer2 = stage(256, 128, 4, 2)
        self.layer3 = stage(512, 256, 6, 2)
        self.layer4 = stage(1024, 512, 3, 2)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch of normalised pictures (N, 3, H, W) to logits (N, classes)."""
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
