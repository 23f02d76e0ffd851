"""``mqadmin bench``: produce, consume, roundtrip."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from mqadmin.command.bulk.client_log import client_warnings
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import traffic
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO, PARTLY, UNREACHABLE
from mqadmin.command.framework.common_options import Batch, Rate
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import (
    byte_size,
    count,
    duration_ms,
    positive_int32,
    topic_name,
)
from mqadmin.output.bars import bars, course
from mqadmin.output.progress import Progress
from mqadmin.output.stdio import stdout_is_terminal, write_out
from mqadmin.output.view import View
from mqadmin.traffic.options import BenchOptions

if TYPE_CHECKING:
    from mqadmin.traffic.bench.result import BenchResult, Meter
    from mqadmin.traffic.bench.runs import Bench
    from mqadmin.traffic.library import TrafficLibrary

NOUN = Noun(
    "bench",
    """Measure rates and latencies of a cluster.

    Each command drives the Python client of this project against any broker, so a result is that
    of broker, network and client together. The warm-up is not counted. Percentiles come from a
    histogram whose buckets are at most 1.6 % wide.
    """,
)

BENCH_PRODUCE = View("bench.produce", single=True)
BENCH_CONSUME = View("bench.consume", single=True)
BENCH_ROUNDTRIP = View("bench.roundtrip", single=True)

Topic = Annotated[str, Argument("TOPIC", help="The topic.", parse=topic_name, complete="topic")]
Duration = Annotated[
    int | None,
    Option("--duration", "--for", metavar="DUR", help="Measured time.", parse=duration_ms),
]
Count = Annotated[
    int | None,
    Option("--count", "--limit", metavar="N", help="Stop after N messages.", parse=count),
]
WarmUp = Annotated[
    int,
    Option(
        "--warm-up",
        metavar="DUR",
        help="Time before the measurement.",
        parse=duration_ms,
        shown="1s",
    ),
]
BodySize = Annotated[
    int,
    Option("--body-size", metavar="BYTES", help="Bytes of a body (1k, 1m).", parse=byte_size),
]
InFlight = Annotated[
    int, Option("--in-flight", "-c", metavar="N", help="Sends at the same time.", parse=count)
]
Create = Annotated[bool, Option("--create", help="Create the topic if it does not exist.")]
Queues = Annotated[
    int,
    Option("--queues", metavar="N", help="Queues per broker of --create.", parse=positive_int32),
]
Group = Annotated[
    str | None,
    Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Consumer group; default: one that is deleted afterwards.",
        complete="group",
    ),
]
Plot = Annotated[
    bool | None,
    Option("--plot/--no-plot", help="Plot rate and latencies; default: on a terminal."),
]

DEFAULT_DURATION_MS = 10_000


@NOUN.verb(
    "produce",
    view=BENCH_PRODUCE,
    changes=True,
    examples=[
        "mqadmin bench produce load --create --duration 30s",
        "mqadmin bench produce load --in-flight 1 --body-size 100",
        "mqadmin bench produce load --rate 1000/s --count 60000 -o json",
    ],
)
def produce(
    session: Session,
    topic: Topic,
    duration: Duration = None,
    number: Count = None,
    warm_up: WarmUp = 1_000,
    body_size: BodySize = 1_024,
    in_flight: InFlight = 32,
    batch: Batch = 1,
    rate: Rate = None,
    create: Create = False,
    queues: Queues = 8,
    plot: Plot = None,
) -> None:
    """Send random bodies and measure rate and latency of the responses.

    It ends after --duration (10 s if neither is given) or --count messages; Ctrl-C ends it early
    and prints the result so far (status 130). The messages have the tag bench and stay in the
    topic. --timeout bounds one send.
    """
    _check_plot(session, plot)
    options = BenchOptions(
        topic=topic,
        body_size=body_size,
        in_flight=in_flight,
        batch=batch,
        rate=rate,
        duration_ms=_duration(duration, number),
        count=number,
        warm_up_ms=warm_up,
        timeout_ms=session.settings.timeout_ms,
    )
    if _planned(session, topic, f"send {_amount(options)} to topic {topic}"):
        return
    library = _prepared(session, topic, create, queues)
    result = _measured(session, library, options, lambda bench: bench.produce())
    _show(session, BENCH_PRODUCE, result, plot)


@NOUN.verb(
    "consume",
    view=BENCH_CONSUME,
    examples=["mqadmin bench consume load", "mqadmin bench consume load --count 100000 -o json"],
)
def consume(
    session: Session,
    topic: Topic,
    duration: Duration = None,
    number: Count = None,
    warm_up: Annotated[
        int,
        Option(
            "--warm-up",
            metavar="DUR",
            help="Time before the measurement.",
            parse=duration_ms,
            shown="0s",
        ),
    ] = 0,
    idle: Annotated[
        int,
        Option(
            "--idle",
            metavar="DUR",
            help="Stop when no message arrived for this time.",
            parse=duration_ms,
            shown="3s",
        ),
    ] = 3_000,
    group: Group = None,
    plot: Plot = None,
) -> None:
    """Consume a topic from its first message and measure the rate.

    A new group starts at the earliest message and is deleted afterwards, once the brokers have
    answered its last pulls (Java: up to 6 s later); --group continues at its committed offsets
    and commits. The time runs from the first to the last message. The
    latency is the age of a message when it arrives, by the clocks of both machines: it shows the
    delay of new messages, and the backlog of old ones. It ends after --duration, --count, or
    --idle without a message.
    """
    _check_plot(session, plot)
    options = BenchOptions(
        topic=topic,
        duration_ms=duration,
        count=number,
        warm_up_ms=warm_up,
        idle_ms=idle,
        timeout_ms=session.settings.timeout_ms,
    )
    library = _prepared(session, topic, False, 1)
    name = group or library.temporary_group()
    result = _measured(
        session,
        library,
        options,
        lambda bench: bench.consume(name, temporary=group is None),
        temporary=name if group is None else None,
    )
    _show(session, BENCH_CONSUME, result, plot)


@NOUN.verb(
    "roundtrip",
    view=BENCH_ROUNDTRIP,
    changes=True,
    examples=[
        "mqadmin bench roundtrip load --create --rate 100/s",
        "mqadmin bench roundtrip load --in-flight 1 --count 1000 -o json",
    ],
)
def roundtrip(
    session: Session,
    topic: Topic,
    duration: Duration = None,
    number: Count = None,
    warm_up: WarmUp = 1_000,
    body_size: BodySize = 1_024,
    in_flight: InFlight = 8,
    rate: Rate = None,
    group: Group = None,
    create: Create = False,
    queues: Queues = 8,
    plot: Plot = None,
) -> None:
    """Send messages and measure the time until the own consumer has them.

    Producer and consumer run in this process, so one clock measures both. Messages that do not
    arrive within --timeout after the last send are counted as lost; the status is then 5.
    """
    _check_plot(session, plot)
    options = BenchOptions(
        topic=topic,
        body_size=body_size,
        in_flight=in_flight,
        rate=rate,
        duration_ms=_duration(duration, number),
        count=number,
        warm_up_ms=warm_up,
        timeout_ms=session.settings.timeout_ms,
    )
    if _planned(session, topic, f"send {_amount(options)} to topic {topic} and consume them"):
        return
    library = _prepared(session, topic, create, queues)
    name = group or library.temporary_group()
    result = _measured(
        session,
        library,
        options,
        lambda bench: bench.roundtrip(name, temporary=group is None),
        temporary=name if group is None else None,
    )
    _show(session, BENCH_ROUNDTRIP, result, plot)


def _duration(duration: int | None, number: int | None) -> int | None:
    return DEFAULT_DURATION_MS if duration is None and number is None else duration


def _amount(options: BenchOptions) -> str:
    size = f"of {options.body_size} bytes"
    if options.count is not None:
        return f"{options.count} messages {size}"
    return f"messages {size} for {(options.duration_ms or 0) / 1000:g} s"


def _planned(session: Session, topic: str, action: str) -> bool:
    """Announce a dry run; False if this is none."""
    if not session.dry_run:
        return False
    session.announce(())
    session.note(f"would {action}")
    session.end_dry_run()
    return True


def _check_plot(session: Session, plot: bool | None) -> None:
    if plot and not session.is_table:
        raise UsageFault("--plot applies to tables only", f"omit --plot or -o {session.form}")


def _prepared(session: Session, topic: str, create: bool, queues: int) -> "TrafficLibrary":
    """Return the library; the topic exists then."""
    session.guard_change()
    library = traffic(session.settings)
    if create:
        library.create_topic(session.admin, topic, queues)
    else:
        session.admin.routes.get(topic)
    return library


def _measured(
    session: Session,
    library: "TrafficLibrary",
    options: BenchOptions,
    run: "Callable[[Bench], BenchResult]",
    *,
    temporary: str | None = None,
) -> "BenchResult":
    """Run a measurement; ``temporary`` is a group that is deleted afterwards."""
    with client_warnings(session), library.stop_signal() as stop, Progress() as progress:

        def show(meter: "Meter") -> None:
            measured_ms = max(0.0, meter.elapsed_ms)
            rate = meter.messages / (measured_ms / 1000) if measured_ms else 0.0
            text = f"{meter.messages} messages, {rate:.0f}/s"
            if meter.failed:
                text += f", {meter.failed} failed"
            done, total = measured_ms, float(options.duration_ms or 0)
            if options.count is not None:
                done, total = float(meter.messages), float(options.count)
            progress.show_part(text, done, total)

        try:
            result = run(library.bench(options, stop, show))
        finally:
            if temporary is not None:
                session.admin.renew()
                library.delete_group(session.admin, temporary)
        if stop.requested:
            session.status = 128 + stop.number
    return result


def _show(session: Session, view: View, result: "BenchResult", plot: bool | None) -> None:
    session.emit_one(view, result)
    if session.is_table and (stdout_is_terminal() if plot is None else plot):
        _plot(result)
    if session.status:
        return
    if not result.messages:
        session.status = UNREACHABLE if result.failed else NO
        if not result.failed:
            session.report(NO, "notFound", f"topic {result.topic}: no message was measured")
    elif result.failed or result.lost:
        session.status = PARTLY


def _plot(result: "BenchResult") -> None:
    if result.per_second:
        most = max(result.per_second)
        whole_seconds = result.per_second[:-1] or result.per_second
        write_out(f"\nmessages per second, at most {most}\n{course(whole_seconds)}\n")
    if result.distribution:
        rows = [(f"<= {one.up_to_ms:g} ms", one.count) for one in result.distribution]
        write_out("\nlatency\n" + "".join(line + "\n" for line in bars(rows)), flush=True)
