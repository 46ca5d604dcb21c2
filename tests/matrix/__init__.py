"""The wheel with the oldest and the newest versions that are supported: ``make matrix``."""
