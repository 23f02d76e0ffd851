"""Metadata of a real Java cluster on ours and back, and its dead letters skipped."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.test_our_cli_on_java import MQADMIN

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run our mqadmin on the cluster of a name server."""

    def call(namesrv: str, line: str, *more: str) -> Done:
        words = [*line.split(), *more, "-n", namesrv, "--timeout", "60s"]
        return subprocess.run(
            [str(MQADMIN), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
            cwd=tmp_path,
        )

    return call


def test_metadata_of_java_is_applied_to_ours_and_back(
    run: Run, java_cluster: tuple[str, str], our_cluster: tuple[str, str]
) -> None:
    java, ours = java_cluster[0], our_cluster[0]
    line = "topic create MetaJava --queues 3 --perm r --attribute +message.type=FIFO --yes"
    assert run(java, line).returncode == 0
    assert run(java, "group create meta-java --retry-max 5 --yes").returncode == 0
    # Java sets order=true on a topic with such an entry, at the broker's next registration.
    assert run(java, "namesrv kv put ORDER_TOPIC_CONFIG MetaOrder broker-a:3 --yes").returncode == 0
    assert run(ours, "topic create MetaOurs --queues 2 --yes").returncode == 0

    for source, target, name in ((java, ours, "java.json"), (ours, java, "ours.json")):
        done = run(source, f"metadata export --out {name}")
        assert done.returncode == 0, done.stderr
        assert run(source, f"metadata diff {name}").returncode == 0
        assert run(target, f"metadata diff {name}").returncode == 1
        done = run(target, f"metadata apply {name} --only topic --only group --only kv --yes")
        assert done.returncode == 0, done.stderr + done.stdout
        again = f"metadata diff {name} --only topic --only group --only kv --ignore-extra"
        done = run(target, again)
        assert done.returncode == 0, done.stdout
    done = run(ours, "topic show MetaJava", "-o", "jsonpath=$.items[*].attributes")
    assert json.loads(done.stdout) == {"message.type": "FIFO"}
    assert run(java, "topic show MetaOurs").returncode == 0


def test_dead_letters_of_java_are_skipped_after_an_export(
    run: Run, java_cluster: tuple[str, str], tmp_path: Path
) -> None:
    java, _ = java_cluster
    dlq = "%DLQ%purged"
    assert run(java, f"topic create {dlq} --queues 1 --yes").returncode == 0
    assert run(java, "group create dlq-reader --yes").returncode == 0
    for number in range(3):
        done = run(java, f"msg send {dlq} --body m{number}")
        assert done.returncode == 0, done.stderr
    assert run(java, f"offset reset dlq-reader --topic {dlq} --to 1 --yes").returncode == 0
    done = run(java, "dlq purge purged --export dead.ndjson --yes -o json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["items"]
    assert (row["group"], row["readBack"]) == ("dlq-reader", 3)
    assert len((tmp_path / "dead.ndjson").read_text().splitlines()) == 2
