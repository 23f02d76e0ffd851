"""Typed headers: the ext fields of each command as typed values, one module per family.

A header is a frozen msgspec Struct with Python field names; ``fields`` converts between ext fields
(text to text) and headers. Unknown ext fields are not part of a header; they stay in
``RemotingCommand.ext_fields``.

Every request header has the optional fields of ``fields.RequestHeader``. This module imports
nothing; ``rpc`` references the classes by name.
"""
