"""The fast path of verification: whole batches of records compared as numpy columns.

Imported only if numpy is installed (extra ``fast``), and only by a command that verifies: importing
numpy takes as long as a whole short command.
"""
