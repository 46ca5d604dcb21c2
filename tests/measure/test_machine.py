from __future__ import annotations

import getpass
import json
import os
import platform
import socket
from pathlib import Path

import pytest
import torch

import vinets
from vinets.measure import machine


def test_the_facts_are_those_of_this_machine():
    facts = machine("cpu")
    assert facts["vinets"] == vinets.__version__ and facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert facts["torch_threads"] == torch.get_num_threads()
    assert 1 <= facts["cores"] <= os.cpu_count()
    assert facts["processor"] and (facts["device"], facts["gpu"], facts["cuda"]) == (
        "cpu",
        None,
        None,
    )


def test_nothing_names_the_host_the_user_or_a_path():
    values = json.loads(json.dumps(machine())).values()
    text = " ".join(str(v) for v in values)
    assert str(Path.home()) not in text and str(Path.cwd()) not in text
    assert not {socket.gethostname(), getpass.getuser()} & set(text.split())


def test_unknown_devices_are_named():
    with pytest.raises(ValueError, match="'device' parameter of machine must be 'auto', 'cpu'"):
        machine("abacus")
