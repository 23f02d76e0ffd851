"""Commands with a live screen: ``cluster top``, ``topic top``."""
