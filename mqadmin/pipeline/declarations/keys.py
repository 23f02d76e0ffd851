"""Declaration of the job ``keys``."""

from typing import Final

from mqadmin.pipeline.job import STORE, TOP, TOPIC, Job, Table, columns

JOB: Final = Job(
    name="keys",
    summary="Cardinality and collisions of index keys, load and chain lengths of IndexFiles.",
    text="Keys are those that brokers index: the uniqKey and each word of KEYS, hashed together"
    " with the topic. A query by key reads one log record for each key with the same hash.",
    example="mqadmin pipeline run keys --store /data/store --table files",
    parameters=(TOP,),
    tables=(
        Table(
            "topics",
            "keys by topic",
            columns(
                TOPIC,
                ("messages", "int", "messages"),
                ("with_keys", "int", "messages with KEYS"),
                ("keys", "int", "indexed keys, including uniqKeys"),
                ("distinct_keys", "int", "distinct keys"),
                ("distinct_hashes", "int", "distinct hashes of these keys"),
                ("collisions", "int", "keys that share their hash with another key"),
            ),
        ),
        Table(
            "collisions",
            "hashes shared by several keys, over all topics",
            columns(
                ("key_hash", "int", "hash of topic#key"),
                ("keys", "int", "distinct keys"),
                ("messages", "int", "messages with one of these keys"),
                ("examples", "texts", "topic#key, at most 5"),
            ),
        ),
        Table(
            "files",
            "IndexFiles",
            columns(
                ("file", "text", "path"),
                ("begin_time", "time", "store time of its first message"),
                ("end_time", "time", "store time of its last message"),
                ("entries", "int", "entries"),
                ("fill", "float", "entries by entry capacity, 0 to 1"),
                ("slots_used", "int", "slots with a chain"),
                ("slot_load", "float", "used slots by all slots, 0 to 1"),
                ("mean_chain", "float", "entries per used slot"),
                ("longest_chain", "int", "entries of the longest chain"),
                STORE,
            ),
        ),
    ),
)
