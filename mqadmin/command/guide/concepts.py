"""``mqadmin help``: everyday tasks with their commands, and concepts in a page each."""

from typing import Final, NamedTuple

#: Task → command line, in the order of ``mqadmin help``.
TASKS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "Is the cluster healthy?": (
        ("find faults, with cause and fix", "mqadmin cluster doctor"),
        ("watch the load of brokers", "mqadmin cluster top"),
        ("alert from cron or Nagios", "mqadmin check broker; mqadmin check lag; …"),
        ("watch replication", "mqadmin broker ha"),
    ),
    "Why are messages not consumed?": (
        ("show lag per queue", "mqadmin consumer lag GROUP"),
        ("find faults of a group", "mqadmin consumer doctor GROUP"),
        ("show connected clients", "mqadmin consumer connections GROUP"),
        ("find the groups that consumed a message", "mqadmin msg track MSGID"),
    ),
    "Where is my message?": (
        ("find by key", "mqadmin msg query --topic TOPIC --key KEY"),
        ("find by time", "mqadmin msg query --topic TOPIC --since -1h"),
        ("show one with its body", "mqadmin msg show MSGID"),
        ("follow a topic", "mqadmin msg tail TOPIC"),
    ),
    "Consume again, or skip": (
        ("reset offsets of a group", "mqadmin offset reset GROUP --topic TOPIC --to -2h"),
        ("list dead letters", "mqadmin dlq list"),
        ("send dead letters again", "mqadmin dlq replay GROUP --to origin"),
    ),
    "Topics and groups": (
        ("create a topic", "mqadmin topic create TOPIC --queues 8"),
        ("show traffic of topics", "mqadmin topic top"),
        ("stop writes to a topic", "mqadmin topic perm TOPIC r"),
        ("create a group", "mqadmin group create GROUP"),
    ),
    "Files of a store, without a broker": (
        ("look into a store", "mqadmin store inspect DIR --summary"),
        ("verify a store", "mqadmin store verify DIR"),
        ("repair a copy", "mqadmin store repair DIR --out COPY"),
        ("find a message", "mqadmin store find DIR --key KEY"),
    ),
}


class Concept(NamedTuple):
    """One concept: a sentence, its text, and the commands that show or change it.

    Paragraphs of ``text`` are separated by empty lines.
    """

    summary: str
    text: str
    commands: tuple[str, ...]


CONCEPTS: Final[dict[str, Concept]] = {
    "offsets": Concept(
        "Places in queues, and how far a group has consumed.",
        """
        A message queue numbers its messages from 0: the queue offset. The min offset is the
        first message still stored, the max offset the next one to be written. A physical offset
        is a position in bytes in the CommitLog, shared by all topics of a broker.

        For each queue a consumer group commits the offset of the next message to consume.
        Brokers keep these consumer offsets in consumerOffset.json and write the file every 5 s
        (flushConsumerOffsetInterval): after a crash a few messages are consumed again. Groups
        in broadcasting mode keep them in a file of each client instead.

        Without a committed offset a group starts at the end of the queue, or where
        consumeFromWhere points to; a young queue whose first message is still in memory is
        consumed from 0.

        A reset changes committed offsets: backwards consumes again, forwards skips. Running
        clients apply it within seconds. Each reset writes a file that undoes it.
        """,
        (
            "mqadmin offset show GROUP",
            "mqadmin offset reset GROUP --topic TOPIC --to TIME --dry-run",
            "mqadmin topic status TOPIC",
        ),
    ),
    "retries": Concept(
        "Failed messages, delays between attempts, and dead letters.",
        """
        When a concurrent consumer fails or does not finish within consumeTimeout (15 min), the
        client sends the message back. The broker stores it in the retry topic %RETRY%GROUP and
        delivers it after a delay: 10 s at first, then along messageDelayLevel up to 2 h.

        After retryMaxTimes attempts (16 by default) the message goes to the dead-letter queue
        %DLQ%GROUP, where no consumer reads it. An orderly consumer retries in place, and holds
        up its queue meanwhile.

        A group whose clients have different subscriptions loses retries: its brokers keep one
        subscription per group. A DLQ expires with the other topics.
        """,
        (
            "mqadmin dlq list",
            "mqadmin dlq show GROUP",
            "mqadmin dlq replay GROUP --to origin --dry-run",
            "mqadmin group show GROUP",
            "mqadmin check dlq --warn 0",
        ),
    ),
    "lag": Concept(
        "Messages that a group has not consumed yet.",
        """
        The lag of a queue is its max offset minus the committed offset; the lag in seconds is
        the age of the first message not yet consumed. Messages in flight are pulled or popped
        but not committed, so a lag of some messages is normal under traffic.

        Lag grows when consumers are slower than producers (add clients up to the number of
        queues, or threads), when a queue has no owner, when one message blocks the offset of
        its queue, or when no client runs. With a tag filter the lag counts messages that the
        group does not want, too.

        A lag that is not known is shown as '-', never as 0. A lag longer than the retention
        loses messages.
        """,
        (
            "mqadmin consumer lag GROUP",
            "mqadmin consumer doctor GROUP",
            "mqadmin topic top --sort lag:desc",
            "mqadmin check lag GROUP --warn 10000,5m --crit 100000,30m",
        ),
    ),
    "retention": Concept(
        "How long messages are kept, and when files are deleted.",
        """
        A broker deletes whole CommitLog files (1 GiB) whose last change is older than
        fileReservedTime (72 h), at the hour deleteWhen (04), whether they were consumed or not.
        A topic has no retention by itself, because all topics share the CommitLog.

        From 75% use of the disk (diskMaxUsedSpaceRatio) files are deleted at any hour, from 85%
        on also younger ones, oldest first; from 90% on the broker refuses sends.

        ConsumeQueue and index files that only refer to deleted files are deleted next, and the
        min offsets of queues rise. A group below the min offset continues there.
        """,
        (
            "mqadmin check disk",
            "mqadmin broker config show BROKER",
            "mqadmin topic status TOPIC",
            "mqadmin cluster top --sort commitLogDiskRatio:desc",
        ),
    ),
    "durability": Concept(
        "The guarantees of a successful send.",
        """
        With flushDiskType=ASYNC_FLUSH (the default) SEND_OK means: in the page cache. A crash
        of the broker process loses nothing, a power cut the last 500 ms or so. With SYNC_FLUSH
        it means: on the disk.

        brokerRole=SYNC_MASTER waits for slaves (inSyncReplicas) before SEND_OK; ASYNC_MASTER
        does not, and a lost disk loses the gap of its slaves. FLUSH_DISK_TIMEOUT and
        FLUSH_SLAVE_TIMEOUT mean: stored, but not confirmed in time.

        A consumer gets each message at least once: it is delivered again when a commit or an
        acknowledgement is lost. Consumers must tolerate repeats, for example by message key.
        """,
        (
            "mqadmin broker config show BROKER",
            "mqadmin broker ha",
            "mqadmin check replication --warn 16MiB,10s",
            "mqadmin store verify DIR",
        ),
    ),
}
