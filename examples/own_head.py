# %% [markdown]
# # Write your own head
#
# A *head* maps the latents at a cut to logits. vinets comes with polynomial heads and with the
# baselines they are compared with. This tutorial adds a new one in about fifty lines. After that,
# it can be built by name, trained, saved, loaded and exported, in Python and from a shell.

# %%
import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vinets import baselines, build, collect, evaluate, fine_tune, train_classifier
from vinets.core.options import option, whole
from vinets.data import digits
from vinets.heads import HEADS, Head, HeadMaps, HeadOptions, LinearMap, ProductsOptions
from vinets.heads.base import plain_facts, seeded
from vinets.heads.pieces import folded_linear, parameter_count
from vinets.models import digits_cnn
from vinets.networks import CutNetwork

torch.manual_seed(0)
EPOCHS = 10

# %% [markdown]
# ## The idea
#
# The simplest polynomial that vanishes somewhere is a linear form: $|w^\top h + b|$ is zero on a
# hyperplane and grows with the distance from it. Our head computes many of these at every
# position of the map, averages each over the positions, and puts a linear layer on top. Batch
# normalisation in front helps training; `folded` removes it again for inference.
#
# Latents have the shape (B, C, P): a batch of C channels at P positions. A head has a `kind`, the
# name by which files and commands refer to it, a class `Options`, and five methods:
#
# - `Options` holds what a user may choose, here how many hyperplanes there are. Its fields become
#   keywords of `vinets.build` and options of `vinets build`, with their help;
# - `build` makes an untrained head from latents, with facts such as its size and the time it took;
# - `forward` maps latents to logits;
# - `config` returns the arguments of `__init__` as JSON values, so that the head can be saved;
# - `parts` returns how many values each part stores, for the tables;
# - `maps` returns its linear maps, from which the theory computes Lipschitz constants.
#
# `folded` is optional.


# %%
@dataclass(frozen=True)
class HyperplaneOptions(HeadOptions):
    width: int = option(64, whole(), "Hyperplanes at every position.")


class Hyperplanes(Head):
    kind, label = "hyperplanes", "hyperplanes"
    Options = HyperplaneOptions

    @classmethod
    def build(cls, latents, options=None, seed=0, progress=None):
        options, begin = options or HyperplaneOptions(), time.perf_counter()
        channels, _ = latents.shape
        with seeded(seed):
            head = cls(channels, latents.n_classes, options.width)
        head.facts = plain_facts(head, latents, begin)
        return head.to(latents.device).eval()

    def __init__(self, channels: int, classes: int, width: int, normalized: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels) if normalized else None
        self.forms = nn.Linear(channels, width)
        self.linear = nn.Linear(width, classes)

    def forward(self, latents: Tensor) -> Tensor:
        h = latents if self.norm is None else self.norm(latents)
        distances = self.forms(h.mT).abs()  # (B, P, width)
        return self.linear(distances.mean(1))

    @torch.no_grad()
    def folded(self):
        plain = copy.deepcopy(self)
        if self.norm is not None:
            plain.forms, plain.norm = folded_linear(self.norm, self.forms), None
        return plain

    def config(self) -> dict[str, int | bool]:
        width, channels = self.forms.weight.shape
        classes, normalized = self.linear.out_features, self.norm is not None
        return {"channels": channels, "classes": classes, "width": width, "normalized": normalized}

    def parts(self) -> dict[str, int]:
        return {
            "forms": parameter_count(self.norm, self.forms),
            "linear": parameter_count(self.linear),
        }

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        _, positions = shape
        forms = LinearMap("forms", self.forms.weight, copies=positions)
        return HeadMaps((forms,), LinearMap("linear", self.linear.weight, averaged=positions))


# %% [markdown]
# ## Try it
#
# Defining the class was enough to register it: `build` knows it by its kind. Here it stands next to
# a product head and the heads that product heads are compared with, none of which is much larger
# but the flat linear layer. All are trained by the recipe of product heads: together with the
# backbone, and taught by the uncut network.

# %%
data, model = digits(), digits_cnn()
train_classifier(model, data.train, epochs=EPOCHS, batch_size=64, learning_rate=0.1, progress=None)
latents = collect(model, data.train, "relu2", progress=None)
mine, facts = build(latents, head="hyperplanes", width=180, progress=None)
net, _ = build(latents, head="products", parameters=8_000, progress=None)
others = baselines(latents, "products", ProductsOptions(parameters=8_000))
print(facts)

# %%
training = {**HEADS["products"].training_defaults, "epochs": EPOCHS, "batch_size": 64}
for name, network in {"hyperplanes": mine, "product head": net, **others}.items():
    fine_tune(network, data.train, teacher=model, progress=None, **training)
    size = sum(network.head.folded().parts().values())
    print(f"{name:17s} {size:7,d} in the head {evaluate(network, data.test).accuracy:8.2%}")

# %% [markdown]
# This is one seed on a small test set, so do not read too much into the order.
#
# ## Save it
#
# Saving and loading work without further code, as long as the class has been imported.

# %%
mine.save_pretrained("out/hyperplanes")
again = CutNetwork.from_pretrained("out/hyperplanes")
example = data.test.example(3)
print(torch.equal(again(example), mine.eval()(example)), type(again.head).__name__)

# %% [markdown]
# ## Test it
#
# `HeadContract` contains the tests that the built-in heads pass: folding does not change the
# outputs, a saved head is equal after loading, gradients reach everything that is trained, and no
# output changes by more than `maps` allows. Put this into a test file and run pytest:
#
# ```python
# from vinets.testing.heads import HeadContract
#
#
# class TestHyperplanes(HeadContract):
#     def make(self):
#         return Hyperplanes(channels=6, classes=3, width=8)
# ```
#
# To make the head available on the command line, as `vinets build --head hyperplanes --width 180`,
# put it into your own package, and declare its module as an entry point in the group
# `vinets.plugins`.
