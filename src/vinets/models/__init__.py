"""Networks to start from: by name, made again from a record, and with weights from a file."""

from vinets.models.facts import load_weights, save_weights
from vinets.models.libraries.base import LIBRARIES, Library, libraries
from vinets.models.libraries.file import use_file
from vinets.models.networks import (
    PRESETS,
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
from vinets.models.records import (
    channel_options,
    create_model,
    normalisation_of,
    rebuild,
    source_of,
    spec_of,
)

__all__ = [
    "LIBRARIES",
    "PRESETS",
    "DigitsNet",
    "Library",
    "ResNet",
    "TextTransformer",
    "VisionTransformer",
    "channel_options",
    "create_model",
    "digits_cnn",
    "libraries",
    "load_weights",
    "normalisation_of",
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
