"""ResNet-18 and ResNet-34 for small images, with the layer names that torchvision uses.

This differs from the networks for ImageNet in the stem: a 3x3 convolution of stride 1. The 3x3
max-pool of stride 2 behind it is kept unless ``maxpool=False``; with it the parameter counts and
map sizes at the cut points are those of the VI-Net paper.
"""

from __future__ import annotations

from torch import Tensor, nn

from vinets.checks import parameter_error


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
    """Residual network of basic blocks, so many in each stage."""

    def __init__(
        self, blocks: tuple[int, int, int, int], num_classes: int, maxpool: bool, inputs: int = 3
    ) -> None:
        super().__init__()
        if len(blocks) != 4 or not all(isinstance(b, int) and 1 <= b <= 100 for b in blocks):
            raise parameter_error("ResNet", "blocks", "four integers from 1 to 100", blocks)
        # What source_of needs to make the network again.
        self.arguments = {
            "blocks": list(blocks),
            "num_classes": num_classes,
            "maxpool": maxpool,
            "inputs": inputs,
        }
        self.conv1 = _conv3x3(inputs, 64)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if maxpool else nn.Identity()
        self.layer1 = _stage(64, 64, blocks[0], stride=1)
        self.layer2 = _stage(64, 128, blocks[1], stride=2)
        self.layer3 = _stage(128, 256, blocks[2], stride=2)
        self.layer4 = _stage(256, 512, blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, num_classes)
        # He initialisation by the outputs, which keeps the size of gradients, as torchvision does.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def _stage(inputs: int, outputs: int, count: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(count - 1)))


def resnet18(num_classes: int = 10, *, maxpool: bool = True, inputs: int = 3) -> ResNet:
    """ResNet-18 for small images; ``inputs`` are their channels.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18(10).parameters())
    11173962
    """
    return ResNet((2, 2, 2, 2), num_classes, maxpool, inputs)


def resnet34(num_classes: int = 100, *, maxpool: bool = True, inputs: int = 3) -> ResNet:
    """ResNet-34 for small images."""
    return ResNet((3, 4, 6, 3), num_classes, maxpool, inputs)
