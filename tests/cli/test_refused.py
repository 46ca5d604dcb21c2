"""What cannot be done is refused in one sentence, whichever command it is asked of."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from vinets.networks.open import open_network

TRAIN, DIGITS = "train --out {d}/out", "--data digits"
MADE = f"train --model digits_cnn {DIGITS} --out {{base}} --epochs"
BUILD = f"build {{base}} {DIGITS} --out {{d}}/out"
SHAPE = "--shape 1,8,8"
OOD = f"ood {{base}} {DIGITS} --ood"
EXPLAIN = "explain {products} {d}/digit.png"
REFUSED = [
    # parameters of calls are named as they are written on the line
    (f"{TRAIN} --model digits_cnn --data nowhere", "Error: --data must be "),
    (f"{TRAIN} --model nothing {DIGITS}", "Error: --model must be "),
    (f"evaluate nothing {DIGITS}", "Error: NET must be "),
    ("cuts nothing", "Error: MODEL must be "),
    ("bench nothing", "Error: NETS must be "),
    ("export vinets/digits-cnn-products --out {d}/out", "Error: --out must be "),
    (f"cuts resnet18 {SHAPE}", "does not take inputs"),
    (f"cuts digits_cnn {SHAPE} --match foo", "has 'foo'"),
    ("cuts {vinet}", "is cut already"),
    (f"evaluate digits_cnn {DIGITS}", "train --model digits_cnn --data digits --out out/uncut"),
    (f"evaluate resnet18 {DIGITS} --weights nothing.safetensors", "--recipe cifar10-resnet18 --"),
    (f"evaluate {{base}} {DIGITS} --part all", "--part must be 'test' or 'train'."),
    (
        "build {base} --data {d}/X.npy,{d}/y.npy --cut pool --out {d}/o",
        "7 of the 10 classes have no",
    ),
    ("bench {base} {base}", "given twice"),
    ("bench digits_cnn", "Pass the shape"),
    ("bench {base} resnet18", "does not take inputs"),
    ("bench {base} {d}/x.onnx", "x.onnx cannot be run"),
    (f"export digits_cnn {DIGITS} --out {{d}}/y.onnx", "random weights"),
    ("export digits_cnn --out {d}/y.onnx", "shape"),
    ("export {vinet} --out {d}/y.bin", "format"),
    ("export {d} --out {d}/y.onnx", "holds no network"),
    ("ideal {d}/p.csv --label w", "one of u, v"),
    ("ideal {d}/p.csv --out x.csv", "must end in .safetensors"),
    ("ideal {d}/p.csv --device tpu", "'auto', 'cpu' or a CUDA device"),
    (f"{OOD} noise --layers nothing -q", "must be names of layers of the network. Got 'nothing'"),
    (f"{OOD} noise --layers= -q", "Got '' instead. vinets cuts lists them."),
    (f"{OOD} nowhere", "Images by rule are 'noise' and 'textures'"),
    ("predict {base} {d}/empty", "holds no images"),
    ("predict {base} {d}/bad.png -q", "bad.png must be a readable image"),
    ("predict {base}", "comes without a picture"),
    ("predict vinets/resnet18-cifar10-products", "comes without a picture"),
    ("report {d}/fine --out {d}/empty", "is a folder"),
    ("theory {base} --cut rel2 -q", "nearest names are relu2"),
    ("theory {base} -q", "Pass --cut"),
    ("theory {base} --cut relu2 --vinet {vinet} -q", "is cut at 'relu3'"),
    ("theory {base} --vinet {base} -q", "is not cut"),
    (f"theory digits_cnn {SHAPE} --cut relu2 -q", "random weights"),
    (f"theory {{base}} {SHAPE} {DIGITS}", "--shape or --data"),
    ("theory {base} --cut fc -q", "before its last layer"),
    ("theory {d}/other --vinet {vinet} -q", "another network than"),
    (f"{TRAIN} --model digits_cn {DIGITS}", "Did you mean 'digits_cnn'?"),
    (f"{TRAIN} --model text_transformer {DIGITS}", "does not take inputs of shape (1, 8, 8)"),
    (f"{TRAIN} --model digits_cnn --data cifar9", "'cifar10:DIR'"),
    (f"{TRAIN} --model digits_cnn --data imags", "There is no such file or folder."),
    (f"{TRAIN} --model digits_cnn {DIGITS} --device cuda:99", "CUDA"),
    (f"{TRAIN} --model digits_cnn {DIGITS} --momentum 1", "--momentum must be"),
    (f"{TRAIN} --model digits_cnn {DIGITS} --mean 0.5,0.5", "a tuple of 1 finite floats"),
    (f"{TRAIN} --model digits_cnn {DIGITS} --crop 2", "--crop must be a share"),
    (
        f"{TRAIN} --model digits_cnn --data {{d}}/Z.npy,{{d}}/y.npy --flip",
        "(--scale) are for images",
    ),
    (f"{TRAIN} --model {{base}} {DIGITS}", "to train from scratch"),
    (f"{TRAIN} --recipe digit-cnn", "Did you mean 'digits-cnn'?"),
    (f"{TRAIN} --recipe digits-cnn --model resnet18", "digits-cnn is for digits_cnn"),
    (f"{TRAIN} --model vit", "Pass --model and --data, or --recipe"),
    (f"{MADE} 4", "differ in epochs."),
    (f"{MADE} 3 --split-seed 1", "with other data."),
    (f"{BUILD} --cut relu9 -q", "nearest names are relu"),
    (f"build digits_cnn {DIGITS} --cut relu3 --out {{d}}/out", "random weights"),
    ("explain {base} {d}/digit.png", "is not cut"),
    (f"{EXPLAIN} --against cat -q", "knows no class 'cat'"),
    (f"{EXPLAIN} --out {{d}}", "is a folder"),
    ("explain {d}/lone {d}/digit.png", "Pass --data"),
]


@pytest.fixture(scope="module")
def places(call, base, vinet, products, pictures, tmp_path_factory):
    """Networks, and a folder of files with which something is wrong."""
    d, random = tmp_path_factory.mktemp("refused"), np.random.default_rng(0)
    np.save(d / "X.npy", random.integers(0, 255, (9, 8, 8), np.uint8))
    np.save(d / "y.npy", np.arange(9) % 3)
    np.save(d / "Z.npy", random.normal(size=(9, 5)).astype("float32"))
    (d / "x.onnx").write_text("junk")
    (d / "p.csv").write_text("u,v\n1,2\n3,5\n")
    (d / "empty").mkdir()
    (d / "bad.png").write_bytes(b"no image")
    shutil.copy(pictures / "3" / "digit.png", d)
    (d / "fine").mkdir()
    (d / "fine" / "x.json").write_text('{"experiment": "x", "title": "x"}')
    words = ["train", "--model", "digits_cnn", "--data", "digits", "--epochs", 1, "--seed", 1]
    call(*words, "--quiet", "--out", d / "other")
    open_network(products).network.save_pretrained(d / "lone")
    return {"base": base, "vinet": vinet, "products": products, "d": d}


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_sentence(refused, places, line, message):
    assert message in refused(*(word.format(**places) for word in line.split()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--algorithm gb", "'abm', 'oavi', 'vca'"),
        ("--head local --tau 5", "tau is no option of abm"),
        ("--head products --project-once", "--project-once are for a backbone that stays"),
        ("--head products --views 2", "--views and --project-once are for a backbone that stays"),
        ("--head ridge --baselines", "A head of kind 'ridge' has no baselines"),
        ("--head products --start ideal --factors 3", "--factors must be 2 with start"),
        ("--nesterov --momentum 0", "above 0 with nesterov"),
    ],
)
def test_options_that_exclude_each_other_are_refused_before_any_work(
    refused, tmp_path, monkeypatch, options, message
):
    monkeypatch.setattr("vinets.runs.on_data.load_data", lambda *_, **__: pytest.fail("work"))
    monkeypatch.setattr("vinets.runs.on_data.open_network", lambda *_: pytest.fail("work"))
    given = ["--data", "digits", "--cut", "relu3", "--out", tmp_path / "out"]
    assert message in refused("build", "base", *given, *options.split())
    assert not (tmp_path / "out").exists()
