"""Every experiment on a small slice, and what comes of stopping and of going on."""

from __future__ import annotations

import json

import pytest
import torch

from vinets.experiments import claims, engine
from vinets.experiments.backbones import RESNET18
from vinets.experiments.plan import READINGS, Plan
from vinets.experiments.reproduce import EXPERIMENTS, reproduce
from vinets.experiments.runs import QUICK, Store
from vinets.report import read_results

SETTINGS = {"quick": True, "seeds": 2, "backbones": ("resnet18",), "device": "cpu"}


@pytest.fixture(scope="module")
def out(folders, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    data, weights = folders
    reproduce(["all"], data, folder, weights=weights, progress=None, **SETTINGS)
    return folder


def _experiment(folder, name):
    return next(e for e in read_results(folder) if e.experiment == name)


def test_every_experiment_has_a_result_that_the_page_can_read(out):
    found = read_results(out)
    assert [experiment.experiment for experiment in found] == list(EXPERIMENTS)
    for experiment in found:
        if experiment.tables or experiment.figures:  # some are for the other network alone
            assert experiment.machine["torch"] and experiment.seconds > 0
        for figure in experiment.figures:
            assert (out / "figures" / f"{figure.id}.png").stat().st_size > 1000
            assert (out / "figures" / f"{figure.id}.svg").stat().st_size > 1000


def test_tables_hold_the_paper_beside_ours(out):
    table = _experiment(out, "table-efficiency").tables[0]
    rows = {row.values["model"]: row for row in table.rows}
    assert set(rows) == {*RESNET18.variants, "ResNet-18"}
    counts = (675_392, 2_184_768, 3_955_776, 8_808_512)
    for name, base in zip(RESNET18.variants, counts, strict=True):
        assert rows[name].values["base"] == base / 1e6
        assert rows[name].paper["base"] == pytest.approx(base / 1e6, abs=0.005)
        assert rows[name].values["total"] == pytest.approx(
            rows[name].values["base"] + rows[name].values["head"]
        )
        assert len(rows[name].values["accuracies"]) == 2


def test_figures_have_a_point_for_every_cut(out):
    truncation = _experiment(out, "fig-truncation")
    (figure,) = truncation.figures
    assert [series.name for series in figure.series] == [
        *("VI-Net", "linear head", "random monomials", "MLP")
    ]
    for series in figure.series:
        assert series.labels == Plan(quick=True).cuts(RESNET18)
        assert list(series.x) == sorted(series.x, reverse=True)  # earliest cut first


def test_pruning_leaves_fewer_monomials(out):
    figure = _experiment(out, "fig-monomials").figures[0]
    for later, earlier in zip(figure.series[1:], figure.series, strict=False):
        assert all(a <= b for a, b in zip(later.y, earlier.y, strict=True))


def test_a_second_call_repeats_nothing(out, folders, monkeypatch):
    data, weights = folders
    monkeypatch.setattr(engine, "_world", lambda *_: pytest.fail("something was run again"))
    before = {path: path.read_text() for path in out.glob("*.json")}
    reproduce(["all"], data, out, weights=weights, progress=None, **SETTINGS)
    assert {path: path.read_text() for path in out.glob("*.json")} == before


def test_baselines_are_compared_seed_by_seed(out):
    rows = _experiment(out, "fig-baselines").tables[0].rows
    assert len(rows) == len(READINGS)  # at one cut
    found = {"vi": {}, "random": {}}
    for path in (out / "runs").glob("*-train-*"):
        record = json.loads(path.read_text())
        run, accuracy = record["run"], record["result"]["accuracy"]
        plain = (run["cut"], run["psi"], run["scale"]) == (rows[0].values["cut"], 0.1, "none")
        if plain and run["head"] in found and run["keep"] is None and not run["changes"]:
            found[run["head"]][run["seed"]] = 100 * accuracy
    gaps = [found["vi"][seed] - found["random"][seed] for seed in (0, 1)]
    assert rows[0].values["difference"] == pytest.approx(sum(gaps) / 2)
    assert rows[0].values["difference_std"] == pytest.approx(abs(gaps[0] - gaps[1]) / 2**0.5)
    assert rows[0].values["wins"] == f"{sum(gap > 0 for gap in gaps)} of 2"


def test_every_claim_of_a_network_is_checked(out):
    rows = _experiment(out, "claims").tables[0].rows
    assert [row.values["claim"] for row in rows] == [
        claim.text for claim in claims.ALL if RESNET18 in claim.about
    ]
    sizes = next(row for row in rows if "truncated networks" in row.values["claim"])
    assert sizes.values["verdict"] == "yes"  # whatever the weights are


def test_calls_are_logged_with_what_they_did(out):
    (call,) = [json.loads(line) for line in (out / "calls.jsonl").read_text().splitlines()]
    assert call["runs"] == len(list((out / "runs").iterdir())) and call["left"] == 0
    assert call["seconds"] > 0 and call["machine"]["torch"]


def test_a_full_gpu_is_one_sentence(folders, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.27 GiB.")

    data, weights = folders
    monkeypatch.setattr(engine, "TASKS", {"ideals": full})
    with pytest.raises(MemoryError, match=r"--jobs"):
        reproduce(["fig-monomials"], data, tmp_path, weights=weights, progress=None, **SETTINGS)


def test_a_call_that_was_stopped_goes_on(out, folders, tmp_path, monkeypatch):
    data, weights = folders
    done = []

    def stopped(bench, run, folder):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(run)
        return {"kept": True}

    name = ["fig-truncation"]
    monkeypatch.setattr(engine, "TASKS", {"train": stopped})
    with pytest.raises(KeyboardInterrupt):
        reproduce(name, data, tmp_path, weights=weights, progress=None, **SETTINGS)
    store = Store(tmp_path, QUICK)
    runs = EXPERIMENTS["fig-truncation"].runs(Plan(2, True, ("resnet18",)))
    assert len(store.missing(runs)) == len(runs) - 3
    assert all(store.read(run) == {"kept": True} for run in done)


def test_processes_side_by_side_find_the_same(out, folders, tmp_path):
    data, weights = folders
    reproduce(["fig-monomials"], data, tmp_path, weights=weights, jobs=2, progress=None, **SETTINGS)
    found = [_experiment(folder, "fig-monomials").figures for folder in (out, tmp_path)]
    assert found[0] == found[1]


def test_quick_and_full_results_are_kept_apart(tmp_path):
    run = EXPERIMENTS["fig-truncation"].runs(Plan())[0]
    assert run.name(Plan().scale) != run.name(Plan(quick=True).scale)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["fig-nothing"]}, "fig-truncation"),
        ({"backbones": ("vgg",)}, "resnet18"),
        ({"weights": "nowhere"}, "vinets train resnet18"),
    ],
)
def test_wrong_arguments_are_one_sentence(folders, tmp_path, change, message):
    data, weights = folders
    given = {"names": ["fig-monomials"], "weights": weights, **SETTINGS, **change}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        reproduce(given.pop("names"), data, tmp_path, progress=None, **given)


def test_a_broken_run_is_named(out, tmp_path):
    store = Store(tmp_path, QUICK)
    run = EXPERIMENTS["fig-monomials"].runs(Plan(quick=True))[0]
    store.write(run, {"a": 1}, {})
    store.path(run).write_text("{")
    with pytest.raises(ValueError, match="Delete it"):
        store.read(run)


def test_raw_results_are_json_with_settings_machine_and_time(out):
    for path in (out / "runs").glob("*.json"):
        record = json.loads(path.read_text())
        assert {"run", "scale", "machine", "took", "result"} <= record.keys()
