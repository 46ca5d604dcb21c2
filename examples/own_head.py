# %% [markdown]
# # Write your own head
#
# A *head* maps the latents at a cut to logits. vinets comes with polynomial heads and with the
# baselines they are compared with. This tutorial adds a new one in about fifty lines. After that,
# it can be trained, saved, loaded and exported, and it takes part in every comparison.

# %%
import copy

import torch
from torch import Tensor, nn

from vinets import baselines, build, collect, evaluate, fine_tune, train_classifier
from vinets.data import digits
from vinets.heads import Head, HeadMaps, LinearMap
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
# name by which files and commands refer to it, and four methods:
#
# - `forward` maps latents to logits;
# - `config` returns the arguments of `__init__` as JSON values, so that the head can be saved;
# - `parts` returns how many values each part stores, for the tables;
# - `maps` returns its linear maps, from which the theory computes Lipschitz constants.
#
# `folded` and `beside` are optional. With `beside`, the head takes part as a baseline: it creates
# an untrained head of about the same size as the polynomials it is compared with.


# %%
class Hyperplanes(Head):
    kind, label = "hyperplanes", "hyperplanes"

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

    @classmethod
    def beside(cls, reference):
        each = reference.channels + 1 + reference.classes  # values that one form costs
        width = max(1, (reference.parameters - reference.classes) // each)
        return cls(reference.channels, reference.classes, width)


# %% [markdown]
# ## Try it
#
# Defining the class was enough to register it. `baselines` now includes it in the comparison with
# polynomials, with about as many parameters.

# %%
data, model = digits(), digits_cnn()
train_classifier(model, data.train, epochs=EPOCHS, batch_size=64, learning_rate=0.1, progress=None)
latents = collect(model, data.train, "relu2", progress=None)
net, _ = build(latents, placement="products", head_parameters=8_000, progress=None)
beside = baselines(net, latents)
print(", ".join(beside))

# %%
for name, network in {net.head.label: net, **beside}.items():
    fine_tune(network, data.train, epochs=EPOCHS, batch_size=64, views=2, progress=None)
    size = sum(network.head.folded().parts().values())
    print(f"{name:17s} {size:7,d} in the head {evaluate(network, data.test).accuracy:8.2%}")

# %% [markdown]
# This is one seed on a small test set, so do not read too much into the order.
#
# ## Save it
#
# Saving and loading work without further code, as long as the class has been imported.

# %%
mine = beside["hyperplanes"]
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
# To make the head available on the command line (`vinets build --head hyperplanes`), put it into
# your own package, and declare its module as an entry point in the group `vinets.plugins`.
