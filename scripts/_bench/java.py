"""Our broker and the Java broker in turn on this machine, by the bench kit's `compare`."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
KIT = Path(os.environ.get("MQ_BENCH_KIT") or ROOT.parent / "shared" / "bench")
PEERS = Path(os.environ.get("MQ_TEST_PEERS_HOME") or Path.home() / ".cache" / "mqadmin-test-peers")

JAVA = """\
name = "java-5.3.3"
port = 49111
namesrv_port = 49176
namesrv = ["java", "-Xms256m", "-Xmx512m", "-Duser.home={{dir}}", "-cp", "{lib}/*",
           "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", "{{namesrv_conf}}"]
broker = ["java", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC",
          "--add-opens=java.base/java.nio=ALL-UNNAMED",
          "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
          "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
          "-Duser.home={{dir}}", "-cp", "{lib}/*",
          "org.apache.rocketmq.broker.BrokerStartup", "-c", "{{broker_conf}}"]
[env]
ROCKETMQ_HOME = "{{dir}}"
[conf]
"""
OURS = """\
name = "ours"
port = 49121
namesrv_port = 49186
namesrv = ["{bin}/mqnamesrv", "-c", "{{namesrv_conf}}"]
broker = ["{bin}/mqbroker", "-c", "{{broker_conf}}"]
[env]
ROCKETMQ_HOME = "{{dir}}"
[conf]
"""


def java_jars() -> Path:
    """The jars that the interop tests fetched."""
    for folder in sorted(PEERS.glob("java-5.3.3-*")):
        if (folder / "lib").is_dir():
            return folder / "lib"
    sys.exit("error: no Java broker here\nhint: run scripts/interop once, it fetches the jars")


def main() -> int:
    if not (KIT / "compare").exists():
        sys.exit(
            f"error: no bench kit at {KIT}\nhint: name it: MQ_BENCH_KIT=DIR scripts/bench java"
        )
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as temporary:
        work = Path(temporary)
        subprocess.run([KIT / "build", work], check=True)
        targets = {}
        if shutil.which("java"):
            targets["java"] = JAVA.format(lib=java_jars())
        targets["ours"] = OURS.format(bin=ROOT / ".venv" / "bin")
        files = []
        for name, text in targets.items():
            files.append(work / f"{name}.toml")
            files[-1].write_text(text)
        command = [sys.executable, KIT / "compare", *files, *sys.argv[1:]]
        return subprocess.run(
            command, env={**os.environ, "MQLOAD": str(work / "mqload")}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
