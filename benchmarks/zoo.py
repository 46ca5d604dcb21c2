"""Networks that others wrote: where they can be cut, and whether a cut network does all it should.

Each network has random weights and a process of its own, whose peak memory is kept. Of every one
this asks: which cuts do all paths pass; does the truncated network keep as many parameters as was
said, and compute the same; is a network with a product head behind a cut in the middle trained for
a step, folded, saved, loaded and exported to ONNX with the same answers.

    python -m benchmarks.zoo                    # what is missing in results/zoo.json
    python -m benchmarks.zoo --names 'timm:res*' 'hf:*' --no-onnx
    python -m benchmarks.zoo --jobs 16 --again

It needs the extras vision, hf and onnx; networks of ``PACKAGES`` need these packages of PyPI.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.record import RESULTS
from vinets import CutNetwork, build, fine_tune
from vinets.export import export_network
from vinets.latent.cut import StoppedNetwork, cut_points, truncate
from vinets.latent.paths import main_tensor
from vinets.measure import machine
from vinets.models import create_model
from vinets.models.libraries.torchvision import import_torchvision

TIMM = """
resnet18 resnet50 resnet18d resnetv2_50 resnest14d res2net50_26w_4s seresnet18 skresnet18
densenet121 dla34 dpn68 hrnet_w18_small vovnet39a ese_vovnet19b_dw selecsls42b tresnet_m xception41
inception_v3 darknet53 cspresnet50 gernet_s repvgg_a0 regnety_004 nf_regnet_b1 botnet26t_256
halonet26t lambda_resnet26t mobilenetv2_100 mobilenetv3_small_100 mobilenetv4_conv_small
efficientnet_lite0 tf_efficientnet_lite0 mnasnet_100 fbnetc_100 spnasnet_100 lcnet_050 tinynet_e
rexnet_100 ghostnet_100 ghostnetv2_100 repghostnet_050 mobileone_s0 mobilevit_xxs mobilevitv2_050
edgenext_xx_small fastvit_t8 repvit_m1 starnet_s1 shvit_s1 swiftformer_xs hgnet_tiny
efficientformer_l1 efficientformerv2_s0 efficientvit_b0 efficientvit_m0 convnext_atto
inception_next_tiny vit_tiny_patch16_224 deit_tiny_patch16_224 cait_xxs24_224 convit_tiny coat_tiny
crossvit_9_240 davit_tiny eva02_tiny_patch14_224 focalnet_tiny_srf gcvit_xxtiny gmlp_ti16_224
hiera_tiny_224 levit_128s mvitv2_tiny nest_tiny pit_ti_224 poolformer_s12 pvt_v2_b0 resmlp_12_224
sequencer2d_s swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tiny_vit_5m_224
tnt_s_patch16_224 twins_pcpvt_small visformer_tiny volo_d1_224 xcit_nano_12_p16_224
"""
TRANSFORMERS = """
Beit Bit CLIP ConvNext ConvNextV2 Cvt Data2VecVision DeiT Dinov2 Dinov2WithRegisters FocalNet
HGNetV2 Hiera IJepa Levit MobileNetV1 MobileNetV2 MobileViT MobileViTV2 PoolFormer Pvt PvtV2 RegNet
ResNet Segformer Siglip SwiftFormer Swin Swinv2 TextNet ViT ViTMSN
"""
TORCHVISION = """
alexnet vgg11_bn resnet18 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 googlenet
inception_v3 mnasnet0_5 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 efficientnet_b0
regnet_y_400mf convnext_tiny vit_b_32 swin_t maxvit_t
"""


def _lite(name: str) -> nn.Module:
    made = importlib.import_module("efficientnet_lite_pytorch").EfficientNet.from_name(name)
    assert isinstance(made, nn.Module)
    return made


def _vit(module: str, name: str, **options: Any) -> nn.Module:
    made = getattr(importlib.import_module(module), name)(num_classes=10, **options)
    assert isinstance(made, nn.Module)
    return made


def _cv(name: str) -> nn.Module:
    made = importlib.import_module("pytorchcv.model_provider").get_model(name)
    assert isinstance(made, nn.Module)
    return made


TRANSFORMER: dict[str, Any] = {"dim": 64, "depth": 6, "heads": 4, "mlp_dim": 128}
PACKAGES: dict[str, tuple[Callable[[], nn.Module], int]] = {  # packages of PyPI: network, pixels
    "efficientnet_lite_pytorch:lite0": (lambda: _lite("efficientnet-lite0"), 160),
    "efficientnet_lite_pytorch:lite2": (lambda: _lite("efficientnet-lite2"), 160),
    "vit_pytorch:ViT": (
        lambda: _vit("vit_pytorch", "ViT", image_size=64, patch_size=8, **TRANSFORMER),
        64,
    ),
    "vit_pytorch:SimpleViT": (
        lambda: _vit("vit_pytorch", "SimpleViT", image_size=64, patch_size=8, **TRANSFORMER),
        64,
    ),
    "pytorchcv:mobilenet_w1": (lambda: _cv("mobilenet_w1"), 224),
    "pytorchcv:shufflenetv2_w1": (lambda: _cv("shufflenetv2_w1"), 224),
    "pytorchcv:preresnet18": (lambda: _cv("preresnet18"), 224),
    "pytorchcv:seresnet18": (lambda: _cv("seresnet18"), 224),
    "pytorchcv:hardnet39ds": (lambda: _cv("hardnet39ds"), 224),
    "pytorchcv:wrn16_10_cifar10": (lambda: _cv("wrn16_10_cifar10"), 32),
}
NAMES = (
    *(f"timm:{name}" for name in TIMM.split()),
    *(f"hf:{name}ForImageClassification" for name in TRANSFORMERS.split()),
    *(f"torchvision:{name}" for name in TORCHVISION.split()),
    *PACKAGES,
)
DOZEN = (  # families that differ most, for the tests
    *("timm:mobilenetv2_100", "timm:efficientnet_lite0", "timm:regnety_004", "timm:convnext_atto"),
    *("timm:vit_tiny_patch16_224", "timm:levit_128s", "timm:resnetv2_50", "timm:nf_regnet_b1"),
    *("timm:twins_pcpvt_small", "timm:crossvit_9_240", "timm:ghostnet_100", "timm:selecsls42b"),
)
NO_CUT = "no tensor in the network is passed by all paths"
BATCH = 4


def make(name: str) -> tuple[nn.Module, Tensor]:
    """Make a network with random weights, and a batch of images for it."""
    torch.manual_seed(0)
    if name in PACKAGES:
        import_torchvision()  # which some of them import, and which may need help
        making, pixels = PACKAGES[name]
        network = making()
    elif name.startswith("hf:"):
        small = {"num_hidden_layers": 4}  # where a config has it: the layers are all alike
        try:
            network = create_model(name, config=small)
        except ValueError:
            network = create_model(name)
        config: Any = network.config
        size = getattr(getattr(config, "vision_config", config), "image_size", 224)
        pixels = size if isinstance(size, int) else 224
    else:
        network = create_model(name)
        known = getattr(network, "default_cfg", None) or {"input_size": (3, 224, 224)}
        pixels = 299 if name == "torchvision:inception_v3" else known["input_size"][-1]
    images = torch.randn(BATCH, 3, pixels, pixels)
    for module in network.modules() if name.startswith("hf:Mobile") else ():
        if isinstance(module, nn.Conv2d):
            module.reset_parameters()  # theirs are so small that rounding is all that gets through
    # Statistics of batches become those of the images, as in any network that was trained: without
    # them, values vanish in some networks, and rounding is all that is left.
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        network.train()(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return network.eval(), images


def examine(name: str, onnx: bool = True, checked: int = 4) -> dict[str, Any]:
    """Ask everything of one network; what is refused stands in ``refused``, in a sentence."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    network, images = make(name)
    row: dict[str, Any] = {"name": name, "parameters": sum(p.numel() for p in network.parameters())}
    begin = time.perf_counter()
    points = cut_points(network, images[:1])
    row |= {"cuts": len(points), "seconds": round(time.perf_counter() - begin, 2)}
    ends = [point for point in points if not point.inside]
    row |= {"ends": len(ends), "names": [point.name for point in ends]}
    if not ends[:-1]:
        return row | {"refused": NO_CUT}
    kinds = set()
    for point in ends[:-1][:: max(1, len(ends) // checked)]:
        part = truncate(network, point.name, images[:1])
        kinds.add("stopped" if isinstance(part, StoppedNetwork) else "traced")
        kept = sum(p.numel() for p in part.parameters())
        with torch.no_grad():
            ours = main_tensor(part(images))
            whole = main_tensor(StoppedNetwork(network, point.name)(images))
        assert ours is not None and whole is not None
        assert torch.allclose(ours, whole, rtol=1e-4, atol=1e-5), f"{point.name} differs"
        assert kept == point.parameters, f"{point.name}: {point.parameters} said, {kept} kept"
    row["network"] = "/".join(sorted(kinds))
    cut = min(ends[:-1], key=lambda point: abs(point.macs - points[-1].macs / 2))
    row |= {"cut": cut.name, "shape": list(cut.shape), "kept": cut.parameters}
    labels = torch.arange(BATCH) % 2
    net, _ = build(
        network, (images, labels), cut.name, head="products", parameters=20_000, progress=None
    )
    options: dict[str, Any] = {"epochs": 1, "batch_size": BATCH, "augment": False}
    options["learning_rate"] = 0.001  # a step on four images may take random weights anywhere
    fine_tune(net, (images, labels), trained="backbone", validation=0.0, progress=None, **options)
    folded = net.eval().folded()
    with torch.no_grad():
        logits = folded(images)
    row["folded"] = _gap(net(images).detach(), logits)
    with tempfile.TemporaryDirectory() as folder:
        folded.save_pretrained(folder)
        own = network if name in PACKAGES else None
        loaded = CutNetwork.from_pretrained(folder, backbone=own).eval()
        with torch.no_grad():
            row["loaded"] = _gap(logits, loaded(images))
        if onnx:
            try:
                report = export_network(loaded, Path(folder) / "net.onnx", example=images[:1])
                row["onnx"] = report.largest_difference
            except ValueError as error:
                row["refused"] = f"no ONNX: {str(error).splitlines()[0]}"
    return row


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest value."""
    return float((a - b).abs().max() / a.abs().max().clamp_min(1e-12))


def _examine_apart(name: str, onnx: bool, queue: Any) -> None:
    begin = time.perf_counter()
    try:
        row = examine(name, onnx)
    except Exception as error:
        row = {
            "name": name,
            "failed": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}",
        }
        traceback.print_exc()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    queue.put(row | {"all_seconds": round(time.perf_counter() - begin, 1), "MiB": round(peak)})


def _row(name: str, onnx: bool) -> dict[str, Any]:
    """Examine a network in a process of its own, so that its peak of memory is its own, too."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_examine_apart, args=(name, onnx, queue))
    process.start()
    process.join()
    died = {"name": name, "failed": f"the process ended with {process.exitcode}"}
    return died if process.exitcode else queue.get()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="*", default=["*"], help="patterns of names")
    parser.add_argument("--no-onnx", action="store_true")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    parser.add_argument("--jobs", type=int, default=1, help="networks side by side")
    parser.add_argument("--results", type=Path, default=RESULTS / "zoo.json")
    given = parser.parse_args()
    path = given.results
    rows = (
        {row["name"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    )
    missing = [
        name
        for name in NAMES
        if any(fnmatch(name, pattern) for pattern in given.names)
        and (given.again or name not in rows or "failed" in rows[name])
    ]
    with ThreadPoolExecutor(given.jobs) as pool:
        for future in as_completed(
            [pool.submit(_row, name, not given.no_onnx) for name in missing]
        ):
            row = future.result()
            print(json.dumps({k: v for k, v in row.items() if k != "names"}), flush=True)
            rows[row["name"]] = row
            listed = [rows[name] for name in NAMES if name in rows]
            record = {"command": "python -m benchmarks.zoo", **machine(), "rows": listed}
            path.write_text(json.dumps(record, indent=1) + "\n")
    return int(any("failed" in row for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
