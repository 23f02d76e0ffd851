"""The text of the man pages that is not generated: explanations, limits, measurements.

Commands, options, settings, layouts and jobs come from their declarations (``scripts/_man.py``). A
paragraph ends at an empty line; ``- `` starts an item of a list. Figures were measured with
``scripts/bench`` and ``scripts/torture``; README.md repeats some of them.
"""

DAEMON_STATUSES = [
    ("0", "stopped in order; with -p or --check: the settings and the store can be used"),
    ("1", "another error"),
    ("2", "an option, a setting or a configuration file cannot be used"),
    ("3", "an address cannot be listened on"),
    ("4", "another broker uses the store"),
    ("7", "a stored file cannot be used"),
    ("130", "stopped at once by a second signal"),
]

EXIT_STATUSES = [
    ("0", "done"),
    ("1", "the answer is no: no results, a gate not met, files that differ"),
    ("2", "wrong usage, a path that does not exist; a change without --yes and without a terminal"),
    ("3", "unreachable, or out of time"),
    ("4", "refused: the peer answered with an error code, which the message names; a lock is held"),
    ("5", "partly done: some targets failed, or a limit that was not typed cut the result"),
    ("6", "not authenticated, or not permitted"),
    ("7", "a store file is damaged or unreadable"),
    ("8", "the state changed after the plan was made, or the read-back differs"),
    ("70", "a defect of the program itself"),
    ("130", "interrupted"),
]

PROSE = {
    "client": """
    The package broker.client produces to and consumes from RocketMQ 4.9 and 5.x over the remoting
    protocol. Each client exists twice: asynchronous for asyncio and uvloop (AsyncProducer), and
    blocking (Producer), which runs on an event loop in a thread of the process. After
    a fork the child makes new clients: a blocking client that was started before refuses
    calls there.

    A message counts as consumed after its listener has returned success; the committed offset is
    the first unfinished one, so that a crash delivers messages again and never loses one. Sends are
    repeated on other brokers within their timeout. Messages and bytes in flight are bounded.

    A push consumer with client_rebalance=False takes the queues that 5.x brokers assign, and pops
    instead of pulling while its group has the mode POP for the topic: the broker keeps the offsets,
    consumed messages are acknowledged, failed ones stay invisible for 10 s to 2 h by the number of
    deliveries. A running consumer follows a change of the mode. Orderly listeners are never popped;
    with context.auto_commit = False they commit by COMMIT and take back by ROLLBACK.

    Brokers that fail or answer slowly are avoided if send_latency_enable is set; print the
    attribute faults of a producer to see the table. Metrics for Prometheus are in
    broker.client.hooks.metrics, message trace is the class MessageTrace.
    """,
    "output": """
    Data goes to stdout, everything else to stderr. Tables are formatted for reading; if stdout is
    not a terminal, no cell is truncated and no column is dropped. A dash means that a value is
    absent.

    With -o json the result is one object with schema, items, truncated and errors, one item per
    line; a command about a single object prints that object with schema. -o ndjson prints one
    item per line without an envelope, as soon as it is available. Absent values are null, 64-bit
    integers are numbers, names are RocketMQ's. Each time is given in epoch milliseconds
    (storeTimestamp) and in RFC 3339, UTC (storeTime). -o schema prints the JSON schema of the
    output of a command.

    Errors are two lines on stderr, error: and hint:, or one JSON object with -o json and -o
    ndjson. A closed pipe is not an error.
    """,
    "change": """
    A command that changes something first makes a plan: the present and the planned value of each
    target. --dry-run prints the plan and exits. On a terminal the plan is shown and confirmation
    is requested; otherwise --yes is required, and without it nothing is changed and the status is
    2. After the change the result is read back and printed.
    """,
    "times": """
    Durations: 500ms, 10s, 5m, 2h, 7d. Times: RFC 3339, '2026-01-02 03:04' (local),
    yyyy-MM-dd#HH:mm:ss:SSS, now, -2h, and the epoch in seconds or milliseconds. The output names
    the zone in which a time was read.
    """,
    "mqbroker": """
    mqbroker stores messages and delivers them to consumers. It speaks RocketMQ's remoting
    protocol, so that RocketMQ clients of any language can use it, and it reads and writes
    RocketMQ's store files: a store directory can be moved between this broker and a Java broker
    while it is stopped.

    With --standalone a name server runs in the same process and no other program is needed.
    Without --listen the broker serves loopback only. SIGTERM stops it in order: requests in
    progress are answered, all data is flushed, the checkpoint is written and the abort file is
    removed; SIGINT and, without nohup, SIGHUP do the same. A second signal stops it at once.
    SIGQUIT (kill -3) writes the stacks of all threads to stderr, and the broker continues; ps -T
    shows the threads by name.

    Settings come from the command line, then from the file given with -c, then from the defaults;
    -p prints each setting with its origin. broker.conf(5) documents the keys.
    """,
    "mqnamesrv": """
    mqnamesrv keeps the routes of topics: brokers register every 30 seconds, and clients ask for
    the brokers that have the queues of a topic. Only its key-value entries are kept on disk.

    Settings come from the command line, then from the file given with -c (Java properties), then
    from the defaults; -p prints each setting with its origin, and secrets as ******.

    Access. There is no authentication: the address from which a peer connects determines which
    requests are answered. Loopback, the hosts in adminHosts and, with allowRemoteAdmin=true, every
    host may administer. Every host may read routes. Brokers of any host register without
    configuration: a registration, a heartbeat and an unregistration are accepted from the host
    whose address they name, and the broker id of a live broker is not given to another host.

    With clusterMembers set, only the hosts listed there may register, for any address. The setting
    is needed when brokers announce an address other than the one they connect from (NAT, a DNS
    name as brokerIP1), and when a slave has to take over from a hanging master before that master
    counts as silent (controller mode). These three settings are changed in the file only.
    """,
    "broker.conf": """
    broker.conf is a Java properties file: one key=value per line, # starts a comment, a backslash
    at the end of a line continues it. The file is UTF-8; comments may have any encoding. Keys are
    RocketMQ's, in camelCase. Keys that this broker does not read are kept and named once in a
    warning, so that the file of a Java broker can be used unchanged.

    A key marked (live) may be changed while the broker runs.

    Access. There is no authentication: the address from which a peer connects determines which
    requests are answered. Every host may send, consume and query. Loopback, the hosts in
    adminHosts and, with allowRemoteAdmin=true, every host may administer: create and delete topics
    and groups, change settings, reset offsets, ask for the running state of a consumer (307) and
    have it consume one message (309). These settings and secrets are changed in the file only.
    Where settings are shown, secrets (keys and values that name a password, secret, credential,
    token or access key) are printed as ******; other hosts see keys that this broker does not read
    without their values.

    POP. An acknowledgement is final when it was answered with success before the invisible time
    ended and the consumer offset after the message is in consumerOffset.json
    (flushConsumerOffsetInterval; a stop in order writes the file). From then on neither a stop nor
    kill -9 delivers the message again, nor with SYNC_FLUSH a power cut: no offset comes into the
    file before its check points, and acknowledgements merged into them, are flushed. Until then a
    crash delivers the queue again from the offset in the file, acknowledged messages too, as with
    a Java broker. With enablePopBufferMerge=false an acknowledgement is in the log when it is
    answered. With true it may be in memory only; then the offset waits until all messages of the
    check point are acknowledged or the check point is written (popCkStayBufferTime). An ordered
    pop has no check points: after kill -9 it resumes at the offset in the file. A message that
    was never acknowledged is delivered again in every case.
    """,
    "store": """
    A store directory contains all that a broker has stored. The CommitLog contains every message
    once, in order of arrival; ConsumeQueues and IndexFiles are derived from it and can be rebuilt.
    All integers are big-endian. Record files are named by the offset of their first byte in 20
    decimal digits, IndexFiles by the local time of their creation.
    """,
    "repair": """
    store verify reports every finding with place, cause and advice. store repair makes a plan from
    the findings and writes a complete copy, which is verified before success is reported. The
    original directory is not changed. Every intact record keeps its physical offset. Files that
    are not changed are hard-linked where no process writes to them. Damaged bytes are kept below
    damaged/. If repair is interrupted, the same command starts over.

    --in-place --yes exchanges the copy and the store and keeps the old directory next to the new
    one. repair refuses to run while a broker uses the store; all other commands can run with a
    broker. Losses are reported with file, physical offset and length, and counted by topic and
    queue.

    store recover reads messages out of anything that still contains records: a damaged store, one
    file of a lost+found directory. With --out it writes them into a new store.
    """,
    "limits": """
    store verify compares every body with its checksum, and every value that is stored twice with
    its second copy. It cannot detect changes of a value that is stored once and has no checksum:

    - In a record: flag, the bits of sysFlag for compression, tags and commit, bornTimestamp,
    bornHost, storeHost, reconsumeTimes, preparedTransactionOffset (except of committed
    messages), and properties other than TAGS, KEYS and UNIQ_KEY; storeTimestamp within the second
    that the index repeats, and for a message without a key as long as the times keep their order.
    A log written
    with enabledAppendPropCRC (5.x) has none of these gaps.

    - A body whose 31-bit CRC matches by chance, and an empty body, which has no checksum.

    - Values whose second copy is missing: keys without an IndexFile (expired,
    messageIndexEnable=false, the part that a Java broker leaves out after a crash), tags of
    delayed messages (their unit contains a time), records of deleted topics, units and entries of
    expired messages.

    - Missing files at the start of the log: expiry leaves the same state.

    - A log cut exactly after a record, if the broker was not stopped in order: a power loss leaves
    the same state. Also consistent changes of log, queues, index and checkpoint, such as an old
    snapshot.

    - Complete records at their right places past the end of a log that was truncated.

    - Values in config/ that are wrong but possible: consumer offsets within their queue,
    permissions, attributes, groups; a checkpoint that is too old, which only makes a recovery
    longer.

    - Slots of the timer wheel before lastReadTimeMs, which are delivered; recalls whose message is
    not in the timer queue any more.

    - Files that are not read: compaction/, timermetrics, filter bits of consumequeue_ext; bytes
    that no program reads: those after the blank record of a file, unused parts of headers.

    --fast leaves out bodies, --since and --topic leave out the rest of the store. Beside a running
    broker, data that is being written is not checked. The summary reports how much was checked.
    """,
    "pipeline": """
    A Java 17 or 21 of the system is used if one is installed, else the Java of the extra. Without
    --out the first table of a job is printed; --table selects another one. With --out all tables
    are written, as --format parquet, csv, json or orc; other formats such as delta need their jars
    (--conf spark.jars.packages=...). A file appears under its final name when it is complete,
    manifest.json last. After an interruption the same command resumes with the completed files. A
    second run into the same --out at the same time is refused.

    Damaged regions are skipped, counted and reported with status 5; every message outside of them
    is included. A path that does not exist is status 2, an unreadable one 7, Ctrl-C is 130. -v
    prints all messages of Spark.
    """,
    "sources": """
    With the extra installed, a notebook, spark-submit or SQL needs no registration: the formats
    rocketmq-store (messages), rocketmq-queue, rocketmq-index and rocketmq-offsets are found by
    any Spark session. Spark does not prune the columns of Python data sources: name the columns
    that are needed in the option columns.
    """,
    "cluster": """
    With --master the same command runs on a cluster. Workers need pyarrow, numpy and numba in
    their Python; this package is sent to them. Every worker must see the stores, and --out, under
    the same path. URLs such as s3a:// are refused, because workers map files into memory: mount
    the object storage.

    Tested: local[N]; a standalone master and worker on one machine whose Python contains nothing
    of this project, by command and by spark-submit; a killed virtual machine, a killed program, a
    stream over a live broker with restarts, new files and expiry; by hand, Spark Connect with a
    separate server (PYSPARK_PYTHON must name the Python that has the extra). Not tested: several
    machines, mounted object storage, YARN, Kubernetes, Delta and Iceberg.
    """,
    "pipeline-performance": """
    Measured with scripts/bench pipeline --body 1024, ratios within one run over 1 GiB on a quiet
    machine (2 vCPU). One thread is the scanner of store export without Spark.
    """,
    "pipeline-commands": """
    Whole commands, from prompt to prompt, bodies of 1 KiB:
    """,
    "break-even": """
    No break-even was found up to 4 GiB, and none is expected on one machine of two cores: both
    commands of a pair run at about the rate of the cores, and the start and stop of Spark cost 12
    to 15 s (9 s after mqadmin pipeline warmup). Use mqadmin-store(1) first; Spark is for joins,
    for many stores at once, and for clusters.
    """,
    "performance": """
    All figures are ratios within one run: to the Java broker, or to a limit of the
    machine. They were measured on one quiet machine with 2 vCPU AMD EPYC, 24 GiB, Python 3.11 with
    uvloop, and Java 17 with 2 GiB heap. scripts/bench repeats them.
    """,
    "ingest": """
    With the extra fast (pip install 'mqadmin[fast]'), a broker serves ordinary sends with compiled
    loops: single messages (10 and 310) and batches of up to 64 KiB (320) to existing topics. The
    sends that all connections deliver in one iteration of the event loop are served together, if
    there are at least twenty-four; fewer take the plain path where they arrive. Other frames take
    the plain path, one by one and in their order: delayed, transactional and sent-back messages,
    WAIT=false, messages for light message queues, text outside ASCII in header or properties, and
    with metricsExporterType messages with a sharding key, which metrics count by their type. After
    three such frames in a row the rest of a connection's read takes it, too. Both paths leave the
    same bytes. Slaves and brokers with minInSyncReplicas above 1 use the plain path only.
    vectorizedIngestEnable=false turns it off; the environment variable MQ_INGEST decides instead of
    the setting: plain never loads the loops, fast loads them at the start and offers every read to
    them.

    The loops are loaded after 10,000 such sends within ten seconds, which takes about a second of
    processor time and 130 MiB; a broker that receives fewer loads nothing. The first time a child
    process compiles them at low priority, for about twenty seconds of processor time; the broker
    serves on the plain path meanwhile. The machine code is kept in mqadmin/machine-code below
    XDG_CACHE_HOME or ~/.cache, for four versions at most. Since loading runs it, the folder is used
    only if it and everything in it belongs to the user of the broker, and neither it nor a folder
    above it can be written by other users; else, and on a read-only file system, the code is
    compiled in a temporary folder at each start that needs it. A file whose checksum is wrong is
    removed, and its loop compiled again. The child also compiles the loops that read the log after
    a power cut. Until then such a start reads up to 4 GiB without them. The first call of mqadmin
    store commands that use loops compiles them, which takes six seconds. Without a usable folder
    each of these processes compiles.

    Without the loops, a start that reads 64 MiB or more of the log starts one child process for
    each further processor, at most three, with 17 MiB each. They read the log ahead, and end before
    the broker serves. taskset limits their number.

    The runtime information of the broker has vectorizedIngestState (off, waiting, loading, active,
    unavailable), the number of messages and of calls that took this path since the start
    (vectorizedIngestMessages, vectorizedIngestReads) and its share of all messages stored since the
    start (vectorizedIngestShare, 0 to 1). With metricsExporterType=PROM, the counters
    rocketmq_vectorized_ingest_messages_total and rocketmq_plain_ingest_messages_total have the
    messages stored on each path.
    """,
    "many-queues": """
    A ConsumeQueue file is mapped when it is used, and at most an eighth of the limit of open files
    (ulimit -n), up to 16,000, at a time: for the next one the file that was mapped first is
    unmapped. So a broker can have more queues than open files, and vm.max_map_count can keep its
    default.

    100,000 topics with 1,000,000 queues that have a file each (scripts/bench scale topics --stored
    1000000): the first message of a queue takes 330 microseconds of processor time, the writing
    process has 2,579 descriptors, a broker starts in 188 s after a clean stop and in 224 s after a
    kill, and has 1.3 GiB of memory without mapped files; the name server responds to a route
    request in 0.1 ms. With files for 60,000 of the queues the broker starts in 16 s, has 230 MiB,
    and requests for cleaning let other requests wait for 18 ms at most.
    """,
    "java": """
    Every sub-command of the Java tool of RocketMQ 5.3.3, and those that only 4.9.8 has, runs under
    its own name: mqadmin topicRoute -t T, or mqadmin java topicRoute -t T. It takes Java's options,
    prints Java's columns and writes Java's files. mqadmin help NAME prints the options of one,
    mqadmin java list the table below.

    Different from the Java tool: the exit status is that of mqadmin(1), not 0 after a failure;
    errors go to stderr in one line; an option that has no effect there is refused; a command that
    acts on every cluster without a target there needs one here; an unknown value is not 0. The
    options --namesrv, --context, --timeout, --access-key, --tls and the other global ones are
    accepted under their long names.

    The commands with noun and verb print tables or JSON, show a plan before a change, have
    --dry-run, and keep settings that are not named.
    """,
    "bench-more": """
    Measured one at a time by the other measurements of scripts/bench, in turn with the Java broker
    5.3.3:
    """,
    "bench-store": """
    scripts/bench store --mib 1024: the engine and the scanner without a network, 1 GiB of 1 KiB
    bodies on one core, and limits of the machine measured in the same run.
    """,
    "bench-cli": """
    scripts/bench cli: commands against a local broker, until exit, and Java mqadmin. topic list
    is 70 times faster and needs 17 times less CPU, consumer lag 72 and 17, msg query --key 65 and
    15; each is 10 to 14 times faster than the last output line of Java mqadmin. mqadmin --version
    takes 1.05 times the bare interpreter, completion 2.0 times, topic list 4.9 times.
    """,
    "torture": """
    scripts/torture kill: 240 rounds of kill -9, SIGSTOP and SIGTERM, half of them with each
    flushDiskType, with plain, batch, WAIT=false, delayed, sent-back and multi-dispatch messages,
    offset commits and new topics and groups: 117,520 operations acknowledged, none lost. Before,
    with plain messages only: 1,000 rounds, 491,261 messages, none lost. scripts/torture power:
    46,602 power cuts (118,812 before) on a simulated disk that keeps any part of the unsynced
    512-byte sectors, at every write and sync of scripted runs of the store: no loss of a message
    that SYNC_FLUSH acknowledged or that a completed flush covered, and every store opened. 80 runs
    in which each call to the disk failed once, or permanently from then on: the same.
    """,
}

STORE_FILES = [
    ("commitlog/", "the CommitLog: files of mappedFileSizeCommitLog bytes, default 1 GiB"),
    ("consumequeue/TOPIC/QUEUE/", "one unit of 20 bytes per message: its place in the log"),
    ("batchconsumequeue/TOPIC/QUEUE/", "the same for topics of batches, units of 46 bytes (5.x)"),
    ("index/", "IndexFiles: hash tables from topic and key to the log"),
    ("checkpoint", "the times up to which log, queues and index are known to be on disk"),
    ("abort", "present while a broker runs; absent after a clean stop"),
    ("lock", "locked by the broker that uses the store"),
    ("config/", "topics, groups, consumer offsets and more as JSON, each with its last .bak"),
]

SOURCE_OPTIONS = [
    ("path, paths", "store directories, commitlog folders, globs or single files"),
    ("columns", "comma list of columns; only these are decoded"),
    ("topic", "comma list of topics"),
    ("since, until", "store time, RFC 3339 or epoch ms; until is exclusive"),
    ("offset.from, offset.to", "physical offsets; offset.to is exclusive"),
    ("damages", "true: a row for each damaged region too (column damage)"),
    ("crc", "true: check every body, even if crc_ok is not read; false: never check"),
    ("splitBytes", "bytes per split, default 128 MiB or a quarter of a core's share"),
    ("rows", "rows per Arrow batch, default 8192"),
    ("pushdown", "true: take filters from Spark (spark.sql.python.filterPushdown.enabled)"),
]

SOURCE_EXAMPLE = [
    'messages = spark.read.format("rocketmq-store").load("/data/store")',
    "spark.sql(\"CREATE TEMPORARY VIEW m USING `rocketmq-store` OPTIONS (path '/data/store')\")",
    'following = spark.readStream.format("rocketmq-store").load("/data/store")',
]

CLUSTER_EXAMPLE = [
    "mqadmin pipeline run traffic --store /mnt/stores/broker-a --master spark://10.0.0.1:7077",
    "aws s3 sync /data/store s3://backup/broker-a && mount-s3 backup /mnt/stores",
    (
        'python -c "from mqadmin.pipeline.spark.session import package_zip;'
        " package_zip('mqadmin.zip')\""
    ),
]

REPAIR_EXAMPLE = [
    "mqadmin store verify /data/store",
    "mqadmin store repair /data/store --dry-run",
    "mqadmin store repair /data/store --out /data/store.repaired",
    "mqbroker --check --store /data/store.repaired",
]

TABLES = {
    "pipeline": [
        ("Through Spark, local[2]", "Rate", "Compared with"),
        ("all columns", "0.47 GiB/s", "0.32x to 0.45x of one thread"),
        (
            "all columns, bodies checked",
            "0.57 GiB/s",
            "0.63x of one thread; 2 cores 2.2x of 1",
        ),
        (
            "messages and bytes by topic and tag",
            "1.73 GiB/s",
            "0.77x of one thread; 2 cores 1.9x of 1",
        ),
        (
            "Parquet by day and topic, written by the tasks",
            "0.52 GiB/s",
            "0.55x of one thread; 3.1x to 3.6x of df.write.parquet; 2 cores 1.8x of 1",
        ),
        ("memory, peak", "", "360 MiB per worker, 1.2 to 1.8 GiB in the Java process"),
    ],
    "pipeline-commands": [
        ("Command", "0.5 GiB", "2 GiB", "4 GiB"),
        ("store inspect --summary", "0.3 s", "0.9 s", "1.6 s"),
        ("pipeline run traffic", "17.9 s", "19.2 s", "21.0 s"),
        ("store export --format parquet", "2.0 s", "4.6 s", "8.4 s"),
        ("pipeline run export", "14.2 s", "17.1 s", "23.8 s"),
    ],
    "java": [
        ("Measurement", "mqbroker to Java", "scripts/bench"),
        ("start on 1 GiB after a clean stop", "0.08x (0.18 s)", "java"),
        ("stop after load", "0.006x (0.07 s)", "java"),
        ("start after a power cut, 1 GiB of 1 KiB, extra fast", "0.40x", "start"),
        ("start after a power cut, 256 MiB and 1 GiB of 1 KiB", "0.48x, 0.57x to 0.71x", "start"),
        ("start after a power cut, 1 GiB of 100 B, extra fast", "0.25x", "start"),
        ("waiting consumer, 1,000/s: p50, p99", "0.57x, 1.7x", "latency"),
        ("waiting consumer, 10,000/s: p50, p99", "0.31x, 0.22x", "latency"),
        ("pop and ack, 16 x 2, batches of 32, merged", "1.44x", "pop"),
        ("timers, 1,000/s with 1,000,000 pending: p99 late", "86 to 114 ms", "timer"),
        ("SYNC_MASTER: p50, p99, rate", "0.90x, 0.56x, 1.35x", "replication"),
        ("ASYNC_MASTER: rate copied", "2.03x", "replication"),
        ("catch-up of 1 GiB: rate, CPU time", "1.82x, 0.78x", "replication"),
    ],
    "store": [
        ("Operation", "Rate", "Compared with"),
        (
            "append; dispatch to queue and index",
            "220,000/s; 211,000/s",
            "0.14x of memcpy (1.8 GiB/s), each",
        ),
        (
            "append, synced, with 1, 16, 64 waiting",
            "4,900, 25,500, 53,200/s",
            "0.6x, 3.2x, 6.2x of fdatasync (7,900/s)",
        ),
        ("start after kill -9", "0.07 s more than on an empty store", "Java 2.6 s: 0.03x"),
        ("rebuilding lost queues and index", "540,000 to 710,000/s", ""),
        ("pull by 32; query by key; view", "2,990,000; 112,000; 399,000/s", ""),
        ("scanner: walk", "42 to 46 GiB/s", "1.4x to 1.6x of adding up the same mapping"),
        ("scanner: all fields; with checksums", "4.2; 1.65 GiB/s", ""),
        (
            "store inspect --summary, with the core installation alone",
            "2.2 to 2.4 GiB/s",
            "0.08x of adding up the same mapping",
        ),
        (
            "store verify --fast; --full: each message with its queue unit and index entry",
            "1,480,000; 930,000/s",
            "",
        ),
        (
            "store recover; export to NDJSON; export to Parquet with bodies",
            "50,000; 37,000; 400,000/s",
            "",
        ),
    ],
}
