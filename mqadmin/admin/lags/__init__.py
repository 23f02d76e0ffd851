"""The lag of all consumer groups."""
