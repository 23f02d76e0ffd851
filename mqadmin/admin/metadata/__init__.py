"""The metadata of a cluster as a file: export, differences, apply."""
