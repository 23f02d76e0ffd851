"""The commands on messages in bulk: ``msg produce``, ``msg consume``."""
