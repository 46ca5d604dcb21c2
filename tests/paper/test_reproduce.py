"""Every experiment on a small slice, and what comes of stopping and of going on."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest
import torch
from looks import faults
from program import run
from safetensors.torch import save_file

from vinets.core.settings import RECIPES
from vinets.models import create_model, load_weights, save_weights
from vinets.paper import claims
from vinets.paper.backbones import RESNET18, RESNET34, VARIANTS
from vinets.paper.page import read_results, results_page
from vinets.paper.plan import EXPERIMENTS, Experiment, Findings, Plan, Results
from vinets.paper.reproduce import Folders, chosen_experiments, reproduce
from vinets.report import html
from vinets.runs import store as running
from vinets.runs.store import Store
from vinets.runs.tasks import RATIOS
from vinets.runs.trial import IdealFacts, TrialResult

PLAN = Plan(seeds=2, quick=True, backbones=("resnet18",))
SETTINGS = {"plan": PLAN, "device": "cpu", "progress": None}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    """Small data in the layout of CIFAR and untrained weights, enough to run every experiment."""
    root = tmp_path_factory.mktemp("paper")
    binary = root / "data" / "cifar10" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    rng = np.random.default_rng(0)
    base = rng.integers(40, 215, size=(10, 3072))
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        labels = np.arange(100) % 10
        images = np.clip(base[labels] + rng.normal(0, 40, (100, 3072)), 0, 255)
        rows = np.concatenate([labels[:, None], images], axis=1).astype(np.uint8)
        (binary / f"{name}.bin").write_bytes(rows.tobytes())
    torch.manual_seed(0)
    weights = root / "weights"
    weights.mkdir()
    save_file(create_model("resnet18", 10).state_dict(), weights / "resnet18_cifar10.safetensors")
    return Folders(root / "data", weights)


@pytest.fixture(scope="module")
def out(folders, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    reproduce(["all"], folders, folder, **SETTINGS)
    return folder


def _experiment(folder, name):
    return next(e for e in read_results(folder) if e.experiment == name)


def test_every_experiment_has_a_result_that_the_page_can_read(out):
    found = read_results(out)
    assert [experiment.experiment for experiment in found] == [
        one.name for one in chosen_experiments(["all"], PLAN)
    ]
    for experiment in found:
        assert experiment.machine["torch"] and experiment.seconds > 0
        for figure in experiment.figures:
            for kind in ("png", "svg"):
                picture = out / "figures" / f"{figure.id}-quick.{kind}"
                assert picture.stat().st_size > 1000


def test_parameters_are_counted_as_in_the_paper(out):
    table = _experiment(out, "table-efficiency").tables[0]
    rows = {row.values["model"]: row for row in table.rows}
    assert set(rows) == {*RESNET18.variants, "ResNet-18"}
    counts = (675_392, 2_184_768, 3_955_776, 8_808_512)
    for name, base in zip(RESNET18.variants, counts, strict=True):
        assert rows[name].values["base"] == base / 1e6
        assert VARIANTS[name]["base"] == pytest.approx(base / 1e6, abs=0.005)
        assert rows[name].values["total"] == pytest.approx(
            rows[name].values["base"] + rows[name].values["head"]
        )
        assert len(rows[name].values["accuracies"]) == 2


def test_baselines_are_compared_seed_by_seed(out):
    rows = _experiment(out, "fig-baselines").tables[0].rows
    assert len(rows) == len(RESNET18.readings)  # at one cut
    found = {"vanishing": {}, "random": {}}
    for head, seed in ((head, seed) for head in found for seed in (0, 1)):
        trial = PLAN.trial(RESNET18, rows[0].values["cut"], head=head, seed=seed)
        found[head][seed] = 100 * Store(out).read(trial).trained.accuracy
    gaps = [found["vanishing"][seed] - found["random"][seed] for seed in (0, 1)]
    assert rows[0].values["difference"] == pytest.approx(sum(gaps) / 2)
    assert rows[0].values["difference_std"] == pytest.approx(abs(gaps[0] - gaps[1]) / 2**0.5)
    assert rows[0].values["wins"] == f"{sum(gap > 0 for gap in gaps)} of 2"


def test_every_claim_of_a_network_is_checked(out):
    rows = _experiment(out, "claims").tables[0].rows
    assert len(rows) == 16 and len({row.values["claim"] for row in rows}) == 16
    of_other_networks = {*claims.LARGER_ALONE, "Generators", "Theory"}
    assert {row.values["where"] for row in rows} == claims.CLAIMS.keys() - of_other_networks
    name, store = "table-efficiency", Store(out)
    planned = EXPERIMENTS[name].planned(PLAN)
    results = Results({(name, *key): store.read(one) for key, one in planned.items()})
    evidence = claims.Evidence(PLAN, RESNET18, results)
    verdicts = {claim: verdict for claim, _, verdict in claims._table_two(evidence)}
    assert verdicts["parameters of the truncated networks"] == "yes"  # whatever the weights are


def test_calls_are_logged_with_what_they_did_and_trials_with_how(out):
    (call,) = [json.loads(line) for line in (out / "calls.jsonl").read_text().splitlines()]
    assert call["runs"] == len(Store(out)) and call["left"] == 0
    assert call["seconds"] > 0 and call["machine"]["torch"]
    for line in Store(out).path.read_text().splitlines():
        assert {"name", "trial", "machine", "took", "result"} <= json.loads(line).keys()


def test_what_ends_a_call_is_one_sentence(folders, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.27 GiB.")

    monkeypatch.setattr(running, "TASKS", dict.fromkeys(running.TASKS, full))
    with pytest.raises(MemoryError, match=r"--jobs"):
        reproduce(["fig-monomials"], folders, tmp_path, **SETTINGS)
    monkeypatch.setitem(sys.modules, "skdim.id", None)
    monkeypatch.setattr(running, "TASKS", {})  # nothing can be run
    with pytest.raises(ModuleNotFoundError, match=r"vinets\[dimension\]"):
        reproduce(["fig-monomials", "fig-dimension"], folders, tmp_path, **SETTINGS)


def test_a_call_that_was_stopped_goes_on(folders, tmp_path, monkeypatch):
    """What is complete was written, and of the rest how much is missing."""
    done = []
    first, second = (EXPERIMENTS[name].trials(PLAN) for name in ("fig-monomials", "fig-truncation"))

    def stopped(context, trial, folder):
        if len(done) == len(first) + 3:  # that with the fewest trials comes first
            raise KeyboardInterrupt
        done.append(trial)
        left = dict.fromkeys(map(str, RATIOS), 1)
        return TrialResult(0.25, ideals=IdealFacts(1, 1, 1, None, 1, 1, 0.1, left))

    monkeypatch.setattr(running, "TASKS", dict.fromkeys(running.TASKS, stopped))
    shown, names = [], ["fig-truncation", "fig-monomials"]
    with pytest.raises(KeyboardInterrupt):
        reproduce(names, folders, tmp_path, show=shown.append, **SETTINGS)
    store = Store(tmp_path)
    assert len(store.missing(second)) == len(second) - 3 and not store.missing(first)
    assert all(store.read(trial).removed == 0.25 for trial in done)
    assert [one.experiment for one in shown] == ["fig-monomials"]
    truncation, monomials = read_results(tmp_path)
    assert (truncation.missing, truncation.figures) == (len(second) - 3, ())
    assert monomials.missing == 0 and monomials.figures == shown[0].figures
    text = html(results_page([truncation]))
    assert f"{truncation.missing} of its trials were still to be done" in text


def test_an_earlier_result_stays_until_there_is_another(out, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "TASKS", {})  # nothing can be run
    shutil.copy(out / "fig-baselines-quick.json", tmp_path)
    plan = replace(PLAN, seeds=3)
    with pytest.raises(KeyError):
        reproduce(["fig-baselines"], folders, tmp_path, **(SETTINGS | {"plan": plan}))
    assert read_results(tmp_path) == [_experiment(out, "fig-baselines")]


def test_processes_side_by_side_are_those_of_run_trials(folders, tmp_path, monkeypatch):
    """Which find the same as one process, as the tests of trials show."""
    calls = []

    def stopped(*arguments, **options):
        calls.append((*arguments[:2], options["executor"]))
        raise KeyboardInterrupt

    monkeypatch.setattr("vinets.paper.reproduce.run_trials", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce(["fig-monomials"], folders, tmp_path, jobs=2, **SETTINGS)
    ((trials, setups, executor),) = calls
    assert trials == EXPERIMENTS["fig-monomials"].trials(PLAN)
    assert isinstance(executor, Executor)
    assert setups == {"resnet18": folders.files(RESNET18)}  # names of files, for any process


def test_other_weights_are_refused(out, folders, tmp_path):
    """Results of one network are not those of another, whatever its file is called."""
    other = create_model("resnet18", 10)
    load_weights(other, folders.weights / RESNET18.weights)
    with torch.no_grad():
        other.fc.bias[0] += 1e-3  # one number is enough
    (tmp_path / "weights").mkdir()
    save_weights(other, tmp_path / "weights" / RESNET18.weights)
    with pytest.raises(ValueError, match=r"results of resnet18 with other weights\. Choose"):
        reproduce(["fig-monomials"], Folders(folders.data, tmp_path / "weights"), out, **SETTINGS)


def test_a_quick_run_says_so_and_describes_its_own_settings(out):
    """And none of those of the full run, which its text would have otherwise."""
    found, start = read_results(out), PLAN.start
    facts = f"{start.sampling.train} training and {start.sampling.test} test images of each class"
    assert all(one.quick.startswith("A quick run") and facts in one.quick for one in found)
    names = [path.stem for path in (*out.glob("*.json"), *(out / "figures").iterdir())]
    names += [path.name for path in (out / "networks").iterdir()]
    assert all(name.endswith("-quick") for name in names if name != "store")
    texts = " ".join(text for one in found for text in one.text)
    for phrase in ("12 principal components, 16 points", "1 epoch of SGD", "batch size 16"):
        assert phrase in texts
    for phrase in ("128 principal", "512 points", "20 epochs", "batch size 256", "line at 128"):
        assert phrase not in texts


def test_a_quick_run_judges_nothing_and_stands_alone(out):
    tables = [table for one in read_results(out) for table in one.tables]
    assert not any(row.paper for table in tables for row in table.rows)
    columns = {column.name for table in tables for column in table.columns}
    assert not columns & {"verdict", "speedup"}
    assert "verdict" not in (out / "claims-quick.json").read_text()


def test_the_command_prints_tables_and_the_page_says_quick(out, folders, tmp_path):
    """Over trials that are there, so that nothing is run."""
    shutil.copy(Store(out).path, tmp_path)
    shutil.copytree(out / "networks", tmp_path / "networks")
    shutil.copy(out / "store.json", tmp_path)
    words = ["reproduce", "table-efficiency", "fig-monomials", "--quick", "--seeds", 2]
    words += ["--on", "resnet18", "--device", "cpu", "--data", folders.data]
    words += ["--weights", folders.weights, "--out", tmp_path]

    def called(*more: object) -> str:
        done = run(*more)
        assert done.code == 0, done.err
        return done.out

    printed = called(*words)
    assert printed.startswith("A quick run") and "88.62" not in printed  # which is the paper's
    assert all(name in printed for name in RESNET18.variants)
    assert printed.index("fig-monomials, quick run") < printed.index("VI-Net18-Tiny")
    files = [str(tmp_path / f"{name}-quick.json") for name in words[1:3]]
    assert sorted(json.loads(called(*words, "--json"))["results"]) == sorted(files)
    page = tmp_path / "report-quick.html"
    assert called("report", tmp_path).strip() == str(page)
    assert "a quick run</h1>" in page.read_text(encoding="utf-8")


@pytest.mark.pages
def test_the_page_of_a_quick_run_suits_every_screen(out, tmp_path):
    found = read_results(out)
    page = tmp_path / "report-quick.html"
    page.write_text(html(results_page(found)), encoding="utf-8")
    assert found[0].quick in page.read_text(encoding="utf-8").partition("<main>")[0]
    assert faults(page) == []


def test_an_experiment_from_outside_is_one_of_all(folders, tmp_path, monkeypatch):
    def planned(plan):
        return {("ideals",): plan.trial(RESNET18, "layer4.1.bn1", task="ideals")}

    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS))
    nothing = Findings(("Nothing to see.",))
    mine = Experiment("my-table", "Mine", "nowhere", 99, planned, lambda plan, found: nothing)
    assert chosen_experiments(["all"], PLAN)[-1] is mine
    reproduce(["my-table"], folders, tmp_path, **SETTINGS)
    assert _experiment(tmp_path, "my-table").text == nothing.text


@pytest.mark.parametrize(
    ("names", "plan", "message"),
    [
        (["fig-nothing"], PLAN, r"no experiment 'fig-nothing'\. .*fig-truncation"),
        (["fig-monomials"], Plan(quick=True, backbones=("vgg",)), "resnet18"),
        (["fig-algorithms"], PLAN, "fig-algorithms is not for resnet18"),
        (["fig-monomials"], Plan(backbones=("resnet18", "digits")), "settings of their own"),
    ],
)
def test_wrong_arguments_are_one_sentence(folders, tmp_path, names, plan, message):
    with pytest.raises(ValueError, match=message):
        reproduce(names, folders, tmp_path, plan=plan, device="cpu", progress=None)


def test_missing_weights_are_one_sentence_with_a_command_that_works(folders, tmp_path, monkeypatch):
    """Run as printed, but for the number of epochs, the command makes what was missing."""
    missing, out = Folders(folders.data, tmp_path / "my weights"), tmp_path / "out"
    with pytest.raises(FileNotFoundError, match="run this again: ") as error:
        reproduce(["fig-monomials"], missing, out, **SETTINGS)
    program, *words = shlex.split(str(error.value).partition("run this again: ")[2])
    assert program == "vinets"
    recipe = RECIPES[RESNET18.recipe]
    short = replace(recipe, recipe=replace(recipe.recipe, epochs=1))
    monkeypatch.setitem(RECIPES, RESNET18.recipe, short)
    done = run(*words)
    assert done.code == 0, done.err
    made = missing.find(RESNET18)
    assert made is not None
    files = missing.files(RESNET18)
    assert files.weights == str(made)
    assert files.open("resnet18", torch.device("cpu")).model.fc.out_features == 10
    assert Folders(folders.data, made.parent).find(RESNET18) == made  # the folder itself
    assert Folders(folders.data, made.parent).find(RESNET34) is None
