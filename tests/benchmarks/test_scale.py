"""The benchmarks of scale in small, and the arithmetic of the plan."""

from __future__ import annotations

import pytest
import torch

from benchmarks import imagenet, imagenet_plan, resnet50, streaming
from vinets.models.libraries.timm import import_timm


def test_shards_are_the_same_in_every_pass():
    first, second = list(streaming.shards(70_000)), list(streaming.shards(70_000))
    assert [len(shard) for shard in first] == [65_536, 70_000 - 65_536]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0][: len(first[1])], first[1])
    assert max(float(shard.abs().max()) for shard in first) <= 1


def test_a_few_classes_go_through_all_stages(monkeypatch):
    small = {"SAMPLES": 80, "WIDTH": 80, "FREE": 3, "COMPONENTS": 12, "CHECK": 10, "STEPS": 60}
    for name, value in (small | {"BATCH": 64}).items():
        monkeypatch.setattr(imagenet, name, value)
    threads = torch.get_num_threads()
    found = {row["stage"]: row for row in imagenet.run(4)}
    torch.set_num_threads(threads)
    assert found["collect"]["bytes"] == 4 * 80 * 80 * 2
    assert found["pruning"]["kept"] == 4 * imagenet.KEPT
    assert found["evaluation"]["accuracy"] > 0.9  # of fresh latents: the structure was found


def test_a_small_network_of_timm_takes_one_step_of_everything(tmp_path):
    try:
        import_timm()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    threads = torch.get_num_threads()
    found = {row["stage"]: row for row in resnet50.run("timm:resnet10t", "layer2", 32, tmp_path)}
    torch.set_num_threads(threads)
    assert found["compress --dry-run"]["candidates"] > 0
    assert not (tmp_path / "plan").exists()  # a plan leaves nothing behind
    assert found["PCA, ideals, pruning, VI layer"]["generators"] > 0
    assert found["save and load"]["same"] is True
    assert found["export"]["largest_difference"] < 1e-4


def rows(classes: int, power: float) -> list[dict]:
    stages = ("collect", "components", "projection", "ideals", "pruning", "VI layer", "training")
    return [
        {
            "classes": classes,
            "stage": stage,
            "seconds": 3 * classes**power,  # on a machine with other work
            "cpu_seconds": classes**power,
            "peak_GiB": 1.0,
            "generators": 100 * classes,
        }
        for stage in stages
    ]


def test_the_plan_extrapolates_by_the_exponents():
    facts = {"samples": 1300, "components": 48, "check_per_class": 8, "kept_per_class": 4}
    facts["monomials"] = 512
    both = []
    for power in (1.0, 2.0):
        measured = [*rows(100, power), *rows(1000, power)]
        exponents = imagenet.exponents(measured)
        assert all(e == pytest.approx(power) for e in exponents.values())
        plan = imagenet_plan.plan({"rows": measured, "exponents": exponents, **facts})
        both.append({row["stage"]: row for row in plan})
    assumed = {name: value for name, (value, _) in imagenet_plan.ASSUMED.items()}
    one, two = (plan["VI layer"]["machine_hours"] for plan in both)
    assert one == pytest.approx(
        assumed["classes"] / 3600 / assumed["cores"] / assumed["efficiency"]
    )
    assert two == pytest.approx(one * assumed["classes"])
    assert both[0]["pruning"]["exponent"] == 2  # by its operations, whatever was measured
    total = sum(row["cost_dollars"] for stage, row in both[0].items() if stage != "all")
    assert both[0]["all"]["cost_dollars"] == pytest.approx(total)
