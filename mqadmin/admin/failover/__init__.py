"""Failover: a slave becomes the master of its broker name.

::

    roles     GET_BROKER_ROLE of all brokers of a name
    plan      who becomes the master, in which epoch, what is missing, which steps
    switch    the steps; each may be repeated, so an interrupted switch is run again
"""
