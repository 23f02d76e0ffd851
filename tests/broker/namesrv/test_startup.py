"""mqnamesrv as a program: options, files, ready line, signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.namesrv import startup
from broker.remoting.blocking import BlockingClient
from broker.remoting.process import daemon
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.outputs import run_without_output

CONF = """\
# a real one
listenPort=9877
kvConfigPath={folder}/kv.json
clusterTest=false
bindAddress=0.0.0.0
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "namesrv.conf"
    path.write_text(CONF.format(folder=tmp_path))
    return path


@pytest.fixture(autouse=True)
def _quiet_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "configure_logging", lambda options: None)


def test_a_real_file_is_read_and_unknown_keys_are_kept(conf: Path) -> None:
    settings = startup.read_settings(str(conf))
    assert settings.config.listen_port == 9877
    assert settings.unknown == {"clusterTest": "false"}
    assert settings.config.config_store_path == str(conf)
    assert settings.origins["listenPort"] == str(conf)


def test_a_missing_or_broken_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf"):
        startup.read_settings(str(tmp_path / "none.conf"))
    bad = tmp_path / "bad.conf"
    bad.write_text("listenPort=many\n")
    with pytest.raises(ConfigError, match=r"bad\.conf: listenPort=many"):
        startup.read_settings(str(bad))


@pytest.mark.parametrize(
    "line",
    [
        "useTLS=true",
        "tls.config.file=/etc/rocketmq/tls.properties",
        "enableControllerInNamesrv=true",
    ],
)
@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_setting_that_is_not_implemented_stops_the_start(
    tmp_path: Path, capsys, line, options
) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(f"{line}\n")
    assert startup.main(["-c", str(file), *options]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {file}: {line}: ")
    assert line.partition("=")[0] in hint


def test_the_command_line_takes_precedence_over_the_file(conf: Path) -> None:
    settings = startup.read_settings(str(conf))
    assert startup.bind(settings, ["127.0.0.3:1234"]) == [("127.0.0.3", 1234)]
    lines = settings.lines()
    assert "listenPort=1234  # --listen" in lines
    assert "bindAddress=127.0.0.3  # --listen" in lines


def test_print_shows_each_setting_with_its_origin(conf: Path, capsys, caplog) -> None:
    assert startup.main(["-c", str(conf), "-p"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"listenPort=9877  # {conf}" in lines
    assert "enableTopicList=true  # default" in lines
    assert f"clusterTest=false  # {conf}" in lines
    assert "clusterTest" in caplog.text
    assert "bindAddress=0.0.0.0 is not taken" in caplog.text


def test_check_validates_the_settings_and_exits(conf: Path, capsys) -> None:
    assert startup.main(["-c", str(conf), "--check"]) == 0
    assert capsys.readouterr().out == "the settings are valid\n"


def test_settings_are_printed_or_checked(capsys) -> None:
    assert startup.main(["-p", "--check"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == (
        "",
        "error: -p prints the settings and --check checks them",
    )


def test_wrong_options_are_status_2(tmp_path: Path, capsys) -> None:
    assert startup.main(["-c", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    with pytest.raises(SystemExit) as caught:
        startup.main(["--no-such-option"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "error: unrecognized arguments: --no-such-option\n"
        "hint: mqnamesrv --help lists the options\n"
    )


@pytest.mark.usefixtures("event_loop_name")
def test_the_program_reports_ready_serves_and_stops_on_sigterm(tmp_path: Path) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--log-format", "json", "--log-dir", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.namesrv.startup", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    try:
        line = process.stdout.readline()
        start = "The Name Server boot success. serializeType=JSON, address "
        assert line.startswith(start)
        with BlockingClient(timeout_ms=10_000) as client:
            address = line.removeprefix(start).strip()
            answer = client.call(address, request(RequestCode.GET_BROKER_CLUSTER_INFO))
            assert answer.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (0, "")
    assert all(entry.startswith("{") for entry in err.splitlines())
    log = (tmp_path / "namesrv.log").read_text()
    assert "name server stopped" in log
    assert not (tmp_path / "namesrv").exists()


@pytest.mark.parametrize("option", ["-p", "--check"])
def test_a_closed_pipe_is_not_an_error_and_a_full_disk_is_one(tmp_path: Path, option: str) -> None:
    command = [sys.executable, "-m", "broker.namesrv.startup", option]
    assert run_without_output(command, tmp_path) == [
        (0, ""),
        (1, "error: cannot write the output: No space left on device\n"),
    ]
