"""``mqadmin apply``, and ``--plan``."""
