"""``mqadmin delay``."""
