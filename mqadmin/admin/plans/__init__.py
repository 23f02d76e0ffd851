"""Plans of changes as files: written by one command, applied by another."""
