"""Labels of data follow the classes of a network, by their names."""

from __future__ import annotations

import pytest
import torch

from vinets.data import DataSplit, ImageSource, Preprocessing, TensorSource, as_source, relabel
from vinets.data.classes import read_classes


def split(*names):
    part = TensorSource(torch.arange(len(names)).float()[:, None], range(len(names)), names)
    return DataSplit("mine", part, part)


@pytest.mark.parametrize(
    ("own", "names", "places"),
    [
        (("Cat", "dog"), ("dog", "cat"), [1, 0]),
        (("great_dane", " PUG"), ("Pug", "Great-Dane"), [1, 0]),
        (("cafe\u0301", "bar"), ("bar", "caf\u00e9"), [1, 0]),  # as macOS writes folders
        (("goldfish", "tench"), ("tench, Tinca tinca", "goldfish, Carassius"), [1, 0]),
        (("0", "1", "10", "2"), ("0", "1", "2", "10"), [0, 1, 3, 2]),  # folders, sorted as texts
        (("b", "d"), ("a", "b", "c", "d"), [1, 3]),
        (("cat", "Cat"), ("Cat", "cat"), [1, 0]),
        (("crane", "pug"), ("crane", "crane, bird", "pug"), [0, 2]),
        (("0", "1"), ("cat", "dog"), [0, 1]),
    ],
)
def test_names_are_matched_whatever_their_order_and_writing(own, names, places):
    found = relabel(split(*own), names).train
    assert found.classes == names
    # sorted by class as before, and every example still has its own class
    assert found.labels.tolist() == sorted(places)
    assert [places[int(k)] for k in found.inputs[:, 0]] == found.labels.tolist()


def test_classes_that_a_network_numbers_keep_the_names_of_the_data():
    data = split("cat", "dog")
    assert relabel(data, ("LABEL_0", "LABEL_1")).test.classes == ("cat", "dog")
    assert relabel(data, data.train.classes) is data


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (("cat", "dogg"), r"1 of the 2 .* mine \('dogg'\) .* 2 of the 3 of net \('dog', 'pig'\)"),
        (("a", "b", "c", "d", "cat"), r"4 of the 5 classes of mine \('a', 'b', 'c'\)"),
        (("0", "1"), "3 of the 3 of net"),
        (("CAT", "Cat", "dog"), "2 of the 3 classes of mine"),
    ],
)
def test_names_that_do_not_fit_are_refused_with_what_to_do(own, told):
    with pytest.raises(ValueError, match=f"{told}.*Rename .*--classes FILE"):
        relabel(split(*own), ("cat", "dog", "pig") if len(own) < 4 else ("x", "cat"), "net")


def test_images_keep_their_order_if_they_are_not_sorted_by_class():
    images, labels = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1), [1, 0, 1, 0]
    own = ImageSource(images, labels, ("a", "b"), Preprocessing(1, (1, 1), (0.0,), (1.0,)))
    found = relabel(DataSplit("mine", own, own), ("b", "a")).test
    assert found.labels.tolist() == [0, 1, 0, 1] and found.images.flatten().tolist() == [0, 1, 2, 3]


def test_other_sources_are_refused_unless_nothing_changes():
    loader = as_source(torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([0, 1])))
    data = DataSplit("mine", loader, loader)
    assert relabel(data, ("0", "1")) is data
    with pytest.raises(ValueError, match="of images or tensors"):
        relabel(data, ("1", "0"))


@pytest.mark.parametrize(
    "text", ["tench, Tinca\r\npug\r\n\n", "\ufefftench, Tinca\npug", "tench,pug\n", " tench , pug"]
)
def test_files_have_a_name_a_line_or_commas(tmp_path, text):
    path = tmp_path / "names.txt"
    path.write_bytes(text.encode())
    assert [name.partition(",")[0] for name in read_classes(path)] == ["tench", "pug"]
    path.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="two or more names, one a line"):
        read_classes(path)
