"""Commands that are killed, starved of room and doubled, and end as if nothing had happened."""
