"""Backbones to start from."""

from vinets.models.resnet import ResNet, resnet18, resnet34

__all__ = ["ResNet", "resnet18", "resnet34"]
