"""Offsets from files and from other groups: the verbs of ``mqadmin offset`` that need them."""
