from __future__ import annotations

import os
import shutil
import sys

import pytest

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes there")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_a_disturbed_training_ends_as_if_nothing_had_happened():
    from chaos.harness import run

    report = run(seed=9, trials=3, only=("train",))  # killed, no room, two writers
    print(report)
    assert not report.failures, str(report)
    assert report.kills.total() >= 1 and report.others["full disks"] == 1


def test_folders_that_differ_are_told_apart(tmp_path):
    from chaos.compare import differences

    one, other = tmp_path / "one", tmp_path / "other"
    (one / "a").mkdir(parents=True)
    (one / "a" / "r.json").write_text('{"accuracy": 0.5, "seconds": 1.5}')
    rows = ['{"name": "x", "seconds": 1}', '{"name": "y", "seconds": 2}']
    (one / "t.jsonl").write_text("\n".join([*rows, '{"na']))
    shutil.copytree(one, other)
    (one / "a" / "r.json").write_text('{"accuracy": 0.5, "seconds": 2.5}')
    (other / "t.jsonl").write_text("\n".join(rows[::-1]).replace("2", "3"))
    assert not list(differences(one, other))
    (one / "a" / "r.json").write_text('{"accuracy": 0.75, "seconds": 1.5}')
    (one / "stray").write_text("")
    found = list(differences(one, other))
    assert found == ["stray file stray", "a/r.json differs at accuracy: '0.75' and '0.5'"]
