"""Comparison of stores: the logs of a master and its slave."""
