"""Verbs that count, copy, trim or import a whole store directory."""
