"""Flow control: how many requests of a family may wait, and for how long."""
