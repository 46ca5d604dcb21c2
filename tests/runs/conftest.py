"""The small network for digits of :mod:`digit_fixtures`, by fixtures."""

from digit_fixtures import latents, model, train  # noqa: F401
