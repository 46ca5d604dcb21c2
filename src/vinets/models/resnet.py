"""Residual networks for small images, with the layer names that torchvision uses.

ResNet-18 and ResNet-34 differ from the networks for ImageNet in the stem: a 3x3 convolution of
stride 1. The 3x3 max-pool of stride 2 behind it is kept unless ``maxpool=False``; with it the
parameter counts and map sizes at the cut points are those of the VI-Net paper.

ResNet-20, 32, 44 and 56 are those that He et al. (2016) trained on CIFAR: 6n + 2 layers in three
stages of 16, 32 and 64 channels, no max-pool. They differ from the paper in the shortcuts between
stages, which are 1x1 convolutions here and padding with zeros there.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from vinets.core.checks import parameter_error


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(out + shortcut)


class ResNet(nn.Module):
    """Residual network of basic blocks.

    ``blocks`` is how many there are in each stage, ``channels`` the width of the first stage; each
    stage is twice as wide as the one before. ``inputs`` is how many channels images have.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        num_classes: int,
        maxpool: bool,
        channels: int = 64,
        inputs: int = 3,
    ) -> None:
        super().__init__()
        if len(blocks) not in (3, 4) or not all(_within(b, 100) for b in blocks):
            accepted = "three or four integers from 1 to 100"
            raise parameter_error("ResNet", "blocks", accepted, blocks)
        if not _within(channels, 1024):
            raise parameter_error("ResNet", "channels", "an integer from 1 to 1024", channels)
        # What source_of needs to make the network again.
        self.arguments = {
            "blocks": list(blocks),
            "num_classes": num_classes,
            "maxpool": maxpool,
            "channels": channels,
            "inputs": inputs,
        }
        self.conv1 = _conv3x3(inputs, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if maxpool else nn.Identity()
        self.layer1 = _stage(channels, channels, blocks[0], stride=1)
        self.layer2 = _stage(channels, 2 * channels, blocks[1], stride=2)
        self.layer3 = _stage(2 * channels, 4 * channels, blocks[2], stride=2)
        self.layer4: nn.Module | None = None
        if len(blocks) == 4:
            self.layer4 = _stage(4 * channels, 8 * channels, blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels * 2 ** (len(blocks) - 1), num_classes)
        # He initialisation by the outputs, which keeps the size of gradients, as torchvision does.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        x = x if self.layer4 is None else self.layer4(x)
        return self.fc(self.avgpool(x).flatten(1))


def _within(value: object, most: int) -> bool:
    return isinstance(value, int) and 1 <= value <= most


def _stage(inputs: int, outputs: int, count: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(count - 1)))


def _narrowed(width: float) -> int:
    """Channels of the first stage at a share of the usual ones."""
    if not isinstance(width, int | float) or not 1 / 64 <= width <= 1:
        raise parameter_error("ResNet", "width", "a number from 1/64 to 1", width)
    return round(64 * width)


def resnet18(
    num_classes: int = 10, *, maxpool: bool = True, width: float = 1.0, inputs: int = 3
) -> ResNet:
    """ResNet-18 for small images; ``width`` is the share of its channels that there are.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18(10).parameters())
    11173962
    >>> sum(p.numel() for p in resnet18(10, width=0.25).parameters())
    701466
    """
    return ResNet((2, 2, 2, 2), num_classes, maxpool, _narrowed(width), inputs)


def resnet34(
    num_classes: int = 100, *, maxpool: bool = True, width: float = 1.0, inputs: int = 3
) -> ResNet:
    """ResNet-34 for small images; ``width`` is the share of its channels that there are."""
    return ResNet((3, 4, 6, 3), num_classes, maxpool, _narrowed(width), inputs)


def resnet20(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """ResNet-20 for CIFAR.

    Examples
    --------
    >>> sum(p.numel() for p in resnet20(10).parameters())
    272474
    """
    return ResNet((3, 3, 3), num_classes, False, 16, inputs)


def resnet32(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """ResNet-32 for CIFAR."""
    return ResNet((5, 5, 5), num_classes, False, 16, inputs)


def resnet44(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """ResNet-44 for CIFAR."""
    return ResNet((7, 7, 7), num_classes, False, 16, inputs)


def resnet56(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """ResNet-56 for CIFAR."""
    return ResNet((9, 9, 9), num_classes, False, 16, inputs)
