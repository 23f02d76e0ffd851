"""Queues by number: send to one, read one by offset, without joining a group.

Both use the session's connections and deadline, and build their requests with the functions of
:mod:`broker.remoting.rpc`, as :mod:`broker.client` does.
"""
