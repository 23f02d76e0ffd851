"""Errors of workers reach the driver with their type and fields."""

import json
import traceback
from typing import Any

import pytest
from pyspark.errors import PySparkException

from broker.errors import ConfigError, CorruptRecordError, DiskFullError, RemotingError, StoreError
from mqadmin.pipeline.failure import MARK, annotated_errors, cause_of
from tests.support.pipeline_store import MakeLog


class SparkError(Exception):
    """An error as Spark raises it: one long text."""


SparkError.__module__ = "pyspark.errors.exceptions.captured"


def from_worker(error: Exception) -> SparkError:
    """Return the error that Spark raises on the driver for an error of a worker."""
    try:
        with annotated_errors():
            raise error
    except Exception as raised:
        text = "".join(traceback.format_exception(raised))
    frames = "\tat org.apache.spark.executor.Executor.run(Executor.scala:1)\n" * 20
    return SparkError(f"[PYTHON_EXCEPTION] an exception was thrown:\n{text}\n{frames}")


def test_a_rocketmq_error_keeps_type_and_fields() -> None:
    back = cause_of(from_worker(StoreError("cannot read /a/b: gone", "look", path="/a/b")))
    assert isinstance(back, StoreError)
    assert (back.message, back.hint, back.path) == ("cannot read /a/b: gone", "look", "/a/b")
    back = cause_of(from_worker(ConfigError("no column 'x'", "available: y")))
    assert isinstance(back, ConfigError)
    assert (back.message, back.hint) == ("no column 'x'", "available: y")
    back = cause_of(from_worker(CorruptRecordError("/a/b", 7, "magic code 0")))
    assert isinstance(back, CorruptRecordError)
    assert (back.message, back.path) == ("/a/b at physical offset 7: magic code 0", "/a/b")
    assert (back.physical_offset, back.reason) == (7, "magic code 0")
    back = cause_of(from_worker(StoreError("gone", path="/a", physical_offset=9)), "traffic")
    assert (str(back.message), back.physical_offset) == ("job traffic: gone", 9)
    assert cause_of(back, "traffic") is back
    assert back.message == "job traffic: gone"


def test_other_errors_become_one_line() -> None:
    back = cause_of(from_worker(ValueError("odd value")))
    assert isinstance(back, RemotingError)
    assert back.message == "Spark: ValueError: odd value"
    assert "-v" in back.hint
    back = cause_of(SparkError("Job aborted.\n\tat scala.Predef"))
    assert str(back) == "Spark: Job aborted."
    masked = SparkError(
        "TypeError: the cause\n\nDuring handling of the above exception, another exception"
        " occurred:\nUnboundLocalError: a consequence"
    )
    assert str(cause_of(masked)) == "Spark: TypeError: the cause"
    java = SparkError(
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkException: Invalid master URL: x\n\tat org.apache.spark.util"
    )
    assert str(cause_of(java)) == "Spark: SparkException: Invalid master URL: x"


def test_the_root_cause_of_a_java_error_is_reported() -> None:
    error = SparkError("Error while instantiating 'SessionStateBuilder':")
    error._stackTrace = (  # type: ignore[attr-defined]
        "java.lang.IllegalArgumentException: Error while instantiating\n\tat x\n"
        "Caused by: java.lang.reflect.InvocationTargetException: no\n\tat y\n"
        "Caused by: org.apache.spark.SparkIllegalArgumentException: the value 'x' is not a number"
    )
    words = "Spark: SparkIllegalArgumentException: the value 'x' is not a number"
    assert str(cause_of(error)) == words


def test_errors_of_other_libraries_are_returned_unchanged() -> None:
    for error in (ValueError("x"), StoreError("y"), KeyboardInterrupt()):
        assert cause_of(error) is error


def test_a_full_disk_is_recognised_in_python_and_in_java_errors() -> None:
    for error in (
        OSError(28, "No space left on device", "/lake/x"),
        from_worker(OSError(28, "Error writing bytes. Detail: [errno 28] No space left on device")),
        SparkError("Task failed.\nCaused by: java.io.IOException: No space left on device\n\tat x"),
    ):
        back = cause_of(error, "export")
        assert isinstance(back, DiskFullError)
        assert back.message.startswith("job export: no space left on device")
        assert "--out" in back.hint


def test_an_invalid_note_is_ignored() -> None:
    for text in ("{", json.dumps({"kind": "x"}), "[]"):
        back = cause_of(SparkError(f"ValueError: odd\n{MARK}{text}\n"))
        assert isinstance(back, RemotingError)


def test_an_error_gets_one_note() -> None:
    error = StoreError("x")
    for _ in range(2):
        with pytest.raises(StoreError), annotated_errors():
            raise error
    assert len(error.__notes__) == 1


def test_an_error_of_a_worker_names_the_file(spark: Any, make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    for _ in range(40):
        log.put()
    frame = spark.read.format("rocketmq-store").load(str(log.root))
    assert frame.count() == 40
    log.file(4096).unlink()
    with pytest.raises(PySparkException, match="cannot read") as raised:
        frame.count()
    back = cause_of(raised.value)
    assert isinstance(back, StoreError)
    assert back.path == str(log.file(4096))
    assert back.physical_offset == 4096
