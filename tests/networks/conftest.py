"""The network and the latents of :mod:`digit_fixtures`, by fixtures."""

from digit_fixtures import latents, model, train  # noqa: F401
