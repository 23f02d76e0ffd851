"""``mqadmin metadata``: export, diff, apply."""
