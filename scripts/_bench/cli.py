"""Start-up of commands: wall and CPU time relative to the bare interpreter of the same environment.

With a running broker (``NAMESRV_ADDR``) or without: a standalone one is started for the time of
the measurement. If the Java jars of the interop tests are there, Java mqadmin answers the same
questions in the same run.
"""

import compileall
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import many_groups
from local_broker import LocalBroker

ROOT = Path(__file__).parent.parent.parent
BIN = ROOT / ".venv" / "bin"
PEERS = Path(os.environ.get("MQ_TEST_PEERS_HOME") or Path.home() / ".cache" / "mqadmin-test-peers")
RUNS = 15
JAVA_RUNS = 3

Sample = tuple[float, float, float]
Pair = tuple[list[str], list[str], int]  # our words, Java's, goal of the ratio


def once(words: list[str], env: dict[str, str]) -> Sample:
    """Seconds until the last output, until exit, and of CPU."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    last = 0.0
    while os.read(process.stdout.fileno(), 65536):
        last = time.perf_counter() - begin
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"error: {' '.join(words)}: exit status {process.returncode}")
    return last or wall, wall, usage.ru_utime + usage.ru_stime


def measure(commands: dict[str, list[str]], env: dict[str, str], runs: int) -> dict[str, Sample]:
    """Medians; the commands take turns, so a busy moment of the machine hits all of them."""
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for words in commands.values():
        once(words, env)
    for _ in range(runs):
        for name, words in commands.items():
            samples[name].append(once(words, env))
    return {
        name: tuple(statistics.median(column) for column in zip(*rows, strict=True))  # type: ignore[misc]
        for name, rows in samples.items()
    }


def standalone(work: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [
            *(str(BIN / "mqbroker"), "--standalone", "--store", str(work / "store")),
            *("--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "name server is" in line:
            return process, line.rpartition(" ")[2].strip()
    sys.exit("error: the standalone broker did not start")


def java_mqadmin(work: Path) -> list[str] | None:
    homes = sorted(PEERS.glob("java-5.3.3-*"))
    if not homes or not shutil.which("java"):
        return None
    conf = work / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "logback_tools.xml").write_text((homes[0] / "classes" / "logback.xml").read_text())
    return [
        *("java", "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Drocketmq.home.dir={work}", f"-Duser.home={work}"),
        *("-Drocketmq.client.logUseSlf4j=true",),
        *("-cp", f"{homes[0] / 'classes'}:{homes[0] / 'lib' / '*'}"),
        "org.apache.rocketmq.tools.command.MQAdminStartup",
    ]


def main() -> None:
    # as pip does: with PYTHONDONTWRITEBYTECODE each command would compile changed modules again
    for package in ("broker", "mqadmin"):
        compileall.compile_dir(ROOT / package, quiet=1)
    with tempfile.TemporaryDirectory(prefix="mq-bench-cli-") as temporary:
        work = Path(temporary)
        os.chdir(work)  # resets write their undo files here
        process, namesrv = standalone(work)
        env = {**os.environ, "NAMESRV_ADDR": namesrv, "ROCKETMQ_HOME": str(work)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        mqadmin = str(BIN / "mqadmin")
        started: list[LocalBroker] = []
        try:
            for words in (
                ["topic", "create", "bench", "--queues", "4", "--yes"],
                ["msg", "send", "--topic", "bench", "--key", "k1", "--body", "x", "--yes"],
                ["group", "create", "bench-group", "--yes"],
                ["offset", "reset", "bench-group", "--topic", "bench", "--to", "latest", "--yes"],
            ):
                subprocess.run([mqadmin, *words], env=env, check=True, stdout=subprocess.DEVNULL)
            print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            report_start(mqadmin, env)
            java = java_mqadmin(work)
            if java is None:
                print("Java mqadmin: not here (scripts/interop fetches it)")
                return
            report_java("until exit", runbook(mqadmin, java, namesrv), env, JAVA_RUNS)
            cluster = many_groups.start(work, namesrv, mqadmin)
            started = cluster.brokers
            pair = {
                "lag of 500 groups": (
                    [mqadmin, "consumer", "lag", "--all"],
                    [*java, "consumerProgress", "-n", namesrv],
                    20,
                )
            }
            report_java("3 brokers", pair, env, 1)
        finally:
            for one in started:
                one.stop()
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def report_start(mqadmin: str, env: dict[str, str]) -> None:
    """Print the start-up of commands relative to the bare interpreter."""
    ours = {
        "python -I -c pass": [str(BIN / "python"), "-I", "-c", "pass"],
        "--version": [mqadmin, "--version"],
        "--help": [mqadmin, "--help"],
        "topic list": [mqadmin, "topic", "list"],
        "consumer lag": [mqadmin, "consumer", "lag", "bench-group"],
        "msg query --key": [mqadmin, "msg", "query", "--topic", "bench", "--key", "k1"],
    }
    completion = {
        **env,
        "_MQADMIN_COMPLETE": "complete_bash",
        "COMP_WORDS": "mqadmin top",
        "COMP_CWORD": "1",
    }
    found = measure(ours, env, RUNS)
    found |= measure({"completion": [mqadmin]}, completion, RUNS)
    bare = found["python -I -c pass"]
    print(f"{'command':22} {'exit ms':>9} {'cpu ms':>9} {'cpu x bare':>11}")
    for name, (_, wall, cpu) in found.items():
        print(f"{name:22} {wall * 1000:9.1f} {cpu * 1000:9.1f} {cpu / bare[2]:11.1f}")


def runbook(mqadmin: str, java: list[str], namesrv: str) -> dict[str, Pair]:
    """The same questions to both tools; consumerProgress needs -t without a retry topic."""
    key = ["-t", "bench", "-k", "k1"]
    group = ["-g", "bench-group", "-t", "bench"]
    reset = ["offset", "reset", "bench-group", "--topic", "bench", "--to", "now", "--yes"]
    pairs = {
        "topicList": (["topic", "list"], []),
        "topicRoute": (["topic", "route", "bench"], ["-t", "bench"]),
        "clusterList": (["cluster", "list"], []),
        "consumerProgress": (["consumer", "lag", "bench-group", "--topic", "bench"], group),
        "queryMsgByKey": (["msg", "query", "--topic", "bench", "--key", "k1"], key),
        "resetOffsetByTime": (reset, [*group, "-s", "now"]),
    }
    return {
        name: ([mqadmin, *own], [*java, name, "-n", namesrv, *theirs], 30)
        for name, (own, theirs) in pairs.items()
    }


def check_java(words: list[str], env: dict[str, str]) -> None:
    """Exit if the command fails three times: its time-outs are short for a busy machine."""
    for _ in range(3):
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        if "Exception" not in done.stderr and done.stdout.strip():
            return
    sys.exit(f"error: {' '.join(words[-6:])} fails: {done.stderr[-2000:]}")


def report_java(title: str, pairs: dict[str, Pair], env: dict[str, str], java_runs: int) -> None:
    """Print both times and their ratios; the Java tool must not fail: its exit status is 0 then."""
    for words in (pair[1] for pair in pairs.values()):
        check_java(words, env)
    own = measure({name: pair[0] for name, pair in pairs.items()}, env, RUNS)
    java = measure({name: pair[1] for name, pair in pairs.items()}, env, java_runs)
    print(
        f"\n{title:22} {'ours ms':>9} {'java ms':>9} {'x exit':>9} {'goal':>6} {'x output':>9} "
        f"{'x cpu':>9}   (load {os.getloadavg()[0]:.1f})"
    )
    for name, (last, wall, cpu) in java.items():
        first, ours, ours_cpu = own[name]
        print(
            f"{name:22} {ours * 1000:9.0f} {wall * 1000:9.0f} {wall / ours:9.1f} "
            f"{pairs[name][2]:6} {last / first:9.1f} {cpu / ours_cpu:9.1f}"
        )


if __name__ == "__main__":
    main()
