"""A convolutional network small enough to train in seconds, for the 8x8 digits of scikit-learn."""

from __future__ import annotations

from torch import Tensor, nn


class DigitsNet(nn.Module):
    """Four convolutions, each with batch norm and ReLU; the maps are halved after two of them.

    On 8x8 images the maps have 32 channels of 8x8, then 64 and 128 channels of 4x4. About nine
    tenths of the 103,000 parameters lie behind ``relu2``. Images may have any size from 2x2 on.
    """

    def __init__(self, num_classes: int = 10, channels: int = 1) -> None:
        super().__init__()
        self.arguments = {"num_classes": num_classes, "channels": channels}
        self.conv1, self.bn1, self.relu1 = _block(channels, 32)
        self.conv2, self.bn2, self.relu2 = _block(32, 32)
        self.pool = nn.MaxPool2d(2)
        self.conv3, self.bn3, self.relu3 = _block(32, 64)
        self.conv4, self.bn4, self.relu4 = _block(64, 128)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(128, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.pool(self.relu2(self.bn2(self.conv2(x))))
        x = self.relu3(self.bn3(self.conv3(x)))
        x = self.relu4(self.bn4(self.conv4(x)))
        return self.fc(self.avgpool(x).flatten(1))


def _block(inputs: int, outputs: int) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.ReLU]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)


def digits_cnn(num_classes: int = 10, *, channels: int = 1) -> DigitsNet:
    """A small network for the digits of scikit-learn, or for other small images.

    Examples
    --------
    >>> import torch
    >>> net = digits_cnn()
    >>> net(torch.zeros(5, 1, 8, 8)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([5, 10]), 103466)
    """
    return DigitsNet(num_classes, channels)
