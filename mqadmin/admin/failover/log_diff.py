"""Compare the CommitLogs of two running brokers by checksums, in a bounded number of reads.

::

    last part of the common range ─ equal → sample parts spread over the range
                                  └ different → bisect to the first different byte

Two logs that were written by different masters differ in every record after the divergence, so
the bisection finds it as long as no part of the range was damaged on one side only: bytes that
were not read are not compared; ``compared_bytes`` counts the others. Java brokers have no request
for checksums: only the ends of their logs are compared.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from broker.common.java import parse_number
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.failover.roles import RoleClient
from mqadmin.admin.session import AdminSession

PART_BYTES: Final = 64 * 1024
LAST_BYTES: Final = 1 << 20
MAX_SAMPLES: Final = 64


class LogDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the logs of two brokers differ; offsets are physical offsets.

    ``verdict``: "equal"; "shorter", one log is the beginning of the other (it lacks
    ``missing_bytes``); "different" from ``first_difference`` on; "disjoint", no offset is in both;
    "unknown", only the ends could be compared (a Java broker). ``compared_bytes`` of the common
    range were read on both sides, in ``reads`` requests each.
    """

    verdict: Literal["equal", "shorter", "different", "disjoint", "unknown"]
    address_a: str
    address_b: str
    min_offset_a: int
    min_offset_b: int
    max_offset_a: int
    max_offset_b: int
    missing_bytes: int
    compared_bytes: int
    reads: int
    first_difference: int | None = None


class _Side:
    """One broker: bounds of its log and checksums."""

    def __init__(self, admin: AdminSession, address: str) -> None:
        self.address = address
        self._admin = admin
        table = admin.call(address, RequestCode.GET_BROKER_RUNTIME_INFO).value.table
        bounds = [
            parse_number(table.get(key, "")) for key in ("commitLogMinOffset", "commitLogMaxOffset")
        ]
        if bounds[0] is None or bounds[1] is None:
            raise ClientError(f"{address} does not report the bounds of its CommitLog")
        self.start, self.end = max(0, bounds[0]), bounds[1]

    def crc(self, physical_offset: int, size: int) -> int:
        """Checksum of exactly ``size`` bytes."""
        reply = self._admin.call(
            self.address,
            RequestCode.GET_LOG_CHECKSUM,
            physical_offset=physical_offset,
            size=size,
        )
        if reply.header.size != size:
            raise ClientError(
                f"{self.address}: {reply.header.size} of {size} bytes at {physical_offset}"
            )
        return int(reply.header.crc)


class _Comparison:
    """Two sides; counts the bytes read."""

    def __init__(self, sides: Sequence[_Side]) -> None:
        self._a, self._b = sides
        self.reads = 0
        self.compared = 0

    def equal(self, physical_offset: int, size: int) -> bool:
        """Whether ``size`` bytes are equal on both sides."""
        self.reads += 1
        self.compared += size
        return self._a.crc(physical_offset, size) == self._b.crc(physical_offset, size)

    def first_difference(self, start: int, part: int, size: int) -> int:
        """Bisect from ``start`` on to the first difference; the part of ``size`` bytes differs."""
        low, high = start, part
        while high - low >= PART_BYTES:
            middle = low + (high - low) // 2 // PART_BYTES * PART_BYTES
            if self.equal(middle, PART_BYTES):
                low = middle + PART_BYTES
            else:
                high = middle
        # Below low all is equal; the part at high differs.
        end = high + (size if high == part else PART_BYTES)
        while end - low > 1:
            middle = (low + end) // 2
            if self.equal(low, middle - low):
                low = middle
            else:
                end = middle
        return low


def diff_logs(admin: AdminSession, address_a: str, address_b: str) -> LogDiff:
    """Compare the logs of two running brokers up to the end of the shorter one."""
    client = RoleClient(admin)
    try:
        a, b = _Side(client.admin, address_a), _Side(client.admin, address_b)
        start, stop = max(a.start, b.start), min(a.end, b.end)
        comparison = _Comparison((a, b))
        verdict: Literal["equal", "shorter", "different", "disjoint", "unknown"]
        found: int | None = None
        if start >= stop and a.end != b.end:
            verdict = "disjoint"
        elif not (_has_checksums(client, address_a) and _has_checksums(client, address_b)):
            verdict = "unknown"
        else:
            found = _compare(comparison, start, stop)
            verdict = "different" if found is not None else "equal"
            if found is None and a.end != b.end:
                verdict = "shorter"
    finally:
        client.close()
    return LogDiff(
        verdict=verdict,
        address_a=address_a,
        address_b=address_b,
        min_offset_a=a.start,
        min_offset_b=b.start,
        max_offset_a=a.end,
        max_offset_b=b.end,
        missing_bytes=abs(a.end - b.end),
        compared_bytes=comparison.compared,
        reads=comparison.reads,
        first_difference=found,
    )


def _has_checksums(client: RoleClient, address: str) -> bool:
    """Whether a broker knows the request; any other error is one of the range."""
    try:
        client.admin.call(address, RequestCode.GET_LOG_CHECKSUM, physical_offset=0, size=1)
    except BrokerError as error:
        return error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return True


def _compare(comparison: _Comparison, start: int, stop: int) -> int | None:
    """Return the first different offset, None if no difference was found."""
    if start >= stop:
        return None
    last = max(start, stop - LAST_BYTES)
    for part in range(last, stop, PART_BYTES):
        size = min(PART_BYTES, stop - part)
        if not comparison.equal(part, size):
            return comparison.first_difference(start, part, size)
    step = max(PART_BYTES, (last - start) // MAX_SAMPLES)
    for part in range(start, last, step):
        size = min(PART_BYTES, last - part)
        if not comparison.equal(part, size):
            return comparison.first_difference(start, part, size)
    return None
