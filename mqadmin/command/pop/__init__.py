"""Verbs about POP consumption."""
