from __future__ import annotations

import pytest
import torch

from vinets.data import load_data, text_folder
from vinets.data import texts as module

TRAIN = "pets\tThe cat, the dog.\nfood\tbread and  the butter\n\npets\tdog\nfood\t\n"
TEST = "food\tthe unheard-of bread\n"


def write(folder, train=TRAIN, test=TEST):
    for part, content in (("train", train), ("test", test)):
        (folder / f"{part}.tsv").write_bytes(content.encode("utf-8", "surrogateescape"))
    return folder


def test_words_are_numbered_by_how_often_they_are_trained_on(tmp_path):
    data = text_folder(write(tmp_path), length=5)
    # the: 3, dog: 2; then those of one by the alphabet, marks first
    the, dog, comma, dot, and_, bread, butter, cat = 1, 2, 3, 4, 5, 6, 7, 8
    assert data.train.inputs.tolist() == [
        [the, cat, comma, the, dog],
        [bread, and_, the, butter, bread],  # shorter, so it begins again
        [dog] * 5,
        [0] * 5,
    ]
    assert dot not in data.train.inputs.flatten().tolist()  # behind the fifth word
    assert data.test.inputs.tolist() == [[the, 0, 0, 0, bread]]
    assert data.train.classes == data.test.classes == ("food", "pets")
    assert data.train.labels.tolist() == [1, 0, 1, 0] and data.test.labels.tolist() == [0]


def test_rare_words_have_no_number_and_names_take_the_usual_length(tmp_path):
    data = text_folder(write(tmp_path), length=5, vocabulary=3)
    assert data.train.inputs[0].tolist() == [1, 0, 0, 1, 2]
    assert int(data.train.inputs.max()) == 2
    data = load_data(f"text:{tmp_path}")
    assert data.name == tmp_path.name and data.train.inputs.dtype == torch.int64
    assert data.train.inputs.shape == (4, module.WORDS_PER_TEXT)


def test_marks_and_blanks_make_no_classes(tmp_path):
    data = text_folder(
        write(tmp_path, "\ufeffpets\tcat\n pets \tdog\nfood\tbread\r\n", "\ufefffood\ta\n")
    )
    assert data.train.classes == ("food", "pets") and data.train.labels.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("pets cat\n", TEST, r"Line 1 of .*train.tsv must be a label, a tab"),
        (TRAIN + "\tno label\n", TEST, r"Line 6 of .*train.tsv must be a label"),
        (TRAIN, "cars\tthe\n", r"test.tsv must hold the labels of train.tsv \(2 of them\)"),
        ("", TEST, r"train.tsv must hold at least one line"),
        (TRAIN, "\n\n", r"test.tsv must hold at least one line"),
        ("\udcff\udcfe", TEST, r"train.tsv must be text in UTF-8\."),
        (TRAIN, "food\tthe caf\udce9\n", r"test.tsv must be text in UTF-8\."),
        (" \tno label\n", TEST, r"Line 1 of .*train.tsv must be a label"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, train, test, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_data(f"text:{write(tmp_path, train, test)}")
    assert "\n" not in str(caught.value)


def test_endless_lines_and_missing_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE_CHARACTERS", 30)
    with pytest.raises(ValueError, match=r"Line 1 of .* fewer than 30 characters"):
        load_data(f"text:{write(tmp_path, 'pets' + chr(9) + 'a ' * 40)}")
    (tmp_path / "test.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"test.tsv is missing"):
        load_data(f"text:{tmp_path}")
