"""The kernel of units against the plain operations, on a GPU or by Triton's interpreter."""

import copy
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from vinets.heads import ProductsHead, ReLUUnits, fused
from vinets.testing.heads import lived

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
# the interpreter of older ones knows no new NumPy
TRITON = find_spec("triton") and tuple(map(int, version("triton").split(".")[:2])) >= (3, 8)
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
runs_the_kernel = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="needs a GPU, or Triton")
tells_export = pytest.mark.skipif(
    not hasattr(torch.compiler, "is_exporting"), reason="torch 2.6 cannot tell export"
)
needs_a_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a GPU")

OPERATOR = torch.ops.vinets.sums_of_units.default
CLOSE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


@pytest.mark.skipif(ON_GPU or INTERPRETED or not TRITON, reason="needs Triton, and no GPU")
def test_all_that_follows_by_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    found = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout
    assert "passed" in found.stdout


def made(batch, channels, positions, count, factors, dtype=torch.float32, last=True, rank=9):
    """Latents, weight, bias, patterns and shares; forms and spatial weights in float64."""
    latents = torch.randn(batch, positions, channels).mT
    latents = latents if last else latents.contiguous()
    weight = torch.randn(factors * count, channels) * channels**-0.5
    patterns, shares = torch.randn(rank, positions) / positions, torch.randn(rank, count)
    given = latents, weight, torch.randn(factors * count), patterns, shares
    given = tuple(t.to(DEVICE, dtype) for t in given)
    h, a, b, e, s = (t.double() for t in given)
    forms = (a @ h + b[:, None]).unflatten(1, (factors, count))
    return given, forms, e.mT @ s


def plain_sums(forms, spatial, relu=False):
    units = forms[:, 0].relu() if relu else forms.prod(1)
    return (units * spatial.mT).sum(-1)


def distance(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


PARTLY_FULL, TOO_LARGE = (3, 64, 100, 70, 3), (2, 300, 40, 10, 3)  # the last tiles; weights
SIZES = [
    *(PARTLY_FULL, TOO_LARGE, (1, 7, 17, 1, 1)),  # and nothing is a multiple of anything
    *((5, 20, 49, 5, 2), (2, 130, 64, 65, 4), (2, 24, 16, 64, 5), (2, 512, 16, 9, 5)),
]
CASES = [
    *((size, {"last": last}) for size in SIZES for last in (True, False)),
    *(((3, 20, 70, 66, 2), {"rank": rank}) for rank in (1, 16, 17, 100)),
    *((size, {"dtype": torch.float16}) for size in (PARTLY_FULL, TOO_LARGE)),
    pytest.param(PARTLY_FULL, {"dtype": torch.bfloat16}, marks=needs_a_gpu),
    pytest.param(TOO_LARGE, {"dtype": torch.bfloat16}, marks=needs_a_gpu),
]


def close_to_plain(given, forms, spatial, relu=False):
    found, dtype = fused.sums(*given, relu=relu), given[0].dtype
    return found.dtype == dtype and distance(found, plain_sums(forms, spatial, relu)) < CLOSE[dtype]


@runs_the_kernel
@pytest.mark.parametrize(("size", "options"), CASES)
def test_sums_are_those_of_products(size, options):
    assert close_to_plain(*made(*size, **options))


@runs_the_kernel
def test_sums_are_those_of_relus():
    assert close_to_plain(*made(4, 20, 49, 70, 1), relu=True)


@runs_the_kernel
@pytest.mark.parametrize("relu", [False, True])
def test_what_is_no_number_is_not_hidden(relu):
    (latents, *others), _, _ = made(3, 20, 17, 5, 1)
    latents[1, 3, 16] = float("nan")
    found = fused.sums(latents, *others, relu=relu)
    assert found.isnan().all(1).tolist() == found.isnan().any(1).tolist() == [False, True, False]


@runs_the_kernel
def test_autocast_says_in_which_dtype_products_are_made():
    given, forms, spatial = made(*PARTLY_FULL)
    with torch.autocast(DEVICE, torch.float16):
        found = fused.sums(*given, relu=False)
    far = distance(found, plain_sums(forms, spatial))
    assert found.dtype == torch.float16 and CLOSE[torch.float32] < far < CLOSE[torch.float16]


@runs_the_kernel
def test_rows_and_images_of_a_larger_tensor_are_read_where_they_lie():
    (latents, *others), forms, spatial = made(3, 20, 30, 5, 2)
    wide = torch.full((6, 24, 32), float("nan"), device=DEVICE)
    wide[::2, 2:22, 1:31] = latents
    assert close_to_plain((wide[::2, 2:22, 1:31], *others), forms, spatial)


@runs_the_kernel
@pytest.mark.parametrize("channels", [16, 32])  # held, and in two pieces
@pytest.mark.parametrize("programs", [1, 9])
def test_the_division_of_the_work_changes_nothing(channels, programs):
    given, _, _ = made(7, channels, 40, 40, 2)
    found = fused.in_tiles(*given, False, fused.Blocks(32, 16, 16, 4, 2, programs))
    assert distance(found.sum(1), fused.sums(*given, relu=False).double()) < 1e-6


@needs_a_gpu
@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_heads_use_it_and_give_the_same_logits(kind, dtype, monkeypatch):
    head = lived(kind(20, 49, 3, count=70, rank=9)).eval().folded().cuda()
    latents = torch.randn(9, 20, 49, device="cuda")
    with torch.no_grad(), torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        assert fused.usable(latents, head.forms.weight)
        found = head(latents)
        monkeypatch.setattr(fused, "usable", lambda *_: False)
        for given in (latents, latents.mT.contiguous().mT):
            assert distance(found, head(given).double()) < 5 * CLOSE[dtype]


@needs_a_gpu
def test_it_is_recorded():
    head = lived(ProductsHead(20, 49, 3, count=70, rank=9)).eval().folded().cuda()
    latents, graph = torch.randn(9, 20, 49, device="cuda"), torch.cuda.CUDAGraph()
    with torch.no_grad():
        head(latents)
        with torch.cuda.graph(graph):
            recorded = head(latents)
        latents.normal_()
        graph.replay()
        torch.testing.assert_close(recorded, head(latents))


@pytest.fixture
def everywhere(monkeypatch):
    """The kernel is used on whatever device there is, but not in float64."""
    if not ON_GPU:
        monkeypatch.setattr(fused, "usable", lambda latents, _: latents.dtype != torch.float64)


@torch.no_grad()
def exactly(head, latents):
    """Logits by the plain operations, in float64."""
    return copy.deepcopy(head).double()(latents.double())


class Counted:
    """The kernel, and how often it was launched."""

    def __init__(self, monkeypatch):
        self.calls = 0
        language, self.kernel = fused._kernel()
        monkeypatch.setattr(fused, "_kernel", lambda: (language, self))

    def __getitem__(self, grid):
        self.calls += 1
        return self.kernel[grid]


@runs_the_kernel
@tells_export
@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_heads_run_it(kind, backend, everywhere, monkeypatch):
    head = lived(kind(20, 70, 3, count=7, rank=9)).eval().folded().to(DEVICE)
    torch.compiler.reset()
    compiled = torch.compile(head, backend=backend, fullgraph=True)
    kernel = Counted(monkeypatch)
    with torch.no_grad():
        for batch in (3, 5):  # the second one with a symbol for the batch
            latents = torch.randn(batch, 20, 70, device=DEVICE)
            assert distance(compiled(latents), exactly(head, latents)) < 5 * CLOSE[torch.float32]
        half = torch.bfloat16 if ON_GPU else torch.float16
        with torch.autocast(DEVICE, half):
            found = compiled(latents)
    assert kernel.calls == 3 and found.dtype == half
    assert distance(found, exactly(head, latents)) < 5 * CLOSE[found.dtype]


@runs_the_kernel
@pytest.mark.parametrize("positions", [40, 70])  # one tile, and two
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_operator_does_what_compilers_are_told(positions, dtype):
    given, _, _ = made(3, 20, positions, 7, 2, dtype=dtype)
    checks = "test_schema", "test_faketensor", "test_aot_dispatch_static"
    torch.library.opcheck(OPERATOR, (*given, False), test_utils=checks)


CHANGES = {
    "forms in place": lambda head: head.forms.weight.mul_(0.9),
    "biases in place": lambda head: head.forms.bias.add_(0.1),
    "patterns in place": lambda head: head.spatial.patterns.mul_(1.2),
    "shares by data": lambda head: head.spatial.weight.data.neg_(),
    "other shares": lambda head: setattr(
        head.spatial, "weight", torch.nn.Parameter(1 - head.spatial.weight)
    ),
    "another state": lambda head: head.load_state_dict(
        {name: 1.1 * value + 0.1 for name, value in head.state_dict().items()}
    ),
    "another dtype": lambda head: head.half(),
}


@runs_the_kernel
@pytest.mark.parametrize("inference", [False, True])
def test_nothing_is_kept_that_goes_stale(inference, everywhere, monkeypatch):
    head = lived(ProductsHead(20, 40, 3, count=7, rank=9)).eval().folded().to(DEVICE)
    latents, kernel = torch.randn(3, 20, 40, device=DEVICE), Counted(monkeypatch)
    with torch.inference_mode(inference), torch.no_grad():
        before = head(latents)
        other = copy.deepcopy(head)
        for change in CHANGES.values():
            change(head)
            given = latents.to(head.forms.weight.dtype)
            found = head(given)
            assert distance(found, exactly(head, given)) < 5 * CLOSE[found.dtype]
            assert found.dtype == torch.float16 or distance(found, before.double()) > 0.01
            before = found
        assert distance(other(latents), exactly(other, latents)) < 5 * CLOSE[torch.float32]
    assert kernel.calls == 2 + len(CHANGES)


# --- when it is used: these need neither a GPU nor Triton ---------------------------------------


class OnGPU(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = True


@pytest.fixture
def used(monkeypatch):
    """What was given to the kernel, where it is said to work."""
    calls = []

    def sums(latents, weight, bias, patterns, shares, *, relu):
        calls.append(relu)
        return torch.zeros(len(latents), shares.shape[1])

    monkeypatch.setattr(fused, "sums", sums)
    monkeypatch.setattr(fused, "_works", lambda device: True)
    return calls


def run(
    positions=16, dtype=torch.float32, kind=ProductsHead, folded=True, gradients=False, device=OnGPU
):
    head = lived(kind(6, positions, 3, count=5, rank=4)).eval().to(dtype)
    head = head.folded() if folded else head
    with torch.set_grad_enabled(gradients):
        return head(torch.randn(2, 6, positions, dtype=dtype).as_subclass(device))


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"kind": ProductsHead}, [False]),
        ({"kind": ReLUUnits}, [True]),
        *(({"gradients": True}, []), ({"folded": False}, []), ({"positions": 15}, [])),
        *(({"dtype": torch.float64}, []), ({"device": torch.Tensor}, [])),
    ],
)
def test_a_folded_head_in_use_on_a_gpu_asks_for_it_and_others_do_not(used, options, asked):
    run(**options)
    assert used == asked


def test_what_is_recorded_or_counted_is_plain(used, monkeypatch):
    with FlopCounterMode(display=False) as counter:
        run()
    assert counter.get_total_flops() > 2 * 2 * 6 * 10 * 16  # those of the forms, at least
    monkeypatch.setattr(torch.jit, "is_tracing", lambda: True)
    run()
    assert not used


def graph_of(head, *, amp=False):
    """What the compiler of a head is given, in one piece: names of operations, and the graph."""
    graphs = []

    def backend(module, _):
        graphs.append(module.graph)
        return lambda *_: (torch.zeros(2, 3),)

    torch.compiler.reset()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=amp):
        torch.compile(head, backend=backend, fullgraph=True)(torch.randn(2, 6, 16))
    (graph,) = graphs
    return [str(node.target) for node in graph.nodes if node.op.startswith("call")], graph


@pytest.fixture
def tried(monkeypatch):
    """Devices on which the kernel was tried, and works."""
    devices = []

    def works(device):  # what no graph could hold
        devices.append(device)
        return torch.ones(3, device=device).sum().item() == 3

    monkeypatch.setattr(fused, "_tried", works)
    monkeypatch.setattr(fused, "usable", lambda latents, _: fused._works(latents.device))
    return devices


@tells_export
@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
def test_a_compiler_is_given_one_operator(kind, amp, tried):
    head = lived(kind(6, 16, 3, count=5, rank=4)).eval().folded()
    targets, graph = graph_of(head, amp=amp)
    (made,) = (node for node in graph.nodes if "sums_of_units" in str(node.target))
    assert not any("ones" in target or "bmm" in target for target in targets)
    assert tried == [torch.device("cpu")]
    weight = made.args[1].meta["example_value"]
    assert weight.dtype == (torch.bfloat16 if amp else torch.float32)
    assert made.args[5] == (kind is ReLUUnits)


@tells_export
def test_a_compiler_is_given_plain_operations_where_it_does_not_work(monkeypatch):
    monkeypatch.setattr(fused, "_tried", lambda device: False)
    monkeypatch.setattr(fused, "usable", lambda latents, _: fused._works(latents.device))
    targets, _ = graph_of(lived(ProductsHead(6, 16, 3, count=5, rank=4)).eval().folded())
    assert any("linear" in t for t in targets) and not any("sums_of_units" in t for t in targets)


@pytest.mark.parametrize("strict", [pytest.param(True, marks=tells_export), False])
def test_what_is_exported_is_plain(strict, tried):
    head = lived(ProductsHead(6, 16, 3, count=5, rank=4)).eval().folded()
    with torch.no_grad():
        program = torch.export.export(head, (torch.randn(2, 6, 16),), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes]
    assert "aten.linear.default" in targets and not any("sums_of_units" in t for t in targets)


@pytest.mark.parametrize("positions", [16, 49, 64, 65, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_compilers_are_told_the_shape_that_programs_write(positions, dtype):
    with FakeTensorMode():
        sizes = (2, 6, positions), (10, 6), (10,), (4, positions), (4, 5)
        found = OPERATOR(*(torch.empty(size, dtype=dtype) for size in sizes), True)
    tiles = -(-positions // fused.blocks_for(6, positions, 2, dtype.itemsize).positions)
    assert found.shape == (2, tiles, 5)
    assert found.dtype == (torch.float32 if tiles > 1 else dtype)


@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
@pytest.mark.parametrize("last", [True, False])
def test_where_it_does_not_work_the_plain_operations_give_the_same(kind, last, monkeypatch):
    monkeypatch.setattr(fused, "_works", lambda device: False)
    head = lived(kind(6, 16, 3, count=5, rank=4)).eval().folded()
    latents = torch.randn(2, 16, 6).mT if last else torch.randn(2, 6, 16)
    with torch.no_grad():
        found = head(latents.as_subclass(OnGPU)).as_subclass(torch.Tensor)
        torch.testing.assert_close(found, head(latents))


@pytest.fixture
def recent(monkeypatch):
    """A GPU that Triton knows, on which the kernel counts well."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch, "ones", lambda *shape, **_: torch.zeros(shape))
    monkeypatch.setattr(fused, "in_tiles", lambda *_, relu: torch.tensor(272.0))
    language = ModuleType("triton.language")
    triton = ModuleType("triton")
    triton.language, triton.jit = language, lambda function, **_: function
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.setattr(fused, "tl", None, raising=False)
    forget()
    yield monkeypatch
    forget()


def forget():
    fused._tried.cache_clear()
    fused._kernel.cache_clear()


def no_compiler(*_, relu):
    raise RuntimeError("no C compiler was found")


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys.modules, "triton", None),
        (fused, "in_tiles", lambda *_, relu: torch.tensor(271.0)),  # it errs
        (fused, "in_tiles", no_compiler),
        (torch.cuda, "get_device_capability", lambda device: (7, 5)),
    ],
    ids=["no Triton", "wrong sums", "no compiler", "old GPU"],
)
def test_it_works_where_triton_and_a_recent_gpu_are_and_sums_are_right(recent, owner, name, value):
    gpu = torch.device("cuda", 0)
    assert fused._works(gpu)
    forget()
    (recent.setitem if owner is sys.modules else recent.setattr)(owner, name, value)
    assert not fused._works(gpu)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("factors", [1, 3, 5])
@pytest.mark.parametrize("channels", [1, 24, 64, 128, 256, 512, 2048])
def test_what_a_program_holds_fits_into_every_card(channels, factors, size):
    for positions in (16, 17, 49, 1024):
        blocks = fused.blocks_for(channels, positions, factors, size)
        held = blocks.channels >= channels
        weights = blocks.units * (factors if held else blocks.stages)
        assert size * blocks.channels * (weights + blocks.stages * blocks.positions) <= 96 * 1024
        assert all(b & (b - 1) == 0 and b >= 16 for b in blocks[:3])
        apart = fused.blocks_for(channels, positions, factors, size, held=False)
        assert apart.channels < channels or apart.channels == 16  # less than which there is not


@pytest.mark.parametrize(("batch", "places"), [(1, 50), (256, 20), (256, 96), (1000, 1), (7, 500)])
def test_programs_fill_the_rounds_in_which_they_run(batch, places):
    each = fused._images_each(batch, places, 264, torch.device("cpu"))
    programs = places * -(-batch // each)
    if places * batch >= 264:
        rounds = -(-programs // 264)
        assert programs > 0.75 * 264 * rounds
    else:
        assert each == 1  # all at the same time
