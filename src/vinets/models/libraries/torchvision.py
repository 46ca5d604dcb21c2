"""Classifiers of torchvision."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from vinets.models.libraries.base import Library, Options, import_optional

SHAPE_OPTIONS = {
    *("num_classes", "image_size", "dropout", "attention_dropout", "stochastic_depth_prob"),
    *("width_mult", "reduced_tail", "dilated", "groups", "width_per_group", "growth_rate"),
    *("zero_init_residual", "replace_stride_with_dilation", "bn_size", "drop_rate", "alpha"),
    *("memory_efficient", "aux_logits", "transform_input", "init_weights"),
}


class Torchvision(Library):
    """``torchvision:NAME``, which needs the extra ``vision``.

    Networks for detection and segmentation are left out: they fetch the weights of a backbone.
    """

    name = "torchvision"
    prefix = "torchvision"
    written = "torchvision:NAME"
    shape_options = SHAPE_OPTIONS

    def names(self) -> Iterable[str]:
        return _homes()

    def build(self, name: str, options: Options) -> nn.Module:
        if name not in _homes():
            raise self.unknown(name)
        return import_torchvision().models.get_model(name, **{"weights": None, **options})

    def candidates(self, model: nn.Module) -> Iterator[tuple[str | None, Options]]:
        if not self.defines(model):
            return
        # The last tensor is the bias of the last layer, whose length is the number of classes.
        shapes = [v.shape for v in model.state_dict().values() if isinstance(v, Tensor)]
        options: Options = {"num_classes": shapes[-1][0]} if shapes and shapes[-1] else {}
        if "image_size" in vars(model):  # vision transformers
            options["image_size"] = model.image_size
        for name, home in _homes().items():
            if home == type(model).__module__:
                yield name, options

    def normalisation(self, model: nn.Module, weights: Path | None) -> tuple[Any, Any] | None:
        source = getattr(model, "vinets_source", None)
        if not isinstance(source, dict):
            return None
        try:  # weights are described here, and fetched elsewhere
            weights_of = import_torchvision().models.get_model_weights(source["name"])
            transform = weights_of.DEFAULT.transforms()
        except (AttributeError, ValueError):  # not all networks have published weights
            return None
        return getattr(transform, "mean", None), getattr(transform, "std", None)


def _homes() -> dict[str, str]:
    """Return the names of the classifiers, each with the module that defines it."""
    models = import_torchvision().models
    names = models.list_models(module=models)
    return {name: models.get_model_builder(name).__module__ for name in names}


def import_torchvision(library: str = "torchvision") -> ModuleType:
    """Import torchvision for a library, also where its operators do not fit this build of torch.

    Such a torchvision stops with "operator torchvision::nms does not exist". The networks need
    none of these operators, so it is enough to declare them.
    """
    try:
        return import_optional("torchvision", f"Networks of {library} need", extra="vision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    _declare_operators()
    return importlib.import_module("torchvision")


@cache  # the declaration lasts as long as the object, and may be made once only
def _declare_operators() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
