"""Typed bodies: what the JSON body of each command says, one module per family.

``base`` holds the one reader and writer; the other modules only declare fields. A body is a frozen
record in Python names; ``from_bytes`` and ``to_bytes`` are its wire form, ``extra`` keeps fields
nobody declared, at every depth. Where Java's form is no standard JSON it is kept: maps keyed by
message queue write the queue's object as key, maps keyed by integers write bare numbers.

Nothing is imported here; ``rpc`` names the classes.
"""
