"""The commands that measure a cluster."""
