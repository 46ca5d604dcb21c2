"""Networks to start from: by name, made again from a record, and with weights from a file."""

from vinets.models.libraries.base import LIBRARIES, Library, libraries
from vinets.models.libraries.file import use_file
from vinets.models.networks import (
    DigitsNet,
    ResNet,
    TextTransformer,
    VisionTransformer,
    digits_cnn,
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet44,
    resnet56,
)
from vinets.models.presets import PRESETS, Preset, preset
from vinets.models.records import (
    channel_options,
    create_model,
    normalisation_of,
    rebuild,
    source_of,
    spec_of,
)
from vinets.models.weights import load_weights, save_weights

__all__ = [
    "LIBRARIES",
    "PRESETS",
    "DigitsNet",
    "Library",
    "Preset",
    "ResNet",
    "TextTransformer",
    "VisionTransformer",
    "channel_options",
    "create_model",
    "digits_cnn",
    "libraries",
    "load_weights",
    "normalisation_of",
    "preset",
    "rebuild",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
    "resnet44",
    "resnet56",
    "save_weights",
    "source_of",
    "spec_of",
    "use_file",
]
