"""Colours are the same in pictures and pages, and stand out from what is behind them."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import pytest

from vinets.core.palette import COLORS, GREY, INK, OURS, color_of, looks, marker_of
from vinets.heads import HEADS


def colours(scheme: int) -> dict[str, str]:
    style = files("vinets.report").joinpath("style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme]))


def test_pages_and_pictures_have_one_palette():
    found = colours(0)
    assert (found["accent"], found["quiet"], found["ink"]) == (OURS, GREY, INK)
    assert [found[f"series-{i}"] for i in range(1, len(COLORS) + 1)] == list(COLORS)


def test_looks_differ_until_the_colours_are_used_up():
    found = looks(["MLP", "VI-Net", *"abcdefg"])
    assert found[1] == 0 and len(set(map(color_of, found))) == len(found)
    assert color_of(1 + len(COLORS)) == color_of(1)
    assert len({marker_of(look) for look in range(8)}) == 8


@pytest.mark.parametrize("label", sorted({h.label for h in HEADS.values() if h.rivals}))
def test_polynomials_stand_out_by_the_label_of_their_head(label):
    assert looks(["MLP", label]) == [1, 0]


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_what_is_behind_them(scheme):
    found = colours(scheme)
    series = [f"series-{i}" for i in range(1, 9)]
    for name in ("ink", "quiet", "accent", "gain", "loss", *series):
        for back in ("page", "card"):
            light, dark = sorted((luminance(found[n]) for n in (name, back)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, back)
