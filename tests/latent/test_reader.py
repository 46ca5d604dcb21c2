from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from vinets import collect
from vinets.latent.reader import LatentReader, LatentShape

MAPS = torch.randn(3, 4, 6, 5, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(1))
VECTORS = torch.randn(3, 9, generator=torch.Generator().manual_seed(2))
LAST = MAPS.permute(0, 2, 3, 1).contiguous()


@pytest.mark.parametrize(
    ("kind", "output", "expected"),
    [
        ("auto", MAPS, MAPS.reshape(3, 4, 30)),
        ("auto", TOKENS, TOKENS.mean(1)[:, :, None]),
        ("class_token", TOKENS, TOKENS[:, 0, :, None]),
        ("mean_token", TOKENS, TOKENS.mean(1)[:, :, None]),
        ("mean_token", MAPS, MAPS.mean((2, 3))[:, :, None]),
        ("map", MAPS, MAPS.reshape(3, 4, 30)),
        ("map", TOKENS, torch.stack([TOKENS[:, t] for t in range(7)], 2)),
        ("map", VECTORS, VECTORS[:, :, None]),
    ],
)
def test_each_kind_is_its_formula(kind, output, expected):
    torch.testing.assert_close(LatentReader(kind)(output), expected)


@pytest.mark.parametrize("side", [1, 2, 4])
def test_pooling_is_the_mean_over_windows(side):
    def windows(n):  # those that adaptive pooling uses
        return [slice(i * n // side, -(-(i + 1) * n // side)) for i in range(side)]

    means = [MAPS[:, :, r, c].mean((2, 3)) for r in windows(6) for c in windows(5)]
    expected = torch.stack(means, 2)
    torch.testing.assert_close(LatentReader("pool", side)(MAPS), expected)
    torch.testing.assert_close(LatentReader("pool", side, channels_last=True)(LAST), expected)


@pytest.mark.parametrize("kind", ["auto", "map", "class_token", "mean_token", "pool"])
def test_vectors_are_one_position_under_every_kind(kind):
    reader = LatentReader(kind, 2 if kind == "pool" else None)
    assert torch.equal(reader(VECTORS), VECTORS[:, :, None])
    assert reader.describe(VECTORS) == LatentShape(9, 1, 1)
    assert reader.describe((TOKENS,)) == LatentShape(channels=4, height=1, width=7)


def test_descriptors_do_not_depend_on_the_place_of_the_channels():
    last = LatentReader("map", channels_last=True)
    assert torch.equal(last(LAST), LatentReader("map")(MAPS))
    assert last.describe(LAST) == LatentReader("map").describe(MAPS) == LatentShape(4, 6, 5)
    assert last.describe(LAST).positions == 30


def test_views_are_not_copied_and_the_dtype_stays():
    for kind, output in [("map", MAPS), ("map", TOKENS), ("class_token", TOKENS)]:
        assert LatentReader(kind)(output).data_ptr() == output.data_ptr()
    for reader, output in [(LatentReader("pool", 2), MAPS), (LatentReader("mean_token"), TOKENS)]:
        assert reader(output.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "output",
    [
        (None, TOKENS, MAPS),
        ["text", TOKENS],
        {"score": 1.0, "hidden": TOKENS, "pooled": VECTORS},
        OrderedDict(pooler_output=VECTORS, last_hidden_state=TOKENS),
    ],
)
def test_the_tensor_is_found_in_what_modules_return(output):
    assert torch.equal(LatentReader("map")(output), TOKENS.mT)


def test_a_hugging_face_output_is_read_by_its_last_hidden_state():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    output = outputs.BaseModelOutputWithPooling(last_hidden_state=TOKENS, pooler_output=VECTORS)
    assert torch.equal(LatentReader("class_token")(output)[:, :, 0], TOKENS[:, 0])


def test_a_reader_is_built_again_from_its_config():
    for reader in (LatentReader(), LatentReader("pool", 2, True), LatentReader("class_token")):
        again = LatentReader(**reader.config())
        assert again.config() == reader.config() and repr(again) == repr(reader)


@pytest.mark.parametrize(
    ("reader", "shape"),
    [
        (LatentReader(), (4, 6, 6)),
        (LatentReader("pool", 2), (4, 6, 6)),
        (LatentReader("map", channels_last=True), (6, 6, 4)),
        (LatentReader("mean_token"), (5, 4)),
        (LatentReader("class_token"), (5, 4)),
    ],
)
def test_an_exported_reader_takes_every_batch_size(reader, shape):
    network = nn.Sequential(nn.ReLU(), reader)
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        network, (torch.randn(2, *shape),), dynamic_shapes=({0: batch},), strict=False
    ).module()
    for size in (2, 5):
        values = torch.randn(size, *shape)
        torch.testing.assert_close(program(values), network(values))


@pytest.mark.parametrize(
    ("reader", "output", "message"),
    [
        (LatentReader("class_token"), MAPS, r"reads tokens \(B, T, C\).*Got shape \(3, 4, 6, 5\)"),
        (LatentReader("pool", 2), TOKENS, r"reads maps \(B, C, H, W\).*Use kind='mean_token'"),
        (LatentReader("pool", 2), MAPS[..., None], r"reads maps \(B, C, H, W\)"),
        (LatentReader("pool", 6), MAPS, r"'pool'.*at most the side of the map, 5\. Got 6"),
        (LatentReader(), torch.zeros(3), r"must have shape \(B, D\).*Got \(3,\)"),
        (LatentReader(), torch.zeros(1, 1, 1, 1, 1, 1), r"Cut at another module"),
        (LatentReader(), "text", r"must return a Tensor.*Got str"),
        (LatentReader(), (1, None), r"must return a Tensor.*Got tuple"),
    ],
)
def test_outputs_that_cannot_be_read_are_refused(reader, output, message):
    with pytest.raises(ValueError, match=message):
        reader(output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("maps",), r"'kind'.*one of 'auto'.*Got 'maps'"),
        (("pool",), r"'pool'.*positive integer if kind='pool'.*Got None"),
        (("map", 2), r"'pool'.*None otherwise.*The kind is 'map'"),
        (("pool", 0), r"'pool'.*Got 0"),
    ],
)
def test_parameters_outside_their_domain_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LatentReader(*options)


@pytest.mark.parametrize("kind", ["auto", "pool"])
def test_maps_with_channels_last_are_read_as_those_with_channels_first(kind):
    class Last(nn.Module):
        """The same convolution, whose map is passed on with its channels last."""

        def __init__(self, first):
            super().__init__()
            self.conv, self.swap, self.fc = first, nn.Identity(), nn.Linear(5, 3)

        def forward(self, x):
            return self.fc(self.swap(self.conv(x).permute(0, 2, 3, 1)).mean((1, 2)))

    conv = nn.Conv2d(3, 5, 2, 2)
    data = torch.randn(12, 3, 8, 4), torch.arange(12) % 3
    options = {"read": kind, "pool": 2 if kind == "pool" else None, "progress": None}
    last = collect(Last(conv), data, "swap", **options)
    first = collect(Last(conv), data, "conv", **options)
    assert last.reader.channels_last and not first.reader.channels_last
    torch.testing.assert_close(last.store.tensor(), first.store.tensor())
    forced = collect(Last(conv), data, "swap", channels_last=False, **options)
    assert not forced.reader.channels_last
