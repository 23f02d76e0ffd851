"""``mqadmin timer``."""
