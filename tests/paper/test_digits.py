"""Every experiment on a small slice of digits: networks that are trained here, over two splits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from vinets.core.settings import RECIPES
from vinets.data import digits
from vinets.networks.storage import WEIGHTS
from vinets.paper import claims
from vinets.paper.backbones import DIGITS
from vinets.paper.page import read_results
from vinets.paper.plan import EXPERIMENTS, Plan, Results, level
from vinets.paper.reproduce import Folders, one_thread, reproduce
from vinets.runs import store as running
from vinets.runs.store import Store

PLAN = Plan(seeds=2, quick=True, backbones=("digits",))
SETTINGS = {"plan": PLAN, "device": "cpu", "progress": None}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    known = RECIPES[DIGITS.recipe]
    with pytest.MonkeyPatch.context() as patch:
        short = replace(known, recipe=replace(known.recipe, epochs=3))
        patch.setitem(RECIPES, DIGITS.recipe, short)
        reproduce(["all"], Folders(), folder, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def found(out):
    return {one.experiment: one for one in read_results(out)}


def results(out, name):
    store = Store(out)
    return {key: store.read(trial) for key, trial in EXPERIMENTS[name].planned(PLAN).items()}


def test_digits_have_every_experiment_but_those_on_cifar_alone(found):
    assert set(EXPERIMENTS) - set(found) == {"fig-baselines", "table-oracles"}
    assert all(one.tables or one.figures for one in found.values())


def test_every_split_has_a_network_of_its_own(out):
    for split in (0, 1):
        setup = Folders(uncut=out / "uncut").files(DIGITS, split).open("x", torch.device("cpu"))
        assert torch.equal(setup.test.labels.cpu(), digits(split).test.labels)
        assert (out / "uncut" / f"digits-{split}" / WEIGHTS).is_file()
    used = {t.network for t in EXPERIMENTS["fig-truncation"].trials(PLAN)}
    assert used == {"digits-0", "digits-1"}
    assert {t.network for t in EXPERIMENTS["fig-pruning"].trials(PLAN)} == {"digits-0"}


def test_a_second_call_trains_and_repeats_nothing(out, monkeypatch):
    monkeypatch.setattr(running, "TASKS", {})  # nothing can be run
    again = "vinets.paper.reproduce.train_into"
    monkeypatch.setattr(again, lambda *_, **__: pytest.fail("trained again"))
    before = {path: path.read_text() for path in out.glob("*.json")}
    reproduce(["all"], Folders(), out, **SETTINGS)
    assert {path: path.read_text() for path in out.glob("*.json")} == before


def test_truncation_has_all_baselines_over_all_splits(out, found):
    (figure,) = found["fig-truncation"].figures
    assert [series.name for series in figure.series] == list(DIGITS.heads.values())
    for series in figure.series:
        assert series.labels == PLAN.cuts(DIGITS) and series.std is not None
        assert list(series.x) == sorted({*series.x}, reverse=True)
    assert figure.x.label == "layers removed in %"
    kept = results(out, "fig-truncation")
    uncut = [one.trained.uncut for one in kept.values()]
    assert figure.levels[0].y == pytest.approx(100 * sum(uncut) / len(uncut))
    assert len({*uncut}) == 2  # the networks of two splits
    (figure,) = found["fig-parameters"].figures  # the same, placed by what they store
    series = next(one for one in figure.series if one.name == "MLP")
    sizes = [kept[DIGITS, "MLP", cut, 0].trained.parameters for cut in series.labels]
    assert list(series.x) == sizes


def test_more_pruning_leaves_fewer_monomials(found):
    (figure,) = found["fig-monomials"].figures
    for earlier, later in pairwise(figure.series):
        assert all(a >= b for a, b in zip(earlier.y, later.y, strict=True))


def test_verdicts_follow_from_single_answers(out, found):
    kept = results(out, "fig-truncation")
    (table,) = found["fig-truncation"].tables
    assert len(table.rows) == len(PLAN.cuts(DIGITS)) * len(DIGITS.heads)  # with the uncut network
    for row in table.rows:
        cut, other = row.values["cut"], row.values["head"]
        ours = [kept[DIGITS, "VI-Net", cut, split].trained for split in (0, 1)]
        assert all(1 - len(one.wrong) / one.tested == one.accuracy for one in ours)
        theirs = None
        if other != "uncut network":
            theirs = [kept[DIGITS, other, cut, split].trained for split in (0, 1)]
        difference = level(ours, theirs)
        assert row.values["difference"] == pytest.approx(difference.value)
        assert row.values["verdict"] == difference.word


def test_variants_stand_beside_the_uncut_networks_of_their_splits(out, found):
    *variants, uncut = found["table-efficiency"].tables[0].rows
    assert [row.values["model"] for row in variants] == list(DIGITS.variants)
    kept = results(out, "table-efficiency")
    for row in variants:
        own = [kept[DIGITS, row.values["model"], split].trained for split in (0, 1)]
        delta = 100 * sum(one.accuracy - one.uncut for one in own) / 2
        assert row.values["delta"] == pytest.approx(delta)
        assert row.values["total"] == pytest.approx(own[0].parameters / 1e3)
        assert row.values["verdict"] in ("ahead", "behind", "level")
        assert not row.paper
    assert uncut.values["total"] == pytest.approx(103.466)
    assert "k" in {c.name: c.label for c in found["table-efficiency"].tables[0].columns}["total"]


def test_the_theory_has_a_row_for_every_variant(out, found):
    table, bounds = found["table-theory"].tables
    *variants, uncut = table.rows
    assert [row.values["model"] for row in variants] == list(DIGITS.variants)
    for row in variants:
        difference = row.values["complexity"] - uncut.values["complexity"]
        assert row.values["kappa"] == pytest.approx(difference)
    assert all(row.values["actual"] <= row.values["bound"] for row in bounds.rows)
    assert len(bounds.rows) == 7


def test_the_table_on_vanishing_follows_from_the_matrix(out, found):
    (facts,) = (one.polynomials for one in results(out, "fig-vanishing").values())
    assert len(facts.owners) == len(facts.built) == len(facts.trained)
    assert facts.built == facts.trained  # the classifier alone was trained
    vanishing, measures = found["fig-vanishing"].tables
    assert sum(row.values["count"] for row in vanishing.rows) == len(facts.owners)
    pairs = list(zip(facts.trained, facts.owners, strict=True))
    smallest = sum(row[k] <= min(row) for row, k in pairs) / len(pairs)
    assert measures.rows[-1].values["smallest_own"] == pytest.approx(smallest, abs=0.02)  # 3 digits
    own = [row[k] for row, k in pairs if k == 3]
    kept = next(row.values for row in vanishing.rows if row.values["class"] == "3")
    assert kept["own"] == pytest.approx(sum(own) / len(own))
    (figure,) = found["fig-vanishing"].figures
    assert figure.series[0].y == tuple(facts.means)
    assert facts.text in found["fig-vanishing"].text[1] and "x" in facts.text


def test_rows_of_oavi_show_the_steps_of_their_oracles(found):
    rows = found["fig-algorithms"].tables[0].rows
    by_name = {row.values["algorithm"]: row.values for row in rows}
    assert by_name["ABM"]["steps"] is None
    assert by_name["OAVI-CG"]["steps"] > 0 and by_name["OAVI-AGD"]["steps"] > 0
    assert by_name["OAVI-CG, gap 0.01 ψ"]["steps"] > by_name["OAVI-CG"]["steps"]
    assert by_name["OAVI-CG"]["nonzeros"] < by_name["OAVI-CG, gap 0.01 ψ"]["nonzeros"]


def test_claims_on_digits_need_no_printed_numbers(out):
    evidence = claims.Evidence(PLAN, DIGITS, Results(results(out, "claims")))
    judged = {
        claim: verdict
        for function in claims.CLAIMS.values()
        for claim, _, verdict in function(evidence)
    }
    assert not any("parameters of the truncated" in claim for claim in judged)
    assert judged["the theorem's bounds on W_M, W_C and W_F hold"] == "yes"
    rows = EXPERIMENTS["fig-truncation"].findings(PLAN, Store(out)).tables[0].rows
    words = [r.values["verdict"] for r in rows if r.values["head"] == "random monomials"]
    wins = words.count("ahead")
    expected = "yes" if wins == len(words) else f"in {wins} of {len(words)}" if wins else "no"
    assert judged["VI-Net is above random monomials at every cut"] == expected


def test_cifar_without_data_is_one_sentence_and_one_thread_is_put_back(tmp_path):
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match=r"--on digits"):
        reproduce(["fig-monomials"], Folders(), tmp_path, plan=Plan(quick=True), progress=None)
