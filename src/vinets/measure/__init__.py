"""How large, how fast and how accurate a network is."""

from vinets.measure.accuracy import Evaluation, evaluate
from vinets.measure.flops import flops
from vinets.measure.machine import machine
from vinets.measure.memory import peak_bytes
from vinets.measure.size import Sizes, sizes, stored_indices, stored_numbers
from vinets.measure.speed import Throughput, compare, throughput, time_share

__all__ = [
    "Evaluation",
    "Sizes",
    "Throughput",
    "compare",
    "evaluate",
    "flops",
    "machine",
    "peak_bytes",
    "sizes",
    "stored_indices",
    "stored_numbers",
    "throughput",
    "time_share",
]
