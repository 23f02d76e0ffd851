"""Live screens; imports rich."""
