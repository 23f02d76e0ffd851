"""The role of a broker and its change while the process runs: promote, demote, fencing.

::

    role_state      the role, its epoch and the promises, in config/brokerRole.json
    role_control    the decisions: fence, promote, demote; the fence of a returning master
    peer_check      the epochs of the other brokers of this name, asked before each registration
    relay           a broker that has just become a slave forwards requests to the new master
    switchable      the broker of the process: stops the parts of one role, starts those of the next
    processor       the requests GET_BROKER_ROLE, CHANGE_BROKER_ROLE, GET_LOG_CHECKSUM

A role change stops and starts all parts of the broker in the same process: every part is built for
one role, and a crash at any moment is the same as a restart. The file is written first.

RocketMQ has no counterpart without controller mode: there roles change by restarts with another
broker.conf.
"""
