"""Delayed messages of a store: timer wheel and timer log, delay levels, POP check points."""
