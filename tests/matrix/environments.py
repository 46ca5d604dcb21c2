"""Make an environment of a row, install the wheel into it, and run tests of the core there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matrix.rows import TESTING, Row

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
    *(
        "python3-joblib",
        "python3-rich",
        "python3-attr",
        "python3-docutils",
        "python3-pytest",
        "python3-hypothesis",
    ),
    "python3-pil",
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
    words = [f"tests/{name}" for name in tests]
    done = run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not cluster"),
        *("--tb=short", *words),
        cwd=tree,
    )
    counts = {
        kind: int(number)
        for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", _last(done.stdout))
    }
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
    return {
        "row": row.name,
        **json.loads(asked.stdout.splitlines()[-1]),
        "passed": counts.get("passed", 0),
        "skipped": counts.get("skipped", 0),
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "outcome": "passed" if done.returncode == 0 else "failed",
    }


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]


def _environment() -> dict[str, str]:
    # the sources of this repository must not be found, whatever is set for it
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}


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
    if row.pins and any(pin.startswith("torch") for pin in row.pins):
        pins = []  # another torch wants others of everything
    (folder / "pins.txt").write_text("\n".join([*pins, *row.pins, ""]))
    _require_cpu_build(python, [*pins, *row.pins])
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["-c", folder / "pins.txt"]
    _or_unavailable([*install, wheel, *TESTING])
    # a wheel of the same version may be there from before
    _or_unavailable([*install, "--no-deps", "--force-reinstall", wheel])

    def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        where = cwd or folder
        command = [str(python), *words]
        return subprocess.run(
            command, cwd=where, env=_environment(), capture_output=True, text=True
        )

    return run


def _require_cpu_build(python: Path, pins: list[str]) -> None:
    """Raise where torch is to be had with gigabytes for GPUs only, before any of it is fetched."""
    wanted = next(pin.partition("==")[2] for pin in pins if pin.startswith("torch=="))
    words = [python, "-m", "pip", "index", "versions", "torch", "--disable-pip-version-check"]
    told = subprocess.run(words, capture_output=True, text=True)
    if sys.platform == "linux" and f"{wanted}+cpu" not in told.stdout:
        raise Unavailable(f"no build of torch {wanted} for the CPU is to be had here")


def _or_unavailable(command: list[Any]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(_last(done.stderr))


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
        words = ["debootstrap", "--variant=minbase", row.debian, system, mirror, script]
        _or_unavailable(words)
        apt = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
        _or_unavailable(["chroot", system, "env", "DEBIAN_FRONTEND=noninteractive", *apt])
    inside = system / "matrix"
    shutil.rmtree(inside, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--only-binary=:all:", "--python-version", row.python]
    _or_unavailable([*pip, "--target", inside / "site", wheel, *row.beside])
    shutil.copytree(folder / "tree", inside / "tree")
    _or_unavailable(["mount", "-t", "proc", "proc", system / "proc"])

    def run(*words: str, cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
        where = ["env", "-C", str(cwd), "PYTHONPATH=/matrix/site", "OMP_NUM_THREADS=1"]
        command = ["chroot", str(system), *where, "python3", *words]
        return subprocess.run(command, env=_environment(), capture_output=True, text=True)

    try:
        yield run
    finally:
        subprocess.run(["umount", system / "proc"], check=True)
