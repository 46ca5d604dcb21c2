"""Read labelled texts from tab-separated files, as indices of their words."""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import torch

from vinets.core.checks import file_error
from vinets.core.files import named, open_regular
from vinets.data.conversion import TensorSource
from vinets.data.formats import DataFormat, Size
from vinets.data.source import DataSplit

VOCABULARY = 8_192  # numbers that words may have; 0 stands for every word that has none
WORDS_PER_TEXT = 48
MAX_LINE_CHARACTERS = 1 << 20
WORD = re.compile(r"\w+|[^\w\s]")


class Texts(DataFormat):
    """Texts, by a prefix with the folder behind it."""

    name = "text"
    prefixes = ("text",)
    written = "'text:DIR' (train.tsv and test.tsv, lines of label, tab, text)"
    rank = 20

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        return text_folder(self.split(spec)[1])


def text_folder(
    directory: str | Path, *, length: int = WORDS_PER_TEXT, vocabulary: int = VOCABULARY
) -> DataSplit:
    """Read ``train.tsv`` and ``test.tsv``, a text in every line: its label, a tab, its words.

    Words are lower-cased runs of letters and digits, and single marks. The most frequent of the
    training part are numbered from 1, all others are 0. An example is the first ``length`` words,
    int64 (length,); a text that is shorter is read again from its beginning. Classes are the
    labels of the training part in alphabetical order.
    """
    folder = Path(directory)
    paths = [folder / f"{part}.tsv" for part in ("train", "test")]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing. A folder of texts must hold train.tsv and test.tsv, with a "
                "label, a tab and a text in every line."
            )
    counts, labels = Counter[str](), set[str]()
    for label, words in _lines(paths[0]):
        counts.update(words)
        labels.add(label)
    # Equally frequent words are taken in the order of the alphabet.
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary - 1]
    numbers = {word: number for number, word in enumerate(frequent, 1)}
    places = {label: place for place, label in enumerate(sorted(labels))}
    sources = []
    for path in paths:
        rows, targets = [], []
        for label, words in _lines(path):
            if label not in places:
                accepted = f"the labels of train.tsv ({len(places)} of them)"
                raise file_error(path, accepted, reprlib.repr(label))
            read = [numbers.get(word, 0) for word in words[:length]] or [0]
            rows.append((read * -(-length // len(read)))[:length])
            targets.append(places[label])
        if not rows:
            raise ValueError(f"{path} must hold at least one line of label, tab and text.")
        sources.append(TensorSource(torch.tensor(rows), targets, tuple(places)))
    return DataSplit(folder.resolve().name, train=sources[0], test=sources[1])


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Give label and words of every line of a file; empty lines do not count."""
    number = 0
    with open_regular(path) as opened, named(path):
        # Editors of Windows begin a file with a mark.
        file = TextIOWrapper(opened, encoding="utf-8-sig")
        try:
            while line := file.readline(MAX_LINE_CHARACTERS):
                number += 1
                if not line.strip():
                    continue
                label, tab, text = line.rstrip("\n").partition("\t")
                label = label.strip()
                if not tab or not label or line[MAX_LINE_CHARACTERS - 1 :] not in ("", "\n"):
                    raise ValueError(
                        f"Line {number} of {path} must be a label, a tab and a text, in fewer than "
                        f"{MAX_LINE_CHARACTERS:,} characters. Got {line[:40]!r} instead."
                    )
                yield label, WORD.findall(text.lower())
        except UnicodeDecodeError:
            raise ValueError(
                f"{path} must be text in UTF-8. It is not, after line {number} or soon behind it: "
                "save it as UTF-8."
            ) from None
