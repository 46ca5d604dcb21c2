"""Early exit: a VI-Net answers where it is sure, and the uncut network where it is not.

    python examples/cascade.py --loss 0.5

Trains both on digits, chooses a threshold on one half of the test images, and tests on the other.
Takes about half a minute.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from vinets import build, fine_tune, train_classifier
from vinets.data import digits
from vinets.models import digits_cnn


class Cascade(nn.Module):
    """Images whose largest probability is below the threshold go through the second network."""

    def __init__(self, early: nn.Module, late: nn.Module, threshold: float = 0.9) -> None:
        super().__init__()
        self.early, self.late, self.threshold = early, late, threshold

    def forward(self, images: Tensor) -> Tensor:
        logits = self.early(images)
        unsure = (logits.softmax(1).amax(1) < self.threshold).nonzero()[:, 0]
        if len(unsure):  # with networks that share a backbone, pass on its output instead
            logits = logits.index_copy(0, unsure, self.late(images[unsure]))
        return logits

    def calibrate(self, images: Tensor, labels: Tensor, loss: float) -> None:
        """Choose the lowest threshold that loses no more than this share of right answers."""
        first, second = self.early(images), self.late(images)
        sure, order = first.softmax(1).amax(1).sort(descending=True)
        right = [(logits.argmax(1) == labels)[order].double() for logits in (first, second)]
        # Right answers that are won if the k surest images leave early, for k = 0, 1, ...
        won = torch.cat([torch.zeros(1), (right[0] - right[1]).cumsum(0)])
        # Images that are equally sure leave together.
        ends = torch.cat([torch.ones(1).bool(), sure[1:] < sure[:-1], torch.ones(1).bool()])
        k = int((ends & (won >= -loss * len(labels))).nonzero().max())
        self.threshold = float(sure[k - 1]) if k else float("inf")


@torch.no_grad()
def main(epochs: int, loss: float) -> dict[str, float]:
    torch.manual_seed(0)
    data, model = digits(), digits_cnn()
    training = {"batch_size": 64, "progress": None}
    with torch.enable_grad():
        train_classifier(model, data.train, epochs=epochs, learning_rate=0.1, **training)
        net, _ = build(model, data.train, "pool", components=32, keep=16, progress=None)
        fine_tune(net, data.train, epochs=epochs, **training)
    cascade = Cascade(net.folded(), model).eval()
    images, labels = next(data.test.batches(len(data.test)))
    half = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) % 2 == 0
    cascade.calibrate(images[half], labels[half], loss / 100)
    images, labels = images[~half], labels[~half]
    found = {
        name: float((network(images).argmax(1) == labels).double().mean())
        for name, network in (("uncut", model), ("VI-Net", cascade.early), ("cascade", cascade))
    }
    sure = cascade.early(images).softmax(1).amax(1) >= cascade.threshold
    found["leave early"] = float(sure.double().mean())
    for name, share in found.items():
        print(f"{name:12} {share:.2%}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--loss", type=float, default=0.5, help="points of accuracy")
    options = parser.parse_args()
    main(options.epochs, options.loss)
