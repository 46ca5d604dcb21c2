"""Features of uncut networks at several layers at once, kept in a folder for benchmarks.distance.

    python -m benchmarks.distance_latents --weights DIR --cifar10 DIR --cifar100 DIR
        --fashion DIR --out LATENTS

One folder for each set of weights. Training images are among those that ``benchmarks.tuning
hold-out`` leaves, so that networks trained without the others have seen them. Maps are averaged
over positions and kept in float16, one file per network and part of the data, with labels and
logits, and one with the last layer. What is there already is not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.tuning import HELD
from vinets.data import load_data
from vinets.data.cifar import PREPROCESSING
from vinets.data.conversion import split_source
from vinets.data.images import ImageSource
from vinets.data.source import choose_per_class
from vinets.data.synthetic import noise, textures
from vinets.models import create_model
from vinets.models.weights import load_weights

CUTS = {
    "resnet18": ("layer1", "layer2", "layer3.1.bn1", "layer3", "layer4.0.bn1", "layer4"),
    "resnet34": ("layer2", "layer3.1.bn1", "layer3.3.bn1", "layer3", "layer4.0.bn1", "layer4"),
}
HOME = {"resnet18": "cifar10", "resnet34": "cifar100"}
FAR = {"fashion": "Fashion-MNIST", "noise": "noise", "textures": "textures"}
SIDE = 32


def fashion(folder: Path, count: int) -> Tensor:
    """Test images of Fashion-MNIST, three equal channels of 32 by 32 pixels."""
    source = load_data(f"fashion-mnist:{folder}").test
    assert isinstance(source, ImageSource)
    grey = source.images[:count].float()
    large = F.interpolate(grey, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    return large.round().to(torch.uint8).expand(-1, 3, -1, -1)


@torch.no_grad()
def features(model: nn.Module, cuts: Sequence[str], images: Tensor) -> dict[str, Tensor]:
    """Averages over positions at every cut (m, C), and logits."""
    kept: dict[str, list[Tensor]] = {name: [] for name in (*cuts, "logits")}

    def watch(name: str) -> torch.utils.hooks.RemovableHandle:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            kept[name].append(output.mean((2, 3)).to("cpu", torch.float16))

        return model.get_submodule(name).register_forward_hook(hook)

    hooks = [watch(name) for name in cuts]
    device = next(model.parameters()).device
    for batch in images.split(250):
        x = PREPROCESSING(batch.to(device)).contiguous(memory_format=torch.channels_last)
        kept["logits"].append(model(x).cpu())
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(values) for name, values in kept.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("weights", "cifar10", "cifar100", "fashion", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--train", type=int, default=20_000, help="training images")
    parser.add_argument("--test", type=int, default=10_000, help="test images, near and in")
    parser.add_argument("--far", type=int, default=2_000, help="images of each far set")
    parser.add_argument("--networks", nargs="+", default=list(CUTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options.out.mkdir(parents=True, exist_ok=True)
    data = {name: load_data(f"{name}:{getattr(options, name)}") for name in ("cifar10", "cifar100")}
    parts: dict[str, tuple[Tensor, Tensor | None]] = {
        "fashion": (fashion(options.fashion, options.far), None),
        "noise": (noise(options.far), None),
        "textures": (textures(options.far), None),
    }
    for name, split in data.items():
        assert isinstance(split.test, ImageSource)
        index = slice(options.test)
        parts[f"{name}-test"] = split.test.images[index], split.test.labels[index]
    for network in options.networks:
        home = HOME[network]
        classes = len(data[home].train.classes)
        rest, _ = split_source(data[home].train, HELD, 0)
        rest = rest.subset(choose_per_class(rest.labels, options.train // classes, 0))
        assert isinstance(rest, ImageSource)
        parts["train"] = rest.images, rest.labels
        model = create_model(network, classes)
        load_weights(model, options.weights / f"{network}_{home}.safetensors")
        model = model.float().eval().to(device, memory_format=torch.channels_last)
        last = {k: t.detach().cpu() for k, t in model.get_submodule("fc").named_parameters()}
        save_file(last, options.out / f"{network}-last.safetensors")
        for part, (images, labels) in parts.items():
            path = options.out / f"{network}-{part}.safetensors"
            if path.exists():
                continue
            found = features(model, CUTS[network], images)
            if labels is not None:
                found["labels"] = labels
            save_file({k: t.contiguous() for k, t in found.items()}, path)
            print(path.name, len(images), flush=True)


def known(folder: Path, network: str) -> bool:
    """Whether the folder has this network."""
    return (folder / f"{network}-last.safetensors").exists()


def read(folder: Path, network: str, part: str) -> dict[str, Tensor]:
    """What :func:`main` kept, in float32."""
    found = load_file(folder / f"{network}-{part}.safetensors")
    return {k: t.float() if t.is_floating_point() else t for k, t in found.items()}


def classifier(folder: Path, network: str) -> nn.Linear:
    """The last layer of the network."""
    found = load_file(folder / f"{network}-last.safetensors")
    layer = nn.Linear(*reversed(found["weight"].shape)).requires_grad_(False)
    layer.load_state_dict(found)
    return layer


if __name__ == "__main__":
    main()
