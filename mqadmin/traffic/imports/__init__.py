"""Sending the messages of a store or of an export to a cluster."""
