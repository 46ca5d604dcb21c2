"""Make an environment of a row, install the wheel into it, and run tests of the core there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What depends on versions: arithmetic, files, and everything that calls into torch, numpy, sklearn.
CORE = (
    *("algebra", "oracles", "ideals", "latent", "models", "heads", "networks", "data", "training"),
    *("test_estimators.py", "test_pretrained.py"),
)
# A part of them that takes half a minute.
QUICK = (
    *("ideals/test_known_ideals.py", "algebra/test_polynomials.py", "latent/test_reader.py"),
    *("heads", "networks/test_network.py", "models/test_networks.py", "test_pretrained.py"),
)
NEEDED = ("tests", "pyproject.toml", "benchmarks")
VERSIONS = """
import json, platform
from importlib.metadata import version
names = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "joblib", "rich", "cyclopts")
print(json.dumps({"python": platform.python_version()} | {name: version(name) for name in names}))
"""
PACKAGES = (
    *("python3-torch", "python3-numpy", "python3-scipy", "python3-sklearn", "python3-safetensors"),
    *("python3-joblib", "python3-rich", "python3-attr", "python3-docutils", "python3-pil"),
    *("python3-pytest", "python3-hypothesis"),
)
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")

# What every row needs to run tests, in whatever version there is.
TESTING = ("pytest", "hypothesis", "sympy", "pillow")
# The least versions that pyproject.toml allows, but for torch, whose builds for a CPU are rare.
OLDEST = (
    *("numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.6.1", "safetensors==0.5.3"),
    *("joblib==1.4.2", "filelock==3.13.4", "threadpoolctl==3.1.0", "rich==13.9.4"),
    *("jinja2==3.1.6", "cyclopts==5.4.0", "tomli-w==1.2.0"),
)
# What Debian does not have, and pip gets without what it needs.
CLI = ("cyclopts==5.4.0", "tomli-w==1.2.0", "docstring-parser==0.18.0", "rich-rst==2.2.0")


@dataclass(frozen=True)
class Row:
    """An environment: an interpreter with pins, or a release of Debian with its own packages."""

    name: str
    python: str = "3.11"
    pins: tuple[str, ...] = ()  # before those of constraints.txt
    debian: str = ""  # a suite, whose torch is built for the CPU
    beside: tuple[str, ...] = ()  # what that suite has too old, from PyPI


ROWS = (
    Row("oldest numpy and others", pins=OLDEST),
    Row("oldest torch of PyPI", pins=("torch==2.6.0",)),
    Row("newest torch of PyPI", pins=("torch==2.15.0",)),
    Row("Python 3.12", "3.12"),
    Row("Python 3.13", "3.13"),
    Row("Debian 13", "3.13", debian="trixie", beside=("scikit-learn==1.6.1", *CLI)),
    Row("Debian testing", "3.14", debian="forky", beside=CLI),
)


class Unavailable(Exception):
    """Why a row cannot be tried here."""


def tried(
    row: Row, wheel: Path, root: Path, work: Path, tests: tuple[str, ...] = CORE
) -> dict[str, Any]:
    """The versions of a row, and what came of its tests."""
    folder = work / re.sub(r"\W+", "-", row.name.lower())
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in NEEDED:  # without src, so that the wheel is what is imported
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, tree / name)
    if row.debian:
        with _debian(row, wheel, folder, work) as run:
            return _tested(row, run, Path("/matrix/tree"), tests)
    return _tested(row, _venv(row, wheel, root, folder), tree, tests)


def _tested(row: Row, run: Any, tree: Path, tests: tuple[str, ...]) -> dict[str, Any]:
    asked = run("-c", VERSIONS)
    if asked.returncode:
        raise Unavailable(_last(asked.stderr))
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not cluster")
    done = run(*words, "--tb=short", *(f"tests/{name}" for name in tests), cwd=tree)
    counts = Counter[str]()
    for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", _last(done.stdout)):
        counts["failed" if kind == "error" else kind] += int(number)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
    return {
        "row": row.name,
        **json.loads(asked.stdout.splitlines()[-1]),
        **{kind: counts[kind] for kind in ("passed", "skipped", "failed")},
        "outcome": "failed" if done.returncode else "passed",
    }


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]


def _asked(*command: Any, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that does not find the sources of this repository, whatever is set for it."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def _or_unavailable(*command: Any) -> None:
    done = _asked(*command)
    if done.returncode:
        raise Unavailable(_last(done.stderr))


# --- an interpreter with packages of PyPI -----------------------------------------------------


def _venv(row: Row, wheel: Path, root: Path, folder: Path) -> Any:
    interpreter = shutil.which(f"python{row.python}")
    # what is found may be a stand-in of a version manager, with nothing behind it
    if interpreter is None or subprocess.run([interpreter, "-V"], capture_output=True).returncode:
        raise Unavailable(f"there is no python{row.python} here")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
    own = {pin.partition("==")[0] for pin in row.pins}
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line.partition("==")[0] not in own and "#" not in line]
    if any(pin.startswith("torch") for pin in row.pins):
        pins = []  # another torch wants others of everything
    pins += row.pins
    (folder / "pins.txt").write_text("\n".join([*pins, ""]))
    # Torch for GPUs has gigabytes, and is refused before any of it is fetched.
    wanted = next(pin.partition("==")[2] for pin in pins if pin.startswith("torch=="))
    words = ("-m", "pip", "index", "versions", "torch", "--disable-pip-version-check")
    if sys.platform == "linux" and f"{wanted}+cpu" not in _asked(python, *words).stdout:
        raise Unavailable(f"no build of torch {wanted} for the CPU is to be had here")
    install = (python, *PIP, "-c", folder / "pins.txt")
    _or_unavailable(*install, wheel, *TESTING)
    # a wheel of the same version may be there from before
    _or_unavailable(*install, "--no-deps", "--force-reinstall", wheel)
    return lambda *words, cwd=folder: _asked(python, *words, cwd=cwd)


# --- a release of Debian, in a folder ---------------------------------------------------------


@contextmanager
def _debian(row: Row, wheel: Path, folder: Path, work: Path) -> Any:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Unavailable("packages of Debian take root and debootstrap")
    mirror = os.environ.get("DEBIAN_MIRROR")
    if not mirror:
        raise Unavailable("DEBIAN_MIRROR does not say where packages of Debian are")
    system = work / row.debian
    if not (system / "usr" / "bin" / "python3").exists():
        script = "/usr/share/debootstrap/scripts/sid"  # the same for every suite
        _or_unavailable("debootstrap", "--variant=minbase", row.debian, system, mirror, script)
        apt = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES)
        _or_unavailable("chroot", system, "env", "DEBIAN_FRONTEND=noninteractive", *apt)
    inside = system / "matrix"
    shutil.rmtree(inside, ignore_errors=True)
    pip = (sys.executable, *PIP, "--no-deps", "--only-binary=:all:", "--python-version", row.python)
    _or_unavailable(*pip, "--target", inside / "site", wheel, *row.beside)
    shutil.copytree(folder / "tree", inside / "tree")
    _or_unavailable("mount", "-t", "proc", "proc", system / "proc")
    try:
        yield lambda *words, cwd="/": _asked(
            *("chroot", system, "env", "-C", cwd, "PYTHONPATH=/matrix/site", "python3", *words)
        )
    finally:
        subprocess.run(["umount", system / "proc"], check=True)
