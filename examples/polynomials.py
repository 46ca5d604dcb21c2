# %% [markdown]
# # Read the polynomials of a manifold
#
# A circle satisfies an equation. So do a sphere, a figure eight, and, approximately, most clouds
# of points that lie near a curved surface. This tutorial finds such equations, reads them, and
# uses them to tell classes apart.

# %%
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from sklearn.datasets import make_circles
from sklearn.model_selection import train_test_split

from vinets import ABM, OAVI, VanishingIdealClassifier, fit_class_ideals
from vinets.data.synthetic import circle, sphere
from vinets.ideals.plot import plot_class_values, plot_zero_sets, values_by_class

pictures = Path("out/polynomials")
pictures.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Exact points give exact equations
#
# With `psi=0`, you get generators of the *vanishing ideal*: polynomials that are zero on every
# point, up to rounding. `variable_order="descending"` prints them as a textbook would.

# %%
exact = OAVI(psi=0, oracle="exact", max_degree=2, variable_order="descending")
print(exact.fit(circle(50, noise=0)).generators_)
print(exact.fit(sphere(100, noise=0)).generators_)

# %% [markdown]
# ## Noise needs a tolerance
#
# Measured points satisfy no equation exactly. `psi` is the tolerance: the largest *mean square*
# that a generator may have on the points. About ten times the square of the noise level is a good
# start. Here the noise is 0.02, so we take 0.005.

# %%
points = circle(300, noise=0.02, seed=0)
model = ABM(psi=0.005, max_degree=2, normalization="leading").fit(points)
print(model.generators_)
print("exponents of the terms that do not vanish:", model.order_ideal_.tolist())
print("mean squares:", model.mean_squares_)

# %% [markdown]
# The algorithm goes through the terms by degree. For each term, it checks whether some linear
# combination with the earlier terms is nearly zero on the points. If so, that combination becomes
# a *generator*; if not, the term joins the *order ideal*. With a much smaller `psi`, nothing of low
# degree vanishes any more, and the polynomials bend to follow the noise:

# %%
figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for ax, psi, degree in zip(axes, (5e-3, 1e-6), (2, 8), strict=True):
    fitted = ABM(psi=psi, max_degree=degree, normalization="leading").fit(points)
    first = range(min(3, len(fitted.generators_)))
    plot_zero_sets(fitted.generators_, ax, index=list(first), points=points)
    ax.set_title(f"psi = {psi:g}: generators of degree {fitted.generators_.degrees.min()}")
figure.savefig(pictures / "tolerance.png")

# %% [markdown]
# To see whether generators describe the underlying set or only the sample, evaluate them on
# points that they were not fitted to. With `n_samples`, a part of the points is held out:

# %%
for psi in (5e-3, 1e-6):
    fitted = ABM(psi=psi, max_degree=8, n_samples=60, random_state=0).fit(points)
    held_out = np.max(fitted.report_.held_out)
    inside = fitted.mean_squares_.max()
    print(f"psi = {psi:g}: mean squares up to {inside:.1e}, held out {held_out:.1e}")

# %% [markdown]
# With the small tolerance, the polynomials are much larger on points they have not seen: they
# describe the sample, not the circle.
#
# ## One ideal per class
#
# Take two noisy circles, one inside the other, as two classes, and fit one ideal to each. The
# generators of a class are small on its own points and larger on the others: the diagonal of the
# left figure is dark.

# %%
rings, label = make_circles(600, factor=0.5, noise=0.04, random_state=0)
rings = rings / np.abs(rings).max()
train, test, train_label, test_label = train_test_split(rings, label, random_state=0)
ideals = fit_class_ideals(train, train_label, ABM(psi=0.01, max_degree=2))
for name, ideal in ideals:
    print(f"class {name}: {ideal.generators_}")

figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
plot_class_values(values_by_class(ideals, test, test_label), ["outer", "inner"], axes[0])
plot_zero_sets(ideals[0].generators_, axes[1], points=test)
axes[1].set_title("zero set of the outer class")
figure.savefig(pictures / "classes.png")

# %% [markdown]
# The absolute values of the generators are therefore features on which a linear classifier can
# separate the classes. `VanishingIdealClassifier` does just that, and so does a VI-Net in the
# latent space of a network.

# %%
classifier = VanishingIdealClassifier(ABM(psi=0.01, max_degree=2)).fit(train, train_label)
print(f"accuracy on new points: {classifier.score(test, test_label):.2%}")

# %% [markdown]
# ## Use them elsewhere
#
# Polynomials can be evaluated, differentiated, saved as safetensors, and converted to SymPy
# (`to_sympy()`, which needs the extra `symbolic`).

# %%
generators = model.generators_
print(generators.evaluate(np.array([[0.9, 0.0], [0.0, 0.0]])))
generators.save(pictures / "circle.safetensors")
