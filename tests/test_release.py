"""What a release takes: one version, notes, files of that version, a clean tree, a free tag."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

import vinets

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)


@pytest.fixture
def tree(tmp_path):
    """A repository that is ready for release 1.2.3."""
    (tmp_path / "src" / "vinets").mkdir(parents=True)
    (tmp_path / "src" / "vinets" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n### Added\n\n- This.\n\n"
        "## [1.2.2] - 2026-01-01\n\n- That.\n"
    )
    (tmp_path / ".gitignore").write_text("/dist/\n/out/\n")
    (tmp_path / "dist").mkdir()
    for name in ("vinets-1.2.3-py3-none-any.whl", "vinets-1.2.3.tar.gz"):
        (tmp_path / "dist" / name).touch()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    commit(tmp_path)
    return tmp_path


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def commit(folder):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    git(folder, *who, "commit", "-qm", "x", "--allow-empty")


def test_the_version_stands_in_one_place():
    assert release.version_of(ROOT) == vinets.__version__
    assert f"version: {vinets.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert release.notes_of(ROOT, vinets.__version__).startswith(f"# vinets {vinets.__version__}")


def test_a_tree_that_is_ready_gets_its_notes_and_what_is_left(tree, capsys):
    assert release.main(tree) == 0
    notes = (tree / "out" / "release-notes.md").read_text()
    assert "This." in notes and "That." not in notes
    out = capsys.readouterr().out
    assert "git tag -a v1.2.3" in out and "twine upload dist/vinets-1.2.3*" in out
    git(tree, "tag", "v1.2.3")
    assert release.main(tree) == 0
    assert "git tag" not in capsys.readouterr().out


def test_each_fault_is_told(tree, capsys):
    git(tree, "tag", "v1.2.3")
    commit(tree)
    (tree / "dist" / "vinets-1.2.3.tar.gz").rename(tree / "dist" / "vinets-1.2.2.tar.gz")
    (tree / "CITATION.cff").write_text("version: 1.2.2\n")
    (tree / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert release.main(tree) == 1
    told = capsys.readouterr().err
    for fault in ("no section [1.2.3]", "CITATION.cff", "make dist", "not committed", "on another"):
        assert fault in told
