"""``mqadmin dlq``: the choice of dead letters, and the verbs stats and export."""
