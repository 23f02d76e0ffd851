"""Failover: a slave becomes the master of its broker name.

::

    roles     GET_BROKER_ROLE of all brokers of a name
    plan      the next master, the epoch, the missing bytes, the steps
    switch    the steps; each may be repeated, so an interrupted switch is run again
"""
