"""Java's commands about users and access rules."""
