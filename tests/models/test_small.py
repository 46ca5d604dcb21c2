from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn.functional import cross_entropy

from vinets import cut_points
from vinets.models import DigitsNet, digits_cnn


def accuracy_after_training(epochs: int) -> float:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    train, test, y, y_test = train_test_split(
        torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8),
        torch.tensor(labels),
        test_size=360,
        random_state=0,
    )
    net = digits_cnn()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            cross_entropy(net(train[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return (net.eval()(test).argmax(1) == y_test).double().mean().item()


def test_a_few_epochs_read_the_digits():
    assert accuracy_after_training(6) > 0.98


def test_there_are_places_to_cut_at_several_depths_and_most_parameters_lie_behind_the_middle():
    net = digits_cnn()
    points = {p.name: p for p in cut_points(net, torch.zeros(1, 1, 8, 8))}
    total = sum(p.numel() for p in net.parameters())
    assert 100_000 <= total <= 200_000
    assert points["relu2"].parameters < 0.12 * total
    assert points["relu2"].shape == (32, 8, 8) and points["relu4"].shape == (128, 4, 4)
    assert {p.removed for p in points.values()} == {0.75, 0.5, 0.25, 0.0}


def test_other_images_and_classes():
    net = digits_cnn(3, channels=2)
    assert isinstance(net, DigitsNet)
    for size in (2, 9, 28):
        assert net(torch.zeros(4, 2, size, size + 1)).shape == (4, 3)
