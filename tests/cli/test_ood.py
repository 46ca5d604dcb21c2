from __future__ import annotations


def test_scores_are_told_for_every_set(call, base):
    options = ["--per-class", 40, "--count", 100, "--json", "--quiet"]
    given = ["--data", "digits", "--ood", "noise", "--ood", "textures"]
    scores = call("ood", base, *given, *options).json()["scores"]
    assert {one["data"] for one in scores} == {"noise", "textures"}
    names = {one["score"] for one in scores}
    assert {"distances", "softmax", "energy", "vim", "knn", "react", "ash"} <= names
    assert all(0 <= one[key] <= 1 for one in scores for key in ("auroc", "fpr95"))
    assert min(one["auroc"] for one in scores if one["score"] == "distances") > 0.9


def test_a_table_has_a_row_a_score(call, base):
    options = ["--per-class", 20, "--count", 50, "--layers", "relu2,relu3", "--quiet"]
    done = call("ood", base, "--data", "digits", "--ood", "noise", *options)
    assert done.code == 0 and "relative mahalanobis" in done.out and "FPR95" in done.out


def test_what_is_not_there_is_named(refused, base):
    given = ["ood", base, "--data", "digits", "--ood"]
    for layers in ("nothing", ""):
        said = refused(*given, "noise", "--layers", layers, "--quiet")
        assert "must be names of layers of the network" in said and "vinets cuts" in said
    assert "Got 'nowhere'" in refused(*given, "nowhere")
    assert "'noise' and 'textures'" in refused(*given, "nowhere")


def test_build_without_training(call, base, tmp_path):
    given = ["build", base, "--data", "digits", "--cut", "pool", "--head", "closed"]
    timing = ["--seconds", 0.01, "--repeats", 2, "--batch", 16, "--per-class", 60]
    result = call(*given, *timing, "--out", tmp_path / "net", "--json", "--quiet").json()
    ours = result["networks"]["closed form"]
    assert ours["accuracy"] > 0.93
    found = call("evaluate", tmp_path / "net", "--data", "digits", "--json", "--quiet").json()
    assert abs(found["accuracy"] - ours["accuracy"]) < 1e-9
