"""Java's reader of compaction logs: dumpCompactionLog."""

import os
from pathlib import Path
from typing import BinaryIO

from broker.errors import CorruptRecordError, RemoteProtocolError
from broker.message.record import MAGIC_BLANK, decode_record
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.message.message_text import message_text

MAX_RECORD_BYTES = 256 * 1024 * 1024


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
            _print(call, given, file)
    except OSError as error:
        raise call.fault("f", f"{given}: {error.strerror}") from error


def _print(call: JavaCall, path: str, file: BinaryIO) -> None:
    end = os.fstat(file.fileno()).st_size
    position = 0
    while len(head := file.read(8)) == 8:
        size = int.from_bytes(head[:4], "big")
        if size == 0 or int.from_bytes(head[4:], "big") == MAGIC_BLANK:
            return
        # a wrong length must not read a whole file into memory
        data = head + file.read(max(0, min(size, end - position, MAX_RECORD_BYTES) - 8))
        try:
            message = decode_record(data, check_crc=True)
        except RemoteProtocolError as error:
            hint = "mqadmin store inspect reads past a damaged record"
            raise CorruptRecordError(path, position, error.message, hint) from error
        call.line(message_text(message, "null", None))
        position += message.total_size
