import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client import ClientConfig
from broker.errors import ClientError, ConfigError, RemotingError
from mqadmin.admin.session import AdminSession, ClusterAccess
from mqadmin.admin.topic import TopicAdmin
from mqadmin.traffic.options import Defaults, ProduceOptions, SenderConfig
from mqadmin.traffic.produce import LineFailure, ProduceLibrary, ProduceReport, ProduceRun, Source
from mqadmin.traffic.stop import StopSignal


def produced(
    client: ClientConfig, data: bytes | list[bytes], stop: StopSignal | None = None, **options: Any
) -> tuple[ProduceReport, list[LineFailure]]:
    failures: list[LineFailure] = []
    run = ProduceRun(
        client, ProduceOptions(**options), stop or StopSignal(), on_failure=failures.append
    )
    blocks = data if isinstance(data, list) else [data]
    sources = [Source(f"file{number}", io.BytesIO(one)) for number, one in enumerate(blocks)]
    return run.run(sources), failures


def stored(admin: AdminSession, topic: str) -> int:
    return sum(one.max_offset for one in TopicAdmin(admin).status(topic).items)


def numbered(count: int) -> bytes:
    return b"".join(b'{"body":"%d","keys":["k%d"]}\n' % (line, line % 7) for line in range(count))


@pytest.mark.parametrize("sender", [{}, {"batch": 16}, {"ordered": True}])
def test_every_line_is_stored_once(
    client: ClientConfig,
    admin: AdminSession,
    new_topic: Callable[..., str],
    sender: dict[str, Any],
) -> None:
    topic = new_topic("Produced" + "".join(sender))
    ordered_by = "keys" if sender.get("ordered") else None
    report, failures = produced(
        client,
        numbered(1_000),
        defaults=Defaults(topic=topic, ordered_by=ordered_by),
        sender=SenderConfig(**sender),
    )
    assert (report.sent, report.failed, report.unknown, report.resume_line) == (1000, 0, 0, None)
    assert not failures
    assert report.topics == {topic: 1000}
    assert stored(admin, topic) == 1000


def test_invalid_lines_are_reported_and_the_others_sent(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedPartly")
    data = b'{"body":"1"}\nbad\n{"body":""}\n{"tags":"x"}\n{"body":"5"}\n'
    report, failures = produced(client, data, defaults=Defaults(topic=topic))
    assert (report.sent, report.failed, report.resume_line) == (2, 3, None)
    assert [(one.line, one.kind) for one in failures] == [(2, "input"), (3, "input"), (4, "input")]
    assert report.failures == failures


def test_the_topic_of_a_line_is_used_without_an_option(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    first, second = new_topic("ProducedA"), new_topic("ProducedB")
    data = b'{"body":"1","topic":"%b"}\n{"body":"2","topic":"%b"}\n{"body":"3","topic":"None1"}\n'
    report, failures = produced(client, data % (first.encode(), second.encode()))
    assert report.topics == {first: 1, second: 1}
    assert [(one.line, one.kind) for one in failures] == [(3, "client")]


def test_sources_are_read_one_after_the_other(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedFiles")
    report, failures = produced(
        client,
        [numbered(10), b"bad\n" + numbered(5)],
        defaults=Defaults(topic=topic),
        from_line=6,
    )
    assert report.sent == 5 + 5
    assert [(one.source, one.line) for one in failures] == [("file1", 1)]


def test_too_many_errors_end_the_run_and_name_the_line_to_resume_at(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedErrors")
    data = numbered(3) + b"bad\n" * 10 + numbered(3)
    report, failures = produced(client, data, defaults=Defaults(topic=topic), max_errors=4)
    assert len(failures) == 4
    assert (report.sent, report.resume_source, report.resume_line) == (3, "file0", 4)


def test_a_rerun_from_the_named_line_sends_the_rest_once(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedResumed")
    data = numbered(500)
    stop = StopSignal()

    class Interrupted(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            block = super().read1(2_000)
            self.read_bytes = getattr(self, "read_bytes", 0) + len(block)
            if self.read_bytes > 6_000:
                stop.request()
            return block

    run = ProduceRun(client, ProduceOptions(defaults=Defaults(topic=topic)), stop)
    first = run.run([Source("file", Interrupted(data))])
    assert 0 < first.sent < 500
    assert first.resume_line == first.sent + 1
    second, _ = produced(client, data, defaults=Defaults(topic=topic), from_line=first.resume_line)
    assert first.sent + second.sent == 500
    assert stored(admin, topic) == 500


def test_a_dry_run_checks_every_line_and_sends_nothing(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedDry")
    report, failures = produced(
        client, numbered(5) + b"bad\n", defaults=Defaults(topic=topic), dry_run=True
    )
    assert (report.topics, report.sent, len(failures)) == ({topic: 5}, 0, 1)
    assert stored(admin, topic) == 0


def test_the_places_of_sent_messages_are_returned(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedResults")
    run = ProduceRun(client, ProduceOptions(defaults=Defaults(topic=topic)), StopSignal())
    found = [one for group in run.steps([Source("f", io.BytesIO(numbered(200)))]) for one in group]
    assert sorted(one.line for one in found) == list(range(1, 201))
    assert len({one.offset_msg_id for one in found}) == 200


def test_the_rate_is_kept(client: ClientConfig, new_topic: Callable[..., str]) -> None:
    topic = new_topic("ProducedSlowly")
    report, _ = produced(client, numbered(31), defaults=Defaults(topic=topic), rate=100)
    assert report.seconds >= 0.25


def test_nothing_is_sent_to_a_topic_that_does_not_exist(client: ClientConfig) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        produced(client, numbered(1), defaults=Defaults(topic="NoSuchTopic"))


def test_a_name_server_that_does_not_respond_is_an_error() -> None:
    with pytest.raises(RemotingError):
        produced(ClientConfig(namesrv="127.0.0.1:1"), numbered(1), defaults=Defaults(topic="T"))


def test_an_input_of_another_format_ends_the_run(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    with pytest.raises(ConfigError, match="not NDJSON"):
        produced(client, b'{"schema":"x"}\n', defaults=Defaults(topic=new_topic("ProducedForm")))


def test_more_than_a_message_may_have_is_refused_before_sending(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ProducedBig")
    data = b"x" * (4 * 1024 * 1024 + 1) + b"\nsmall\n"
    report, failures = produced(client, data, defaults=Defaults(topic=topic), format="lines")
    assert report.sent == 1
    assert "limit" in failures[0].message


def test_files_are_opened_in_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    library = ProduceLibrary(ClusterAccess(namesrv=("x:1",), timeout_ms=1))
    with open(tmp_path / "a", "rb") as stdin:
        paths = [str(tmp_path / "b"), "-"]
        found = [(one.name, one.stream.read1(9)) for one in library.sources(paths, stdin)]
    assert found == [(str(tmp_path / "b"), b"b"), ("stdin", b"a")]
