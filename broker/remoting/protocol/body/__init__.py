"""Typed bodies: the JSON body of each command as typed values, one module per family.

``base`` contains the reader and writer of all bodies; the other modules mostly declare fields. A
body is a frozen record with Python field names; ``from_bytes`` and ``to_bytes`` convert it, and
``extra`` keeps undeclared fields at every depth. Java's non-standard JSON is preserved: maps keyed
by message queue have a JSON object as key, maps keyed by integers have unquoted numbers.

This module imports nothing; ``rpc`` references the classes by name.
"""
