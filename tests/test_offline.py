"""The core with sockets that cannot be opened: nothing is fetched unless it was asked for."""

from __future__ import annotations

from program import python

SCRIPT = """
import socket, sys

def refuse(*arguments, **options):
    raise AssertionError("asked for the network")

socket.socket.connect = refuse
socket.socket.connect_ex = refuse
socket.getaddrinfo = socket.create_connection = refuse

import numpy as np, torch
torch.set_num_threads(1)
import vinets
from vinets.data import digits
from vinets.models import create_model
from vinets.networks import VINet
from vinets import build
from vinets.training import fine_tune

points = np.random.default_rng(0).uniform(-1, 1, (60, 3))
vinets.ABM(psi=0.05).fit(points).generators_.save(sys.argv[1] + "/g.safetensors")
data = digits()
small = {"components": 4, "keep": 2, "monomials": 8, "per_class": 12, "progress": None}
network = build(create_model("digits_cnn"), data.train, "relu3", **small)[0]
fine_tune(network, data.train, epochs=1, progress=None)
network.save_pretrained(sys.argv[1] + "/net")
again = VINet.from_pretrained(sys.argv[1] + "/net")
assert torch.equal(again(data.test.example(4)), network.eval()(data.test.example(4)))
"""


def test_the_core_opens_no_connection(tmp_path):
    python(SCRIPT, tmp_path)
