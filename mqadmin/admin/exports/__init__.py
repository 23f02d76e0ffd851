"""Metadata, configurations and metrics of a cluster, in the form of the Java tool's files."""
