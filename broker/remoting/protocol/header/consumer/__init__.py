"""Headers about consumers: pull, pop, offsets, groups, progress."""
