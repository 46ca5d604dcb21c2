"""Networks of timm."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from vinets.models.libraries.base import Library, Options, import_optional
from vinets.models.libraries.torchvision import import_torchvision

SHAPE_OPTIONS = {
    *("num_classes", "in_chans", "img_size", "global_pool", "output_stride", "patch_size"),
    *("drop_rate", "drop_path_rate", "proj_drop_rate", "attn_drop_rate", "pos_drop_rate"),
    *("embed_dim", "embed_dims", "depth", "depths", "dims", "num_heads", "mlp_ratio", "widths"),
    *("layers", "channels", "cardinality", "base_width", "width", "bottle_ratio", "num_features"),
    *("stem_width", "stem_type", "stem_size", "stem_chs", "avg_down", "block_reduce_first"),
    *("class_token", "reg_tokens", "pos_embed", "no_embed_class", "pre_norm", "fc_norm"),
    *("init_values", "ls_init_value", "qkv_bias", "qk_norm", "conv_mlp", "use_grn", "norm_eps"),
    *("window_size", "strict_img_size", "dynamic_img_size", "dynamic_img_pad"),
    *("act_layer", "norm_layer", "kernel_sizes", "head_hidden_size", "head_init_scale"),
}


class Timm(Library):
    """``timm:NAME``, which needs the extra ``vision``."""

    name = "timm"
    prefix = "timm"
    written = "timm:NAME"
    shape_options = SHAPE_OPTIONS

    def names(self) -> Iterable[str]:
        return list(import_timm().list_models())

    def build(self, name: str, options: Options) -> nn.Module:
        timm: Any = import_timm()
        # timm itself would take hf-hub:, local-dir: and paths for names, and fetch what they name.
        if ":" in name or "/" in name or not timm.is_model(name):
            raise self.unknown(name)
        return timm.create_model(name, **{"pretrained": False, **options})

    def candidates(self, model: Any) -> Iterator[tuple[str | None, Options]]:
        if not self.defines(model):
            return
        name = _settings(model).get("architecture")
        known = {key: getattr(model, key, None) for key in ("num_classes", "in_chans")}
        pool = getattr(model, "global_pool", None)
        shaping = {
            "img_size": getattr(getattr(model, "patch_embed", None), "img_size", None),
            "global_pool": pool if isinstance(pool, str) else None,
        }
        for options in ({**known, **shaping}, known):  # some networks take no image size
            yield name, {key: value for key, value in options.items() if value is not None}

    def normalisation(self, model: Any, weights: Path | None) -> tuple[Any, Any] | None:
        settings = _settings(model)
        return settings.get("mean"), settings.get("std")

    def with_channels(self, name: str, channels: int) -> Options:
        return {} if channels == 3 else {"in_chans": channels}


def _settings(model: Any) -> dict[str, Any]:
    """Return how timm describes a network, as far as it does."""
    settings = getattr(model, "pretrained_cfg", None)
    return settings if isinstance(settings, dict) else {}


def import_timm() -> ModuleType:
    """Import timm, and torchvision before it: timm would stop where its operators do not fit."""
    if importlib.util.find_spec("timm") is not None:
        import_torchvision("timm")
    return import_optional("timm", "Networks of timm need", extra="vision")
