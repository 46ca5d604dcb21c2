"""Check that everything that a release takes is in place, and write its notes; nothing is uploaded.

    python .ci/release.py

The version stands in ``src/vinets/__init__.py`` alone. The changelog and the citation have to know
it, the files in ``dist`` have to be of it, nothing may be left uncommitted, and the tag, if it is
there already, has to be on this commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version_of(root: Path) -> str:
    """The version, as the build reads it."""
    text = (root / "src" / "vinets" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("src/vinets/__init__.py has no __version__.")
    return found[1]


def notes_of(root: Path, version: str) -> str:
    """What the changelog tells of a version."""
    text = (root / "CHANGELOG.md").read_text()
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |^\[|\Z)"
    found = re.search(heading, text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section [{version}] with a date.")
    return f"# vinets {version}\n\n{found[1].strip()}\n"


def faults(root: Path, version: str) -> list[str]:
    """What stands in the way of a release, a sentence each."""
    found = []
    if f"version: {version}\n" not in (root / "CITATION.cff").read_text():
        found.append(f"CITATION.cff has another version than {version}.")
    names = {f"vinets-{version}-py3-none-any.whl", f"vinets-{version}.tar.gz"}
    built = {file.name for file in (root / "dist").glob("vinets-*")}
    if built != names:
        found.append(f"dist must hold {' and '.join(sorted(names))} alone. Run make dist.")
    if _git(root, "status", "--porcelain"):
        found.append("There are changes that are not committed.")
    tag = f"v{version}"
    if _git(root, "tag", "--list", tag) and tag not in _git(root, "tag", "--points-at").split():
        found.append(f"The tag {tag} is on another commit: choose a new version.")
    return found


def _git(root: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def main(root: Path = ROOT) -> int:
    """Check, write ``out/release-notes.md``, and say what is left to do."""
    version = version_of(root)
    try:
        notes = notes_of(root, version)
    except ValueError as error:
        notes, found = "", [str(error), *faults(root, version)]
    else:
        found = faults(root, version)
    if found:
        print(f"vinets {version} is not ready:", *found, sep="\n  ", file=sys.stderr)
        return 1
    path = root / "out" / "release-notes.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(notes)
    print(f"vinets {version} is ready; its notes are in {path.relative_to(root)}. What is left:")
    if not _git(root, "tag", "--points-at"):
        print(f"  git tag -a v{version} -F out/release-notes.md --cleanup=verbatim")
    print(f"  git push origin v{version}")
    print(f"  .venv/twine/bin/twine upload dist/vinets-{version}*")
    return 0


if __name__ == "__main__":
    sys.exit(main())
