"""Role changes and log checksums: requests of this project, which no Java broker knows."""

from broker.remoting.protocol.header.fields import Int32, Int64, RequestHeader, ResponseHeader


class ChangeBrokerRoleRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CHANGE_BROKER_ROLE (20002).

    ``action``: ``fence`` votes in ``epoch`` for the broker at ``target`` and stops the writes of a
    master; ``synchronize`` copies the master's tables to a slave; ``promote`` makes this broker
    the master of ``epoch`` if its log ends at or after ``expected_offset`` (physical);
    ``demote`` makes it the slave ``broker_id`` of the master of ``epoch``.

    **Source:** none, a request of this project.
    """

    action: str
    epoch: Int64 = 0
    target: str = ""
    broker_id: Int32 = 0
    expected_offset: Int64 = 0


class GetLogChecksumRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_LOG_CHECKSUM (20003): ``size`` bytes of the CommitLog from ``physical_offset`` on.

    **Source:** none, a request of this project.
    """

    physical_offset: Int64
    size: Int32


class GetLogChecksumResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to GET_LOG_CHECKSUM: CRC-32 of ``size`` bytes; fewer at the end of the log.

    **Source:** none, a response of this project.
    """

    crc: Int64
    size: Int32
