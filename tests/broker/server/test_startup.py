"""mqbroker: options, settings and their origins, the process from start to stop."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.remoting.process import daemon
from broker.server import startup
from broker.server.configuration.settings import Settings
from tests.support.outputs import run_without_output


def options(*words: str):
    return startup.argument_parser().parse_args(words)


@pytest.fixture
def conf(tmp_path: Path):
    """``conf("key=value\\n")``: the path of a broker.conf."""

    def make(text: str) -> str:
        path = tmp_path / "broker.conf"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


def test_command_line_wins_over_file_and_file_over_default(conf, tmp_path) -> None:
    path = conf("namesrvAddr=file:1\nbrokerName=b-1\nstorePathRootDir=/nowhere\n")
    settings = startup.read_settings(
        options("-c", path, "-n", "option:2", "--store", str(tmp_path / "s"))
    )
    assert settings.broker.namesrv_addr == "option:2"
    assert settings.broker.broker_name == "b-1"
    assert settings.store.root == str(tmp_path / "s")
    assert settings.origin("namesrvAddr") == "--namesrv"
    assert settings.origin("brokerName") == path
    assert settings.origin("listenPort") == "default"


def test_environment_names_the_name_servers_when_nothing_else_does(monkeypatch, conf) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:3")
    assert startup.read_settings(options()).broker.namesrv_addr == "env:3"
    assert startup.read_settings(options("-n", "o:1")).broker.namesrv_addr == "o:1"
    assert startup.read_settings(options("-c", conf(""))).broker.namesrv_addr == ""


def test_a_standalone_broker_has_its_own_name_server(monkeypatch, conf) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:3")
    words = options("--standalone", "-c", conf("namesrvAddr=file:1\n"))
    settings = startup.read_settings(words)
    assert settings.broker.namesrv_addr == "127.0.0.1:9876"
    assert settings.origin("namesrvAddr") == "--standalone"
    words = options("--standalone", "--namesrv-listen", "127.0.0.1:19876")
    assert startup.read_settings(words).broker.namesrv_addr == "127.0.0.1:19876"


def test_wrong_value_names_the_file(conf) -> None:
    path = conf("listenPort=x\n")
    with pytest.raises(ConfigError, match=r"broker\.conf.*listenPort"):
        startup.read_settings(options("-c", path))


def test_listen_addresses(conf) -> None:
    settings = Settings({"listenPort": "20911"})
    assert startup.bind(settings, []) == [("127.0.0.1", 20911)]
    assert startup.bind(settings, ["127.0.0.1:0"]) == [("127.0.0.1", 0)]
    assert settings.broker.listen_port == 0
    assert settings.origin("listenPort") == "--listen"


class TestMain:
    """Options that start nothing, and mistakes."""

    @pytest.fixture(autouse=True)
    def quiet(self, monkeypatch) -> None:
        monkeypatch.setattr(daemon, "configure_logging", lambda options: None)
        monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    def test_print_shows_every_setting_with_its_origin(self, conf, capsys) -> None:
        path = conf("brokerName=b-1\nfutureKey=9\n")
        assert startup.main(["-c", path, "-p"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"brokerName=b-1  # {path}" in lines
        assert f"futureKey=9  # {path}" in lines
        assert "flushDiskType=ASYNC_FLUSH  # default" in lines
        assert lines == sorted(lines)

    def test_check_looks_and_starts_nothing(self, tmp_path, capsys) -> None:
        store = tmp_path / "store"
        assert startup.main(["--store", str(store), "--check"]) == 0
        assert "can be used" in capsys.readouterr().out
        assert not store.exists()

    @pytest.mark.parametrize("options", [["--listen", "127.0.0.1:0"], ["--check"]])
    def test_start_and_check_of_a_damaged_store_agree(self, tmp_path, capsys, options) -> None:
        config = tmp_path / "config"
        config.mkdir()
        (config / "topics.json").write_bytes(b"{\xff\xfe")
        assert startup.main(["--store", str(tmp_path), *options]) == daemon.STATUS_DAMAGED
        error, hint = capsys.readouterr().err.splitlines()
        assert error.startswith(f"error: {config / 'topics.json'}: JSON: ")
        assert hint.startswith("hint: neither the file nor its .bak can be read")

    @pytest.mark.parametrize("options", [[], ["--check"], ["--standalone"]])
    def test_promise_that_is_not_kept_stops_the_start(self, tmp_path, capsys, options) -> None:
        """``--check`` reports the same as a start."""
        file = tmp_path / "broker.conf"
        file.write_text("enableControllerMode=true\n", encoding="utf-8")
        store = tmp_path / "store"
        words = ["-c", str(file), "--store", str(store), *options]
        assert startup.main(words) == daemon.STATUS_USAGE
        error, hint = capsys.readouterr().err.splitlines()
        assert error.startswith(f"error: {file}: enableControllerMode=true: ")
        assert "enableControllerMode=false" in hint
        assert not store.exists()

    @pytest.mark.parametrize(
        "words",
        [
            ("-c", "/no/such/broker.conf"),
            ("--namesrv-listen", "127.0.0.1:0"),
            ("--standalone", "-n", "127.0.0.1:9876"),
            ("--listen", "nonsense:port"),
        ],
    )
    def test_mistakes_have_status_2_and_a_reason(self, words, capsys) -> None:
        assert startup.main(list(words)) == daemon.STATUS_USAGE
        assert capsys.readouterr().err.startswith("error: ")

    @pytest.mark.parametrize("words", [["--nosuch"], ["--store"], ["--log-level", "LOUD"]])
    def test_a_wrong_option_has_one_reason_and_a_next_step(self, words, capsys) -> None:
        with pytest.raises(SystemExit) as end:
            startup.main(words)
        assert end.value.code == daemon.STATUS_USAGE
        error, hint = capsys.readouterr().err.splitlines()
        assert error.startswith("error: ")
        assert words[0] in error
        assert hint == "hint: mqbroker --help lists the options"

    def test_settings_are_printed_or_checked(self, capsys) -> None:
        assert startup.main(["-p", "--check"]) == daemon.STATUS_USAGE
        out, err = capsys.readouterr()
        assert out == ""
        assert err.splitlines()[0] == "error: -p prints the settings and --check checks them"

    def test_version(self, capsys) -> None:
        with pytest.raises(SystemExit) as end:
            startup.main(["--version"])
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith("mqbroker ")


@pytest.mark.usefixtures("event_loop_name")
def test_process_serves_until_sigterm_and_stops_in_order(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable, "-m", "broker", "--standalone", "--store", str(tmp_path / "store"),
            "--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0", "--log-level", "ERROR",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line.startswith("The broker[broker-a, 127.0.0.1:")
        assert "boot success. serializeType=JSON and name server is 127.0.0.1:" in line
        assert (tmp_path / "store" / "abort").exists()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
        assert (process.returncode, rest, errors) == (0, "", "")
        assert not (tmp_path / "store" / "abort").exists()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("option", ["-p", "--check"])
def test_a_closed_pipe_is_not_an_error_and_a_full_disk_is_one(tmp_path: Path, option: str) -> None:
    command = [sys.executable, "-m", "broker", "--store", str(tmp_path), option]
    assert run_without_output(command, tmp_path) == [
        (0, ""),
        (1, "error: cannot write the output: No space left on device\n"),
    ]
