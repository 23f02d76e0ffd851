"""``mqadmin check``: a module per check; ``noun`` declares thresholds, statuses and output."""
