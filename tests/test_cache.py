from __future__ import annotations

import os
from pathlib import Path

import pytest

from vinets import cache
from vinets.cache import cache_folder, remembered


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VINETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(kind, key, compute):
    return remembered(kind, key, compute, lambda found: isinstance(found, str))


def _never() -> str:
    raise AssertionError("computed again")


def test_what_was_computed_is_kept(folder):
    assert kept("kind", "key", lambda: "found") == "found"
    assert kept("kind", "key", _never) == "found"
    assert kept("kind", "other", lambda: "another") == "another"
    assert kept("other", "key", lambda: "a third") == "a third"


def test_what_is_damaged_is_computed_again(folder):
    kept("kind", "key", lambda: "found")
    (file,) = folder.rglob("*.json")
    for content in ("", "{", "[1]", "\0" * 9):
        file.write_text(content)
        assert kept("kind", "key", lambda: "again") == "again"
        assert kept("kind", "key", _never) == "again"


def test_nothing_is_kept_where_that_is_not_wanted(folder, monkeypatch):
    monkeypatch.setenv("VINETS_CACHE", "")
    assert cache_folder() is None
    texts = iter("ab")
    assert [kept("kind", "key", lambda: next(texts)) for _ in range(2)] == ["a", "b"]
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_does_no_harm(folder):
    folder.write_text("a file is in the way")
    texts = iter("ab")
    assert [kept("kind", "key", lambda: next(texts)) for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize("above", ["", "relative"])
def test_the_folder_is_that_of_the_user(above, monkeypatch, tmp_path):
    monkeypatch.delenv("VINETS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", above)
    assert cache_folder() == tmp_path / ".cache" / "vinets"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert cache_folder() == tmp_path / "other" / "vinets"


def test_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST", 4)
    for age in range(5):
        if folder.exists():
            for file in folder.rglob("*.json"):
                seconds = file.stat().st_mtime - 10
                os.utime(file, (seconds, seconds))
        kept("kind", str(age), lambda: "found")
    assert sorted(Path(file).stem for file in folder.rglob("*.json")) == ["2", "3", "4"]
