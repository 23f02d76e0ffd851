"""Java's reader of compaction logs: dumpCompactionLog."""

import mmap
from pathlib import Path

from broker.errors import CorruptRecordError, RemoteProtocolError
from broker.message.record import MAGIC_BLANK, decode_record
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.message.message_text import message_text


@java_command("dumpCompactionLog")
def dump_compaction_log(call: JavaCall) -> None:
    """Print each message of a file, opened read-only: of a compaction log, or of a CommitLog.

    Ends at the first zero or at the blank rest of a CommitLog file. A damaged record is an error;
    the messages before it are printed.

    **Source:** RocketMQ ``DumpCompactionLogCommand``, which maps the file for writing and ends at a
    damaged record without a message.
    """
    given = call.get("f")
    if given is None:
        raise call.fault("f", "is missing")
    try:
        with Path(given).open("rb") as file:
            if file.seek(0, 2) == 0:
                return
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
                memoryview(data) as view,
            ):
                _print(call, given, view)
    except OSError as error:
        raise call.fault("f", f"{given}: {error.strerror}") from error


def _print(call: JavaCall, path: str, data: memoryview) -> None:
    position = 0
    while position + 8 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        magic = int.from_bytes(data[position + 4 : position + 8], "big")
        if size == 0 or magic == MAGIC_BLANK:
            return
        try:
            message = decode_record(data, position, check_crc=True)
        except RemoteProtocolError as error:
            hint = "mqadmin store inspect reads past a damaged record"
            raise CorruptRecordError(path, position, error.message, hint) from error
        call.line(message_text(message, "null", None))
        position += message.total_size
