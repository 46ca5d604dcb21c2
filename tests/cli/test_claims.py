"""No command replaces a file that it did not write, nor results of another kind."""

from __future__ import annotations

import pytest

from vinets.networks import CutNetwork
from vinets.runs.store import WRITTEN

MINE = b'{"model_type": "vit", "of": "somebody else"}'
COMMANDS = {
    "train": ["train", "--model", "digits_cnn", "--data", "digits", "--epochs", 1],
    "build": ["build", "BASE", "BUILD"],
    "reproduce": ["reproduce", "fig-dimension", "--on", "digits"],
    "compress": ["compress", "BASE", "--data", "digits", "--budget", "drop=9", "--epochs", 1],
}


@pytest.fixture
def words(base, build_options):
    def line(command, out, network=base):
        places = {"BASE": [network], "BUILD": build_options}
        return [x for word in COMMANDS[command] for x in places.get(word, [word])] + ["--out", out]

    return line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_with_files_from_elsewhere_is_left_alone(refused, words, tmp_path, command):
    for name in WRITTEN:
        mine = tmp_path / name / name
        mine.parent.mkdir()
        mine.write_bytes(MINE)
        assert f"{mine.parent} holds {name}, which" in refused(*words(command, mine.parent))
        assert mine.read_bytes() == MINE
        assert {one.name for one in mine.parent.iterdir()} <= {name, ".lock"}


@pytest.mark.parametrize("command", ["train", "build", "compress"])
def test_a_folder_keeps_one_kind_of_results(call, refused, words, tmp_path, command):
    out = tmp_path / "out"
    call(*words(command, out), *(["--cuts", 1, "--limit", 200] * (command == "compress")))
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file() and p.name != ".lock"}
    for other in COMMANDS.keys() - {command}:
        assert "Choose another folder" in refused(*words(other, out))
    if command == "train":  # the folder that is read
        assert "Choose another folder" in refused(*words("compress", out, out))
    assert before == {p: p.read_bytes() for p in before}


def test_weights_are_not_replaced_by_what_is_made_of_them(refused, base, build_options, tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes((base / "weights.safetensors").read_bytes())
    given = ["build", "digits_cnn", "--weights", weights, *build_options, "--out", tmp_path]
    assert "holds model.safetensors" in refused(*given)
    assert weights.read_bytes() == (base / "weights.safetensors").read_bytes()


def test_a_network_saved_from_python_replaces_its_own_files_only(vinet, base, tmp_path):
    net = CutNetwork.from_pretrained(vinet)
    for names in (["config.json"], ["model.safetensors"], ["config.json", "model.safetensors"]):
        folder = tmp_path / "-".join(names)
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(MINE)
        with pytest.raises(ValueError, match="vinets did not write it"):
            net.save_pretrained(folder)
        assert all((folder / name).read_bytes() == MINE for name in names)
    with pytest.raises(ValueError, match="holds an uncut network"):
        net.save_pretrained(base)
    net.save_pretrained(tmp_path / "own")
    (tmp_path / "own" / "config.json").unlink()  # as if it was killed between the two
    net.save_pretrained(tmp_path / "own")
    net.save_pretrained(tmp_path / "own")
    assert CutNetwork.from_pretrained(tmp_path / "own").parts() == net.parts()


def test_single_files_are_left_alone_as_well(call, refused, base, vinet, tmp_path):
    pytest.importorskip("onnxruntime")
    points, image = tmp_path / "points.csv", tmp_path / "8.png"
    points.write_text("x,y\n1,0\n0,1\n-1,0\n0,-1\n")
    for given in (
        ["export", vinet, "--out", tmp_path / "net.onnx"],
        ["export", vinet, "--out", tmp_path / "net.pt2"],
        ["ideal", points, "--out", tmp_path / "ideal.safetensors"],
        ["explain", vinet, image, "--out", tmp_path / "why.html"],
    ):
        given[-1].write_bytes(MINE)
        assert "vinets did not write it" in refused(*given)
        assert given[-1].read_bytes() == MINE
        given[-1].unlink()
        if given[0] in ("export", "ideal"):
            call(*given)
            call(*given)  # its own file is replaced
    (tmp_path / "theory.html").write_bytes(MINE)
    assert "theory.html" in refused("theory", base, "--cut", "relu3", "--out", tmp_path)
