"""``mqadmin broker promote`` and ``mqadmin broker demote``."""
