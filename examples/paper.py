# %% [markdown]
# # Repeat the paper
#
# The paper cuts a pretrained network at an inner layer, keeps the backbone frozen, finds
# polynomials that vanish on the latents of each class, and trains their coefficients together
# with a linear layer. This tutorial goes through its main experiment, accuracy against the share
# of layers removed, on a network small enough for a laptop. The last section has the commands
# that repeat all experiments: on digits within minutes, and for ResNet-18 on CIFAR-10 and
# ResNet-34 on CIFAR-100.

# %%
from pathlib import Path

import torch
from matplotlib import pyplot

from vinets import (
    TrainingOptions,
    baselines,
    build,
    collect,
    cut_points,
    evaluate,
    fine_tune,
    train_classifier,
)
from vinets.data import digits
from vinets.heads import VanishingOptions
from vinets.ideals.plot import plot_generators
from vinets.models import digits_cnn

torch.manual_seed(0)
EPOCHS = 12
pictures = Path("out/paper-tutorial")
pictures.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## A pretrained network
#
# The paper starts from networks that others have trained. The one used here has four convolutions
# and trains in seconds.

# %%
data, model = digits(), digits_cnn()
train_classifier(model, data.train, epochs=EPOCHS, batch_size=64, learning_rate=0.1, progress=None)
uncut = evaluate(model, data.test).accuracy
print(f"uncut: {uncut:.2%}")

# %% [markdown]
# ## One cut, step by step
#
# 1. `collect` runs training images through the network up to the cut and keeps the activations,
#    the *latents*.
# 2. `build` projects them onto principal components, scales these into [-1, 1], finds one ideal per
#    class with ABM, keeps the generators that are largest on other classes, and puts them behind
#    the cut. The report says how they vanish on the latents that they were found on.
# 3. `fine_tune` trains the coefficients and the linear layer. The backbone does not change.
#
# Options of the head are keywords: here degree 3, and coefficients of unit norm, which is the
# default of `ABM`. Without `normalization=`, `build` finds polynomials with leading coefficient 1.

# %%
latents = collect(model, data.train, "relu2", progress=None)
options = {"psi": 0.03, "max_degree": 3, "normalization": "unit", "components": 32, "keep": 16}
net, report = build(latents, progress=None, **options)
print(report)

# %% [markdown]
# Each column of this figure is a generator, each row a class of training images. Each block of
# columns nearly vanishes on one class, which is what makes the absolute values useful features.
# The figure shows the polynomials as they were found. Training changes their coefficients; [what
# is left](../networks.md#do-the-polynomials-still-vanish) was measured.

# %%
figure, axes = pyplot.subplots(figsize=(9, 3.6), layout="constrained")
shown = report.pictures
plot_generators(shown.means, shown.owners, data.train.classes, ax=axes)
axes.set_title("mean size of each generator on each class")
figure.savefig(pictures / "generators.png")

# %% [markdown]
# ## Accuracy against the share of layers removed
#
# Now repeat this for four cuts. The paper compares with a linear head and with random monomials.
# `baselines` builds these heads for the same latents, and all of them are trained in the same way.

# %%
recipe = TrainingOptions(epochs=EPOCHS, batch_size=64, views=2)
HEADS = ("linear, flat", "linear, pooled", "random monomials")
removed, accuracy = [], {"VI-Net": [], **{name: [] for name in HEADS}}
points = {point.name: point for point in cut_points(model, data.train.example())}
for cut in ("relu1", "relu2", "pool", "relu3"):
    latents = collect(model, data.train, cut, progress=None)
    net, _ = build(latents, progress=None, **options)
    others = baselines(latents, "vanishing", VanishingOptions(**options))
    removed.append(100 * points[cut].removed)
    for name, network in {"VI-Net": net, **{name: others[name] for name in HEADS}}.items():
        fine_tune(network, data.train, recipe=recipe, progress=None)
        accuracy[name].append(100 * evaluate(network, data.test).accuracy)
        print(f"{cut:6s} {name:17s} {accuracy[name][-1]:6.2f} %")

# %%
figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
for name, values in accuracy.items():
    axes.plot(removed, values, "o-", label=name)
axes.axhline(100 * uncut, color="grey", linestyle=":", label="uncut")
axes.set(xlabel="convolutions removed, %", ylabel="test accuracy, %", title="digits, one seed")
axes.legend()
figure.savefig(pictures / "truncation.png")

# %% [markdown]
# This is one seed with 449 test images. One image is worth 0.22 points, so differences of a few
# tenths mean nothing. Means over several splits tell you more: the command for digits makes them.
#
# ## The real experiments
#
# Every table and figure of the paper has a name. With `--on digits` no files are needed. Otherwise
# `data` contains the folders `cifar10` and `cifar100`, and `weights` the two [pretrained
# networks](../pretrained.md#the-uncut-networks):
#
# ```
# vinets reproduce all --on digits --out out/demo
# vinets reproduce fig-truncation --data data --weights weights --out out/quick --quick
# vinets reproduce table-efficiency --data data --weights weights --out out/paper
# vinets reproduce all --data data --weights weights --out out/paper --jobs 8
# vinets report out/paper
# ```
#
# If a command is interrupted, run it again and it continues where it stopped. [The paper,
# repeated](../reproduction.md) lists the names, and goes through the paper's claims one by one.
