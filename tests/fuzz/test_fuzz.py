from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

INPUTS = 500  # make fuzz takes 100,000


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_every_reader_names_what_is_wrong_or_reads_it_right():
    # A new process, because one that is forked beside threads of other tests may wait for ever.
    command = [sys.executable, "-m", "fuzz", "--inputs", str(INPUTS)]
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        command, env=os.environ | path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (counts,) = re.findall(r"(\d+) inputs, (\d+) refused in one sentence, (\d+) read", done.stdout)
    every, refused, read = map(int, counts)
    # both ways are taken: neither everything is refused nor everything read
    assert every == INPUTS and refused > INPUTS / 2 and read > INPUTS / 20
