"""Batch jobs and manifests are what their readers take, and call commands that are there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from vinets.cli.app import COMMANDS as PANELS

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted((EXAMPLES / "slurm").glob("*.sbatch"))
COMMANDS = {name for commands in PANELS.values() for name in commands}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_batch_jobs_are_bash_with_commands_that_are_there(script):
    linter = ["shellcheck"] if shutil.which("shellcheck") else ["bash", "-n"]
    subprocess.run([*linter, script], check=True)
    named = re.findall(r"(?:-m )?vinets (\w+) ", script.read_text().split("set -euo pipefail")[1])
    assert named and set(named) <= COMMANDS


def test_the_manifests_belong_together():
    text = (EXAMPLES / "kubernetes" / "compress.yaml").read_text()
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}
    service = found["Service", "vinets-scheduler"]["spec"]
    pods = found["Deployment", "vinets-scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == pods
    job = found["Job", "vinets-compress"]["spec"]["template"]["spec"]["containers"][0]["args"]
    address = f"vinets-scheduler:{service['ports'][0]['port']}"
    worker = found["Deployment", "vinets-worker"]["spec"]["template"]["spec"]["containers"][0]
    assert job[-1] == f"dask://{address}" and address in worker["args"]
    assert job[0] == "vinets" and job[1] in COMMANDS


def test_the_manifests_are_what_kubernetes_takes():
    kubernetes = pytest.importorskip("kubernetes_validate")
    text = (EXAMPLES / "kubernetes" / "compress.yaml").read_text()
    for one in yaml.safe_load_all(text):
        kubernetes.validate(one, kubernetes.latest_version(), strict=True)
