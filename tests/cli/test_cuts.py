from __future__ import annotations

import torch

from vinets.latent.cut import cut_points
from vinets.models import PRESETS, resnet18
from vinets.search.space import choose_cuts


def test_cuts_are_those_of_the_library_and_presets_are_marked(call):
    result = call("cuts", "resnet18", "--shape", "3,32,32", "--json").json()
    points = cut_points(resnet18(), torch.zeros(1, 3, 32, 32), every=True)
    assert [p["name"] for p in result["points"]] == [p.name for p in points]
    assert [p["macs"] for p in result["points"]] == [p.macs for p in points]
    cuts = {name: cut for name, (network, cut) in PRESETS.items() if network == "resnet18"}
    marked = {p["preset"]: p for p in result["points"] if p["preset"]}
    assert {n: p["name"] for n, p in marked.items()} == cuts


def test_cuts_know_the_inputs_of_a_folder_or_of_data(call, base):
    table = call("cuts", base, "--match", "relu").out
    assert "64×4×4" in table and "conv" not in table
    assert call("cuts", "digits_cnn", "--data", "digits", "--match", "relu").out == table


def test_bad_input_to_cuts_is_refused(refused, vinet):
    assert "Pass the shape" in refused("cuts", "resnet18")
    assert "does not take inputs" in refused("cuts", "resnet18", "--shape", "1,8,8")
    assert "has 'foo'" in refused("cuts", "digits_cnn", "--shape", "1,8,8", "--match", "foo")
    assert "is cut already" in refused("cuts", vinet)


def test_by_default_few_cuts_are_shown_and_all_on_demand(call):
    few, every = (
        call("cuts", "resnet18", "--shape", "3,32,32", *more).out for more in ([], ["--all"])
    )
    points = cut_points(resnet18(), torch.zeros(1, 3, 32, 32), every=True)
    shown = [p.name for p in points if f" {p.name} " in few]
    tried = {p.name for p in choose_cuts(points, sum(p.numel() for p in resnet18().parameters()))}
    paper = {cut for network, cut in PRESETS.values() if network == "resnet18"}
    assert set(shown) == tried | paper and len(shown) < len(points) / 3
    assert f"{len(shown)} of {len(points)} cuts" in few and "--all" in few
    assert all(f" {p.name} " in every for p in points) and "--all" not in every


def test_where_all_cuts_are_shown_nothing_more_is_said(call):
    every = call("cuts", "digits_cnn", "--shape", "1,8,8", "--all")
    assert " of " not in every.out
