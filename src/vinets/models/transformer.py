"""Small transformers for images and for texts; what a cut behind a block gives is tokens.

Blocks normalise first, as in GPT-2 and the vision transformer; the mean of all tokens is
classified, so that there is no token of its own for that.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import parameter_error


class Block(nn.Module):
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
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.dropout(self.mixed(seen.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(self.act(self.up(self.norm2(x)))))


class _Transformer(nn.Module):
    """Blocks on tokens, and a linear layer on their mean; a subclass makes the tokens."""

    def __init__(
        self, tokens: int, width: int, depth: int, heads: int, num_classes: int, dropout: float
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        if not 1 <= depth <= 100:
            raise parameter_error(owner, "depth", "an integer from 1 to 100", depth)
        if width < 1 or heads < 1 or width % heads:
            raise parameter_error(owner, "width", f"a multiple of the heads ({heads})", width)
        self.position = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, num_classes)

    def classified(self, tokens: Tensor) -> Tensor:
        """Logits (B, K) of tokens (B, T, C)."""
        x = self.blocks(self.dropout(tokens + self.position))
        return self.fc(self.norm(x).mean(1))


class VisionTransformer(_Transformer):
    """Square patches of an image as tokens.

    Examples
    --------
    >>> net = VisionTransformer()
    >>> net(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([2, 10]), 2693194)
    """

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
        if patch < 1 or size < 1 or size % patch:
            accepted = f"a divisor of the side of the images ({size})"
            raise parameter_error("VisionTransformer", "patch", accepted, patch)
        super().__init__((size // patch) ** 2, width, depth, heads, num_classes, dropout)
        self.arguments = {
            "num_classes": num_classes,
            "channels": channels,
            "size": size,
            "patch": patch,
            "width": width,
            "depth": depth,
            "heads": heads,
            "dropout": dropout,
        }
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.classified(self.patches(x).flatten(2).transpose(1, 2))


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
        super().__init__(length, width, depth, heads, num_classes, dropout)
        self.arguments = {
            "num_classes": num_classes,
            "vocabulary": vocabulary,
            "length": length,
            "width": width,
            "depth": depth,
            "heads": heads,
            "dropout": dropout,
        }
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.classified(self.words(x))
