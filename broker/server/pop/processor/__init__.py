"""Requests of POP consumption; ``table`` binds the handlers."""
