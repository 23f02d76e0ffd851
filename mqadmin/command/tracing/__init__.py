"""Verbs of ``mqadmin msg`` about the fate of a message: track, trace."""
