"""How large, how fast and how accurate a network is, and how many dimensions its latents have."""

from vinets.measure.accuracy import Evaluation, evaluate
from vinets.measure.cost import (
    Sizes,
    flops,
    peak_bytes,
    sizes,
    stored_bytes,
    stored_indices,
    stored_numbers,
)
from vinets.measure.dimension import (
    Correlation,
    Dimensions,
    class_dimensions,
    dimension_correlation,
    intrinsic_dimension,
)
from vinets.measure.running import machine
from vinets.measure.speed import Throughput, compare, throughput

__all__ = [
    "Correlation",
    "Dimensions",
    "Evaluation",
    "Sizes",
    "Throughput",
    "class_dimensions",
    "compare",
    "dimension_correlation",
    "evaluate",
    "flops",
    "intrinsic_dimension",
    "machine",
    "peak_bytes",
    "sizes",
    "stored_bytes",
    "stored_indices",
    "stored_numbers",
    "throughput",
]
