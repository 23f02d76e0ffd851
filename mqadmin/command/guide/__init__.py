"""Words of the command line besides nouns: help, man pages, completion, plug-ins.

They are few, need no cluster, and are parsed by the Typer layer alone.
"""
