"""The command line without its commands: declarations, parsers, table of nouns, completion.

These modules import no library of a noun: help and completion load nothing else.
"""
