"""The heads of :mod:`head_fixtures`, by fixtures."""

from head_fixtures import heads, ideals, latents, points, shared  # noqa: F401
