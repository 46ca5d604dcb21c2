"""What is registered stands in the help, from wherever it was added."""

from __future__ import annotations

import re

import pytest

from vinets.cli.late_help import LOOKUPS
from vinets.data import DATA_FORMATS
from vinets.export import EXPORT_FORMATS
from vinets.heads import HEADS, Head
from vinets.models import LIBRARIES
from vinets.oracles import ORACLES


class Other:
    """Nothing but the names; nobody asks for more in the help."""

    name = "other"
    written = "other:THING"
    prefix = "other"
    suffix = ".other"
    rank = 50


@pytest.fixture
def others(monkeypatch):
    for registry in (DATA_FORMATS, EXPORT_FORMATS, LIBRARIES, ORACLES):
        monkeypatch.setattr(registry, "_entries", {**registry, "other": Other})
    monkeypatch.setattr(HEADS, "_entries", dict(HEADS))

    class OtherHead(Head):
        kind = "other"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("build", ", other. [default: vanishing]"),
        ("ideal", "agd, cg, pcg, bpcg, other or exact"),
        ("evaluate", "'digits', 'cifar10:DIR'"),
        ("evaluate", "'idx:DIR', 'fashion-mnist:DIR'"),
        ("evaluate", "other:THING, a folder of images by class"),
        ("cuts", "digits_cnn, vit, text_transformer, FILE.py:CLASS, hf:CLASS, other:THING, timm"),
        ("export", "onnx-int8 or other or torch"),
        ("export", ".onnx or .other or .pt2"),
    ],
)
def test_the_help_names_every_entry(call, others, command, told):
    text = re.sub(r"[\s│]+", " ", call(command, "--help").out)
    assert told in text


def test_no_marker_is_left(call):
    for command in ("train", "cuts", "build", "evaluate", "export", "theory", "ideal"):
        text = re.sub(r"[\s│]+", " ", call(command, "--help").out)
        assert [marker for marker in LOOKUPS if marker in text] == []
