"""The networks of this package: residual ones, a small convolutional one, two transformers.

Residual networks have the layer names that torchvision uses. ResNet-18 and ResNet-34 differ from
the networks for ImageNet in the stem: a 3x3 convolution of stride 1. With the 3x3 max-pool of
stride 2 behind it, parameters and map sizes at the cut points are those of the VI-Net paper.
ResNet-20, 32, 44 and 56 are those that He et al. (2016) trained on CIFAR: 6n + 2 layers in three
stages of 16, 32 and 64 channels, no max-pool. They differ from the paper in the shortcuts between
stages, which are 1x1 convolutions here and padding with zeros there.

A cut behind a block of a transformer gives tokens. Blocks normalise first, as in GPT-2 and the
vision transformer, and the mean of all tokens is classified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import parameter_error
from vinets.core.options import check_value, real, whole
from vinets.models.libraries.base import Library, Options


def _arguments(variables: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments among the variables of a constructor, for ``source_of``."""
    return {name: value for name, value in variables.items() if name not in ("self", "__class__")}


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
    """Residual network of basic blocks; each stage is twice as wide as the one before."""

    def __init__(
        self,
        blocks: Sequence[int],  # how many in each stage
        num_classes: int,
        maxpool: bool,
        channels: int = 64,  # width of the first stage
        inputs: int = 3,  # channels of images
    ) -> None:
        self.arguments = _arguments(locals())
        super().__init__()
        count = whole(1, 100)
        if len(blocks) not in (3, 4) or not all(map(count.holds, blocks)):
            accepted = "three or four integers from 1 to 100"
            raise parameter_error("ResNet", "blocks", accepted, blocks)
        check_value("ResNet", "channels", whole(1, 1024), channels)
        self.conv1 = _conv3x3(inputs, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if maxpool else nn.Identity()
        self.layer1 = _stage(channels, channels, blocks[0], stride=1)
        self.layer2 = _stage(channels, 2 * channels, blocks[1], stride=2)
        self.layer3 = _stage(2 * channels, 4 * channels, blocks[2], stride=2)
        four = len(blocks) == 4
        self.layer4 = _stage(4 * channels, 8 * channels, blocks[3], stride=2) if four else None
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


def _stage(inputs: int, outputs: int, count: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(count - 1)))


def _narrowed(width: float) -> int:
    """Return the channels of the first stage at a share of the usual ones."""
    check_value("ResNet", "width", real(1 / 64, 1, high_included=True), width)
    return round(64 * width)


def resnet18(
    num_classes: int = 10, *, maxpool: bool = True, width: float = 1.0, inputs: int = 3
) -> ResNet:
    """Make a ResNet-18 for small images, with a share ``width`` of the usual channels.

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
    """Make a ResNet-34 for small images, with a share ``width`` of the usual channels."""
    return ResNet((3, 4, 6, 3), num_classes, maxpool, _narrowed(width), inputs)


def resnet20(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """Make a ResNet-20 for CIFAR."""
    return ResNet((3, 3, 3), num_classes, False, 16, inputs)


def resnet32(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """Make a ResNet-32 for CIFAR."""
    return ResNet((5, 5, 5), num_classes, False, 16, inputs)


def resnet44(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """Make a ResNet-44 for CIFAR."""
    return ResNet((7, 7, 7), num_classes, False, 16, inputs)


def resnet56(num_classes: int = 10, *, inputs: int = 3) -> ResNet:
    """Make a ResNet-56 for CIFAR."""
    return ResNet((9, 9, 9), num_classes, False, 16, inputs)


class DigitsNet(nn.Module):
    """Four convolutions, each with batch norm and ReLU; the maps are halved after two of them.

    About nine tenths of the 103,000 parameters lie behind ``relu2``. Images may have any size.
    """

    def __init__(self, num_classes: int = 10, channels: int = 1) -> None:
        self.arguments = _arguments(locals())
        super().__init__()
        self.conv1, self.bn1, self.relu1 = _convolve(channels, 32)
        self.conv2, self.bn2, self.relu2 = _convolve(32, 32)
        self.pool = nn.MaxPool2d(2)
        self.conv3, self.bn3, self.relu3 = _convolve(32, 64)
        self.conv4, self.bn4, self.relu4 = _convolve(64, 128)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(128, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.pool(self.relu2(self.bn2(self.conv2(x))))
        x = self.relu3(self.bn3(self.conv3(x)))
        x = self.relu4(self.bn4(self.conv4(x)))
        return self.fc(self.avgpool(x).flatten(1))


def _convolve(inputs: int, outputs: int) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.ReLU]:
    return _conv3x3(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)


def digits_cnn(num_classes: int = 10, *, channels: int = 1) -> DigitsNet:
    """Make a small network for the digits of scikit-learn, or for other small images.

    Examples
    --------
    >>> net = digits_cnn()
    >>> net(torch.zeros(5, 1, 8, 8)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([5, 10]), 103466)
    """
    return DigitsNet(num_classes, channels)


class TransformerBlock(nn.Module):
    """Attention and two linear layers, each added to what it was given: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.inputs(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.dropout(self.mixed(attended.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(self.act(self.up(self.norm2(x)))))


class _Transformer(nn.Module):
    """Blocks on tokens, and a linear layer on their mean; a subclass makes the tokens."""

    def __init__(
        self, tokens: int, width: int, depth: int, heads: int, num_classes: int, dropout: float
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        check_value(owner, "depth", whole(1, 100), depth)
        if width < 1 or heads < 1 or width % heads:
            raise parameter_error(owner, "width", f"a multiple of the heads ({heads})", width)
        self.position = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, dropout) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, num_classes)

    def classify(self, tokens: Tensor) -> Tensor:
        """Return logits (B, K) of tokens (B, T, C)."""
        x = self.blocks(self.dropout(tokens + self.position))
        return self.fc(self.norm(x).mean(1))


class VisionTransformer(_Transformer):
    """Square patches of an image as tokens."""

    def __init__(
        self,
        num_classes: int = 10,
        channels: int = 3,
        size: int = 32,
        patch: int = 4,
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        dropout: float = 0.0,
    ) -> None:
        self.arguments = _arguments(locals())
        if patch < 1 or size < 1 or size % patch:
            accepted = f"a divisor of the side of the images ({size})"
            raise parameter_error("VisionTransformer", "patch", accepted, patch)
        super().__init__((size // patch) ** 2, width, depth, heads, num_classes, dropout)
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.patches(x).flatten(2).transpose(1, 2))


class TextTransformer(_Transformer):
    """Words as tokens, given by their indices (B, T)."""

    def __init__(
        self,
        num_classes: int = 2,
        vocabulary: int = 8192,
        length: int = 48,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        dropout: float = 0.2,
    ) -> None:
        self.arguments = _arguments(locals())
        super().__init__(length, width, depth, heads, num_classes, dropout)
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.words(x))


# --- by name ----------------------------------------------------------------------------------

CLASSES: dict[str, type[nn.Module]] = {
    "resnet": ResNet,
    "digits_cnn": DigitsNet,
    "vit": VisionTransformer,
    "text_transformer": TextTransformer,
}
_RESNETS = (resnet18, resnet34, resnet20, resnet32, resnet44, resnet56)
NETWORKS: dict[str, Callable[..., nn.Module]] = {make.__name__: make for make in _RESNETS}
NETWORKS |= CLASSES


class Own(Library):
    """The networks of this package, called by their names alone."""

    name = "vinets"
    prefix = ""
    written = ", ".join(NETWORKS)

    def names(self) -> Iterable[str]:
        return NETWORKS

    def build(self, name: str, options: Options) -> nn.Module:
        if name not in NETWORKS:
            raise ValueError(f"the name must be one of {self.written}")
        return NETWORKS[name](**options)

    def maker(self, name: str) -> Callable[..., Any]:
        return NETWORKS[name]

    def candidates(self, model: nn.Module) -> Iterator[tuple[str | None, Options]]:
        for name, kind in CLASSES.items():
            if type(model) is kind:  # a subclass may compute something else
                options: Options = dict(cast(Any, model).arguments)
                if isinstance(model.fc, nn.Linear):  # it may have been replaced
                    options["num_classes"] = model.fc.out_features
                yield name, options

    def with_channels(self, name: str, channels: int) -> Options:
        if name == "text_transformer":
            return {}
        return {"channels" if name in ("digits_cnn", "vit") else "inputs": channels}


# --- as in the paper --------------------------------------------------------------------------

PRESETS: dict[str, tuple[str, str]] = {
    "VI-Net18-Tiny": ("resnet18", "layer2.1.bn2"),
    "VI-Net18-Small": ("resnet18", "layer3.1.bn1"),
    "VI-Net18-Medium": ("resnet18", "layer4.0.bn1"),
    "VI-Net18-Large": ("resnet18", "layer4.1.bn1"),
    "VI-Net34-Tiny": ("resnet34", "layer3.1.bn1"),
    "VI-Net34-Small": ("resnet34", "layer3.3.bn1"),
    "VI-Net34-Medium": ("resnet34", "layer4.1.bn1"),
    "VI-Net34-Large": ("resnet34", "layer4.2.bn1"),
}
"""The VI-Nets of the paper: the network that each is made of, and its cut."""

SIZES: dict[str, dict[str, Any]] = {
    "resnet18": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "resnet34": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "digits_cnn": {
        **{"components": 16, "psi": 0.01, "max_degree": 2, "keep": 32, "monomials": None},
        **{"trained": "classifier", "augment": False, "weight_decay": 1e-4},
    },
}
"""Variables n, tolerance and degree for every network: as in the paper for CIFAR; on digits, of
which there are 1,348 to train on, what suits so few."""
