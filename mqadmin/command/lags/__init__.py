"""``mqadmin consumer lag``: once, repeated, or until it is small."""
