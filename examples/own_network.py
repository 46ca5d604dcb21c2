# %% [markdown]
# # Compress your own network
#
# You have a PyTorch classifier and a `DataLoader`. This tutorial finds a smaller network that
# does the same job. Nothing about the network has to be registered or rewritten: any
# `torch.nn.Module` that maps a batch to logits will do.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vinets import compress, cut_points, evaluate
from vinets.data import DataSplit, as_source
from vinets.networks import CutNetwork
from vinets.report import markdown

torch.manual_seed(0)

# %% [markdown]
# ## Your network and your data
#
# Here is a small convolutional network with a residual connection, and the 8×8 digits of
# scikit-learn behind two data loaders. Replace both with your own.


# %%
class MyNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32))
        self.act = nn.ReLU()
        self.down = nn.Sequential(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.act(self.block(x) + x)
        return self.head(self.deep(self.down(x)))


images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
examples = TensorDataset(images, torch.tensor(labels))
train_part, test_part = torch.utils.data.random_split(examples, [0.7, 0.3])
train_loader = DataLoader(train_part, batch_size=64, shuffle=True)
test_loader = DataLoader(test_part, batch_size=256)

# %% [markdown]
# Train it in your usual way. vinets takes the trained network as it is, and never changes it.

# %%
model = MyNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(10):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
model.eval()
print(f"accuracy of the uncut network: {evaluate(model, test_loader).accuracy:.2%}")

# %% [markdown]
# ## Where can it be cut?
#
# `cut_points` lists the possible cuts, with the number of parameters that each one keeps. You do
# not have to choose: the search below tries several. [How to choose a cut](../cuts.md) explains
# what makes a good one.

# %%
for point in cut_points(model, images[:1])[:6]:
    print(f"{point.name:12s} {point.shape!s:18s} {point.parameters:8,d} parameters kept")

# %% [markdown]
# ## Compress it
#
# `compress` tries cuts and heads in rounds and keeps the smallest network within the budget:
# here, one that loses at most one percentage point. `as_source` wraps a loader: it reads the
# loader's data set, with the same `collate_fn` and workers.
#
# To keep this tutorial short, we limit cuts and epochs. For real work, leave out `cuts=` and
# `epochs=`.

# %%
data = DataSplit("my images", as_source(train_loader), as_source(test_loader))
found = compress(model, data, budget="drop=1", cuts=2, epochs=18, int8=False, progress=None)
print(found)

# %%
print(markdown(found.table))

# %% [markdown]
# The verdict tells you what was gained, what was lost, and whether polynomials were worth it, those
# of a VI-Net or a product head: if a smaller plain head does as well, you get the plain head. Half
# of the test examples were used for choosing; the table shows the accuracy on the other half.
#
# ## Use it
#
# The result is an ordinary module. It is saved as JSON and safetensors, without any code, so you
# have to pass an instance of your class to load it.

# %%
found.network.save_pretrained("out/my-small-net")
small = CutNetwork.from_pretrained("out/my-small-net", backbone=MyNet())
print(small(images[:5]).argmax(1), labels[:5])

# %% [markdown]
# From a shell, the same folder works with `vinets evaluate`, `bench`, `export` and `predict`. If
# the class is in `net.py`, write `out/my-small-net@net.py:MyNet`.
