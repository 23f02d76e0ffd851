"""Typed headers: the ext fields of each command as values, one module per family.

A header is a frozen msgspec Struct in Python names; ``fields`` turns ext fields (text to text)
into one and back. Unknown ext fields are not part of a header: they stay in
``RemotingCommand.ext_fields``.

Every request header carries the optional fields of ``fields.RequestHeader``; nothing is imported
here, ``rpc`` names the classes.
"""
