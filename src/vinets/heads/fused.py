r"""Sums of units in one kernel, for inference on a GPU.

The plain operations write the forms (B, d N, P) to memory and read them back several times, many
times the bytes of the latents, for arithmetic that takes a tenth of that time. Here a program of
the GPU holds the weights of some units and their spatial weights at some positions. It goes
through images: it reads what they have at these positions, makes forms, units and a sum, and
writes one number per unit. What the programs of all positions wrote is added up afterwards.

Forms are products of matrices in the dtype of the latents, or of autocast; what is summed is
float32. Products of float32 use TF32 where torch may, else three products of TF32, about as exact
as float32. The kernel is written in Triton, which comes with torch for CUDA. Without it, and where
operations are exported or counted, heads use the plain ones.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, no_type_check

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

if TYPE_CHECKING:
    import triton.language as tl

SHARED_BYTES = 96 << 10  # bytes of fast memory that a program may take; small cards have 99 KB


class Blocks(NamedTuple):
    """A division of the work: what a program holds, and how many programs run."""

    units: int
    positions: int
    channels: int  # channels of weights at a time; all where they fit, and then they stay
    warps: int
    stages: int  # images, or blocks of channels, that are fetched ahead
    programs: int  # programs that a multiprocessor is expected to run at a time


def usable(latents: Tensor, weight: Tensor) -> bool:
    """Tell whether the kernel runs on such latents (B, C, P) with forms of such a weight."""
    if torch.jit.is_tracing() or not latents.is_cuda:
        return False
    # A compiler has modes of its own.
    if not torch.compiler.is_compiling() and _get_current_dispatch_mode() is not None:
        return False
    if not len(latents) or latents.shape[2] < 16:  # most of a tile would be empty
        return False
    known = _compute_dtype(latents) in (torch.float32, torch.float16, torch.bfloat16)
    fits = latents.dtype == weight.dtype or torch.is_autocast_enabled("cuda")
    return known and fits and _works(latents.device)


def sums(
    latents: Tensor, weight: Tensor, bias: Tensor, patterns: Tensor, shares: Tensor, *, relu: bool
) -> Tensor:
    """Sum products of forms, or their ReLU, over the positions, (B, N).

    Latents (B, C, P) have strides of any kind. ``weight`` (d N, C) and ``bias`` (d N,) are those of
    the first forms of all units, then of the second. A unit's weights at the positions are its
    ``shares`` (R, N) of the ``patterns`` (R, P). The result has the dtype of autocast, or else
    that of the latents.
    """
    dtype = _compute_dtype(latents)
    run = torch.ops.vinets.sums_of_units if torch.compiler.is_compiling() else in_tiles
    # Weights that come in the dtype of the products need fewer registers.
    partial: Tensor = run(latents, weight.to(dtype), bias, patterns, shares, relu)
    return (partial.sum(1) if partial.shape[1] > 1 else partial[:, 0]).to(dtype)


def in_tiles(
    latents: Tensor,
    weight: Tensor,
    bias: Tensor,
    patterns: Tensor,
    shares: Tensor,
    relu: bool,
    blocks: Blocks | None = None,
) -> Tensor:
    """Run the programs of the GPU, each of which sums over some positions, (B, tiles, N).

    Products are made in the dtype of the weight.
    """
    (batch, channels, positions), (rank, count) = latents.shape, shares.shape
    factors, dtype = len(weight) // count, weight.dtype
    precision = "tf32" if dtype != torch.float32 or _tf32() else "tf32x3"
    if blocks is None:
        size = max(dtype.itemsize, latents.itemsize)
        blocks = blocks_for(channels, positions, factors, size, held=precision == "tf32")
    out = _out(latents, weight, count, -(-positions // blocks.positions))
    places = out.shape[1] * -(-count // blocks.units)
    each = _images_each(batch, places, blocks.programs, latents.device)
    language, kernel = _kernel()
    compute = getattr(language, str(dtype).removeprefix("torch."))
    given = (t.contiguous() for t in (weight, bias, patterns, shares))
    sizes = (*latents.stride(), channels, positions, rank, factors, relu, *blocks[:3])
    options = {"num_warps": blocks.warps, "num_stages": blocks.stages}
    with torch.cuda.device_of(out):
        run = kernel[places, -(-batch // each)]
        run(latents, *given, out, batch, each, count, *sizes, compute, precision, **options)
    return out


def _out(latents: Tensor, weight: Tensor, count: int, tiles: int) -> Tensor:
    # Partial sums are float32.
    dtype = torch.float32 if tiles > 1 else weight.dtype
    return latents.new_empty(len(latents), tiles, count, dtype=dtype)


def _in_tiles_of_nothing(
    latents: Tensor, weight: Tensor, bias: Tensor, patterns: Tensor, shares: Tensor, relu: bool
) -> Tensor:
    positions = latents.shape[2]
    return _out(latents, weight, shares.shape[1], -(-positions // _width(positions)))


# To a compiler the kernel is one operation, whose latents may lie in memory as suits others.
LIBRARY = torch.library.Library("vinets", "FRAGMENT")
LIBRARY.define(
    "sums_of_units(Tensor latents, Tensor weight, Tensor bias, Tensor patterns, Tensor shares, "
    "bool relu) -> Tensor",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)
LIBRARY.impl("sums_of_units", in_tiles, "CompositeExplicitAutograd")
torch.library.register_fake("vinets::sums_of_units", _in_tiles_of_nothing, lib=LIBRARY)


def blocks_for(channels: int, positions: int, factors: int, size: int, held: bool = True) -> Blocks:
    """Divide the work for numbers of ``size`` bytes; weights stay if there is room and ``held``."""
    units, width, every = 64, _width(positions), _power(channels)
    for stages in (3, 2):
        if held and size * every * (factors * units + stages * width) <= SHARED_BYTES:
            return Blocks(units, width, every, 4, stages, 4 if every <= 64 else 2)
    return Blocks(units, width, min(128 // size, max(16, every // 2)), 4, 3, 2)


@cache
def _images_each(batch: int, places: int, programs: int, device: torch.device) -> int:
    """Return the images of each program; a multiprocessor runs ``programs`` at a time."""
    if device.type == "cuda":  # and not Triton's interpreter
        programs *= torch.cuda.get_device_properties(device).multi_processor_count
    # They come in rounds, and each fetches weights first, which takes as long as a few images.
    return min(range(1, batch + 1), key=lambda n: -(-places * -(-batch // n) // programs) * (n + 4))


def _width(positions: int) -> int:
    return min(64, _power(positions))  # positions of a tile


def _power(number: int) -> int:
    return max(16, 1 << (number - 1).bit_length())  # a power of two, as small matrices need


def _compute_dtype(latents: Tensor) -> torch.dtype:
    kind = latents.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else latents.dtype


def _tf32() -> bool:
    try:
        return torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:  # it was said by the newer name, and the older one refuses to answer
        return torch.backends.cuda.matmul.fp32_precision == "tf32"


def _works(device: torch.device) -> bool:
    """Tell whether the kernel runs on a device; a compiler asks once, and does not look inside."""
    return _tried(device)


# The mark that torch.compiler.assume_constant_result sets. That decorator would import the compiler
# (torch._dynamo), which takes every process a second or two, and few of them compile anything.
_works._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _tried(device: torch.device) -> bool:
    """Run the kernel once to see: Triton needs a recent NVIDIA GPU and a C compiler."""
    if torch.version.hip is not None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        _kernel()
        one = torch.ones(1, 16, 16, dtype=torch.float32, device=device)
        given = one, one[0, :1], one[0, 0, :1], one[0, :1], one[0, :1, :1]
        return in_tiles(*given, relu=False).item() == 16 * 17
    except Exception:  # whatever went wrong, the plain operations do the same
        return False


@cache
def _kernel() -> tuple[Any, Any]:
    """Return the language of Triton, and the kernel in it."""
    global tl
    import triton
    import triton.language as tl

    return tl, triton.jit(_sums, do_not_specialize=["images", "each"])


# fmt: off
@no_type_check
def _sums(
    h, weight, bias, patterns, shares, out, images, each, N,
    h_image: tl.constexpr, h_channel: tl.constexpr, h_position: tl.constexpr,
    C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, FACTORS: tl.constexpr, RELU: tl.constexpr,
    UNITS: tl.constexpr, POSITIONS: tl.constexpr, CHANNELS: tl.constexpr,
    DTYPE: tl.constexpr, PRECISION: tl.constexpr,
):
    # fmt: on
    HELD: tl.constexpr = CHANNELS >= C
    tiles = tl.cdiv(P, POSITIONS)
    tile = tl.program_id(0) % tiles
    n = tl.program_id(0) // tiles * UNITS + tl.arange(0, UNITS)
    p = tile * POSITIONS + tl.arange(0, POSITIONS)
    c = tl.arange(0, CHANNELS)
    first = tl.program_id(1) * each
    h += first.to(tl.int64) * h_image + c[:, None] * h_channel + p[None, :] * h_position
    out += (first.to(tl.int64) * tiles + tile) * N + n
    weight += n[:, None] * C + c[None, :]
    known = (n < N)[:, None] & (c < C)[None, :]
    wanted = (c < C)[:, None] & (p < P)[None, :]
    # zero beyond the last unit and position, so that what is made there does not count
    scale = tl.zeros((UNITS, POSITIONS), tl.float32)
    r = tl.arange(0, 16)
    for k in range(0, R, 16):
        some = (r < R - k)[:, None] & (p < P)[None, :]
        pattern = tl.load(patterns + (k + r)[:, None] * P + p[None, :], mask=some, other=0.0)
        some = (n < N)[:, None] & (r < R - k)[None, :]
        share = tl.load(shares + (k + r)[None, :] * N + n[:, None], mask=some, other=0.0)
        scale = tl.dot(share, pattern, scale, input_precision="tf32x3")
    weights, biases = (), ()
    for f in tl.static_range(FACTORS):
        biases += (tl.load(bias + f * N + n, mask=n < N, other=0.0).to(tl.float32)[:, None],)
        if HELD:
            weights += (tl.load(weight + f * N * C, mask=known, other=0.0),)

    for _ in range(first, tl.minimum(first + each, images)):
        if HELD:
            x = tl.load(h, mask=wanted, other=0.0).to(DTYPE)
        unit = 1.0
        for f in tl.static_range(FACTORS):
            if HELD:
                form = tl.dot(weights[f], x, input_precision=PRECISION)
            else:
                form = tl.zeros((UNITS, POSITIONS), tl.float32)
                for k in range(0, C, CHANNELS):
                    rest = c < C - k
                    w = tl.load(weight + f * N * C + k, mask=known & rest[None, :], other=0.0)
                    x = tl.load(h + k * h_channel, mask=wanted & rest[:, None], other=0.0)
                    form = tl.dot(w, x.to(DTYPE), form, input_precision=PRECISION)
            unit *= form + biases[f]
        if RELU:
            unit = tl.maximum(unit, 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(out, tl.sum(unit * scale, 1), mask=n < N)
        h += h_image
        out += tiles * N
