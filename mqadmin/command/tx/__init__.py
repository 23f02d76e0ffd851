"""``mqadmin tx``."""
