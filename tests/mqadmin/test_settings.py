import random
import stat
from pathlib import Path

import pytest

from broker.errors import ConfigError
from mqadmin.settings import (
    CONTEXT_WORDS,
    Contexts,
    config_path,
    load_contexts,
    read_file,
    resolve,
    save_contexts,
)


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path), **more}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A context file with two contexts, ``test`` the current one."""
    named = {
        "test": {"namesrv": "10.0.0.1:9876", "timeout": "5s", "tls": True},
        "other": {"namesrv": "10.0.0.2:9876"},
    }
    save_contexts(config_path(environ(tmp_path)), Contexts("test", named))
    return tmp_path


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = resolve({}, environ(tmp_path))
    assert settings.namesrv == ["127.0.0.1:9876"]
    assert settings.timeout_ms == 10_000
    assert settings.address_map == {}
    assert settings.effective["namesrv"].origin == "default"
    assert settings.secret() is None


def test_option_beats_environment_beats_context_beats_default(kept: Path) -> None:
    settings = resolve({}, environ(kept))
    assert (settings.text("namesrv"), settings.effective["namesrv"].origin) == (
        "10.0.0.1:9876",
        "context test",
    )
    settings = resolve({}, environ(kept, NAMESRV_ADDR="e:1"))
    assert settings.effective["namesrv"].origin == "environment NAMESRV_ADDR"
    settings = resolve({"namesrv": "o:1"}, environ(kept, NAMESRV_ADDR="e:1"))
    assert (settings.namesrv, settings.effective["namesrv"].origin) == (["o:1"], "option")
    assert settings.timeout_ms == 5_000
    assert settings.flag("tls")


@pytest.mark.parametrize(
    "word", ["namesrv", "context", "tls-ca", "access-key", "secret-key-file", "address-map"]
)
def test_an_empty_option_is_refused(kept: Path, word: str) -> None:
    """A variable of a script that is not set must not select another cluster."""
    variables = environ(kept, NAMESRV_ADDR="e:1", MQADMIN_CONTEXT="test")
    with pytest.raises(ConfigError, match=f"--{word}: the value is empty") as caught:
        resolve({word.replace("-", "_"): ""}, variables)
    assert caught.value.hint.endswith(f"or omit --{word}")


def test_an_empty_variable_is_not_set(kept: Path) -> None:
    settings = resolve({}, environ(kept, NAMESRV_ADDR="", MQADMIN_CONTEXT=""))
    assert (settings.context, settings.namesrv) == ("test", ["10.0.0.1:9876"])


def test_an_empty_name_server_of_a_context_is_not_the_default_one(tmp_path: Path) -> None:
    context_file(tmp_path, "[contexts.a]\nnamesrv = ''\n")
    assert resolve({"context": "a"}, environ(tmp_path)).namesrv == []


def test_a_context_named_by_the_option_beats_the_environment(kept: Path) -> None:
    settings = resolve(
        {"context": "other"}, environ(kept, NAMESRV_ADDR="e:1", MQADMIN_TIMEOUT="9s")
    )
    assert settings.namesrv == ["10.0.0.2:9876"]
    assert settings.effective["namesrv"].origin == "context other"
    # settings that the context does not have still come from the environment
    assert settings.effective["timeout"].origin == "environment MQADMIN_TIMEOUT"
    assert settings.overrides == []
    option = resolve({"context": "other", "namesrv": "o:1"}, environ(kept, NAMESRV_ADDR="e:1"))
    assert option.namesrv == ["o:1"]


@pytest.mark.parametrize("variables", [{}, {"MQADMIN_CONTEXT": "test"}])
def test_the_environment_beats_another_context_and_this_is_reported(
    kept: Path, variables: dict[str, str]
) -> None:
    settings = resolve({}, environ(kept, NAMESRV_ADDR="e:1", MQADMIN_TIMEOUT="9s", **variables))
    assert settings.namesrv == ["e:1"]
    (sentence,) = settings.overrides  # a timeout does not decide which cluster is reached
    assert "NAMESRV_ADDR (e:1) overrides namesrv of the" in sentence
    assert "context test (10.0.0.1:9876)" in sentence
    same = resolve({}, environ(kept, NAMESRV_ADDR="10.0.0.1:9876", **variables))
    assert same.overrides == []


@pytest.mark.parametrize(
    ("word", "variable"),
    [
        ("tls-ca", "MQADMIN_TLS_CA"),
        ("tls-cert", "MQADMIN_TLS_CERT"),
        ("tls-key", "MQADMIN_TLS_KEY"),
        ("secret-key-file", "MQADMIN_SECRET_KEY_FILE"),
    ],
)
def test_file_settings_have_their_variables(tmp_path: Path, word: str, variable: str) -> None:
    assert resolve({}, environ(tmp_path, **{variable: "/f"})).text(word) == "/f"


def test_a_context_is_named_by_option_then_environment_then_the_current_one(kept: Path) -> None:
    assert resolve({}, environ(kept)).context_origin == "current context"
    settings = resolve({}, environ(kept, MQADMIN_CONTEXT="other"))
    assert settings.namesrv == ["10.0.0.2:9876"]
    settings = resolve({"context": "test"}, environ(kept, MQADMIN_CONTEXT="other"))
    assert (settings.context, settings.context_origin) == ("test", "option")


def test_a_context_that_is_not_there_is_an_error_with_the_ones_that_are(kept: Path) -> None:
    with pytest.raises(ConfigError, match="it has: other, test"):
        resolve({"context": "nosuch"}, environ(kept))


def test_a_deleted_current_context_is_not_an_error(tmp_path: Path) -> None:
    save_contexts(config_path(environ(tmp_path)), Contexts("gone", {}))
    assert resolve({}, environ(tmp_path)).namesrv == ["127.0.0.1:9876"]


def test_contexts_survive_a_round_trip_whatever_their_text(tmp_path: Path) -> None:
    path = config_path(environ(tmp_path))
    named = {'we"ird \\ name.x': {"namesrv": 'a"b\\c:1', "tls": True}}
    save_contexts(path, Contexts('we"ird \\ name.x', named))
    again = load_contexts(path)
    assert (again.current, again.named) == ('we"ird \\ name.x', named)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert [p.name for p in Path(path).parent.iterdir()] == ["config.toml"]


def test_control_characters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="control"):
        save_contexts(config_path(environ(tmp_path)), Contexts("", {"a\nb": {}}))


@pytest.mark.parametrize(
    "text",
    [
        "current = [",
        "current = 1\n",
        "contexts = 1\n",
        "[contexts.a]\nnosuch = 'x'\n",
        "[contexts]\na=1",
    ],
)
def test_a_broken_file_names_itself(tmp_path: Path, text: str) -> None:
    path = Path(config_path(environ(tmp_path)))
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load_contexts(str(path))


def test_several_name_servers_and_blanks() -> None:
    settings = resolve({"namesrv": " a:1 ; b:2;"}, {"HOME": "/nonexistent"})
    assert settings.namesrv == ["a:1", "b:2"]


def test_an_address_map_has_from_and_to() -> None:
    settings = resolve({"address_map": "a:1=b:2, c:3=d:4"}, {"HOME": "/nonexistent"})
    assert settings.address_map == {"a:1": "b:2", "c:3": "d:4"}
    with pytest.raises(ConfigError, match="FROM=TO"):
        _ = resolve({"address_map": "a:1"}, {"HOME": "/nonexistent"}).address_map


@pytest.mark.parametrize("text", ["10", "x", "-1s", "0s"])
def test_a_timeout_that_is_none_names_its_origin(text: str) -> None:
    settings = resolve({}, {"HOME": "/nonexistent", "MQADMIN_TIMEOUT": text})
    with pytest.raises(ConfigError, match="environment MQADMIN_TIMEOUT"):
        _ = settings.timeout_ms


def test_a_flag_that_is_neither_true_nor_false_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="environment MQADMIN_TLS: 'maybe'") as caught:
        resolve({}, {"HOME": "/n", "MQADMIN_TLS": "maybe"}).flag("tls")
    assert caught.value.hint == "write true or false, or unset MQADMIN_TLS"


@pytest.mark.parametrize("text", ["0", "0s", "soon"])
def test_a_timeout_that_is_not_one_has_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"timeout \(option\)") as caught:
        assert resolve({"timeout": text}, {"HOME": "/n"}).timeout_ms
    assert caught.value.hint == "write it like 500ms, 10s or 5m"


@pytest.mark.parametrize(
    ("text", "on"), [("1", True), ("yes", True), ("0", False), ("off", False), ("", False)]
)
def test_a_flag_from_the_environment(text: str, on: bool) -> None:
    assert resolve({}, {"HOME": "/n", "MQADMIN_TLS": text}).flag("tls") is on


def test_no_color_takes_effect_with_any_value() -> None:
    assert resolve({}, {"HOME": "/n", "NO_COLOR": "0"}).flag("no-color")


def test_the_secret_comes_from_the_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    by_file = resolve({"secret_key_file": str(tmp_path / "key")}, {"HOME": "/n"})
    assert by_file.secret() == "s3cret"
    assert resolve({}, {"HOME": "/n", "MQADMIN_SECRET_KEY": "v"}).secret() == "v"
    assert "secret-key" not in CONTEXT_WORDS
    # a file named on the command line, or by a context named there, beats the variable
    both = {"XDG_CONFIG_HOME": str(tmp_path), "MQADMIN_SECRET_KEY": "v"}
    assert resolve({"secret_key_file": str(tmp_path / "key")}, both).secret() == "s3cret"
    named = {"c": {"secret-key-file": str(tmp_path / "key")}}
    save_contexts(config_path(both), Contexts("c", named))
    assert resolve({"context": "c"}, both).secret() == "s3cret"
    assert resolve({}, both).secret() == "v"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        read_file(str(tmp_path / "nosuch"))


def test_the_secret_comes_from_the_setting_of_the_highest_precedence(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    named = {"one": {"secret-key-command": "pass"}}
    save_contexts(config_path(environ(tmp_path)), Contexts("", named))
    path = str(tmp_path / "key")
    direct = {"MQADMIN_SECRET_KEY": "direct"}
    assert resolve({}, environ(tmp_path, **direct)).secret() == "direct"
    assert resolve({"secret_key_file": path}, environ(tmp_path, **direct)).secret() == "from-file"
    by_context = resolve({"context": "one"}, environ(tmp_path, **direct))
    assert (by_context.secret_word, by_context.secret()) == ("secret-key-command", None)
    both = {"context": "one", "secret_key_file": path}
    assert resolve(both, environ(tmp_path)).secret_word == "secret-key-file"
    assert resolve({}, environ(tmp_path)).secret_word == ""


def test_the_origin_of_a_java_account_is_shown(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("")
    found = resolve({}, environ(tmp_path, ROCKETMQ_HOME=str(tmp_path)))
    assert found.effective["tools-yml"].origin == "environment ROCKETMQ_HOME"
    assert found.account_file == str(tmp_path / "conf" / "tools.yml")
    own = resolve({"access_key": "me"}, environ(tmp_path, ROCKETMQ_HOME=str(tmp_path)))
    assert own.account_file is None


def context_file(tmp_path: Path, text: str) -> Path:
    path = Path(config_path(environ(tmp_path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("word", ["read-only", "protected", "tls", "no-color"])
@pytest.mark.parametrize("text", ['"true"', '"false"', '"yes"', '""'])
def test_a_flag_of_a_context_is_true_or_false_and_not_a_text(
    tmp_path: Path, word: str, text: str
) -> None:
    """A guard that is written as a text must not be accepted and then not apply."""
    path = context_file(tmp_path, f"[contexts.a]\n{word} = {text}\n")
    with pytest.raises(ConfigError, match=f"contexts.a.{word} is true or false") as caught:
        load_contexts(str(path))
    assert caught.value.hint == f"write {word} = true, without quotation marks"


@pytest.mark.parametrize("word", ["namesrv", "timeout", "address-map", "access-key", "tls-ca"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_a_text_of_a_context_is_not_a_flag(tmp_path: Path, word: str, value: str) -> None:
    """A name server that is written as a flag must not select the default one."""
    path = context_file(tmp_path, f"[contexts.a]\n{word} = {value}\n")
    with pytest.raises(ConfigError, match=f"contexts.a.{word} is a text"):
        load_contexts(str(path))


@pytest.mark.parametrize(
    "line",
    ["timeout = 5", "namesrv = ['a:1']", "secret-key = 'x'", "current = 'a'", "[contexts.a.b]"],
)
def test_other_types_and_other_settings_are_refused_with_the_known_ones(
    tmp_path: Path, line: str
) -> None:
    path = context_file(tmp_path, f"[contexts.a]\n{line}\n")
    with pytest.raises(ConfigError, match="is not a setting") as caught:
        load_contexts(str(path))
    assert caught.value.hint == "settings: " + ", ".join(CONTEXT_WORDS)


def test_a_file_that_is_a_folder_is_an_error_with_its_path(tmp_path: Path) -> None:
    Path(config_path(environ(tmp_path))).mkdir(parents=True)
    with pytest.raises(ConfigError, match="Is a directory") as caught:
        load_contexts(config_path(environ(tmp_path)))
    assert caught.value.hint == "repair or remove the file"


def test_a_missing_file_has_no_contexts(tmp_path: Path) -> None:
    found = load_contexts(str(tmp_path / "none.toml"))
    assert (found.current, found.named) == ("", {})


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = context_file(tmp_path, "")
    path.write_bytes(b'current = "\xff"\n')
    with pytest.raises(ConfigError, match="context file"):
        load_contexts(str(path))


@pytest.mark.parametrize("value", [True, False])
def test_flags_survive_a_round_trip(tmp_path: Path, value: bool) -> None:
    path = config_path(environ(tmp_path))
    save_contexts(path, Contexts("", {"a": {"tls": value, "protected": value}}))
    assert load_contexts(path).named == {"a": {"tls": value, "protected": value}}


def test_any_contexts_survive_a_round_trip(tmp_path: Path, rng: random.Random) -> None:
    path = config_path(environ(tmp_path))
    characters = "abz09 \\\"'.#[]=äß订_-"
    for _ in range(50):
        named = {
            "".join(rng.choices(characters, k=rng.randrange(1, 9))): {
                "namesrv": "".join(rng.choices(characters, k=rng.randrange(9))),
                "read-only": rng.random() < 0.5,
            }
            for _ in range(rng.randrange(1, 4))
        }
        current = rng.choice([*named, ""])
        save_contexts(path, Contexts(current, named))
        again = load_contexts(path)
        assert (again.current, again.named) == (current, named)


def test_a_folder_that_cannot_be_created_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "mqadmin" / "config.toml")
    with pytest.raises(ConfigError, match="Not a directory") as caught:
        save_contexts(path, Contexts("", {}))
    assert path in caught.value.message


def test_a_guard_of_the_context_in_use_applies(tmp_path: Path) -> None:
    context_file(tmp_path, "[contexts.prod]\nnamesrv = 'p:1'\nread-only = true\n")
    settings = resolve({"context": "prod"}, environ(tmp_path))
    assert (settings.read_only_context, settings.protected_context) == ("prod", "")


@pytest.mark.parametrize("chosen", [{"namesrv": "x:1;p:1"}, {"namesrv": "p:1"}])
def test_a_guard_applies_to_its_name_servers_however_they_are_selected(
    tmp_path: Path, chosen: dict[str, str]
) -> None:
    context_file(tmp_path, "[contexts.prod]\nnamesrv = 'p:1, q:1'\nprotected = true\n")
    assert resolve(chosen, environ(tmp_path)).protected_context == "prod"
    variables = {"NAMESRV_ADDR": chosen["namesrv"]}
    assert resolve({}, environ(tmp_path, **variables)).protected_context == "prod"


def test_a_guard_of_another_cluster_does_not_apply(tmp_path: Path) -> None:
    context_file(
        tmp_path,
        "[contexts.prod]\nnamesrv = 'p:1'\nprotected = true\n[contexts.test]\nnamesrv = 't:1'\n",
    )
    assert resolve({"context": "test"}, environ(tmp_path)).protected_context == ""
    assert resolve({"namesrv": "p:2"}, environ(tmp_path)).protected_context == ""


def test_of_several_guards_the_context_in_use_is_named_first(tmp_path: Path) -> None:
    context_file(
        tmp_path,
        "[contexts.a]\nnamesrv = 'p:1'\nprotected = true\n"
        "[contexts.z]\nnamesrv = 'p:1'\nprotected = true\n",
    )
    assert resolve({"context": "z"}, environ(tmp_path)).guards["protected"] == ["z", "a"]
    assert resolve({"namesrv": "p:1"}, environ(tmp_path)).guards["protected"] == ["a", "z"]


def test_a_guard_cannot_be_removed_by_a_variable(tmp_path: Path) -> None:
    context_file(tmp_path, "[contexts.a]\nnamesrv = 'p:1'\nread-only = true\n")
    variables = {"MQADMIN_READ_ONLY": "0", "MQADMIN_PROTECTED": "0", "NAMESRV_ADDR": "p:1"}
    assert resolve({}, environ(tmp_path, **variables)).read_only_context == "a"


def test_a_flag_that_the_environment_unsets_is_reported_as_overridden(tmp_path: Path) -> None:
    context_file(tmp_path, "current = 'a'\n[contexts.a]\nnamesrv = 'p:1'\ntls = true\n")
    settings = resolve({}, environ(tmp_path, MQADMIN_TLS="off"))
    assert not settings.flag("tls")
    (sentence,) = settings.overrides
    assert sentence.endswith("overrides tls of the current context a (True)")


def test_a_file_over_the_limit_is_refused_and_at_the_limit_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"12345")
    assert read_file(str(path), 5) == b"12345"
    with pytest.raises(ConfigError, match="longer than 4 bytes"):
        read_file(str(path), 4)


@pytest.mark.parametrize("text", ["=b:1", "a:1=", "=", "a:1=b:2,c"])
def test_an_incomplete_pair_of_an_address_map_names_its_origin(text: str) -> None:
    settings = resolve({}, {"HOME": "/n", "MQADMIN_ADDRESS_MAP": text})
    with pytest.raises(ConfigError, match="environment MQADMIN_ADDRESS_MAP") as caught:
        _ = settings.address_map
    assert "10.0.0.5:10911=127.0.0.1:20911" in caught.value.hint


def test_text_that_is_not_utf8_is_refused_with_its_origin() -> None:
    for word in ("namesrv", "access_key", "output"):
        with pytest.raises(ConfigError, match="not valid UTF-8"):
            resolve({word: "a\udcff"}, {"HOME": "/n"})


def test_the_file_of_contexts_follows_the_variables_of_the_user() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == "/x/mqadmin/config.toml"
    assert config_path({"XDG_CONFIG_HOME": "", "HOME": "/h"}) == "/h/.config/mqadmin/config.toml"


def test_a_secret_file_that_is_not_text_is_refused_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"s3cret\xff")
    settings = resolve({"secret_key_file": str(path)}, {"HOME": "/n"})
    with pytest.raises(ConfigError) as caught:
        settings.secret()
    assert caught.value.message == f"{path}: line 1: not UTF-8: byte 0xff"
    assert caught.value.hint == "write the file as UTF-8 text"


def test_a_context_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("\ufeff[contexts.a]\nnamesrv = 'h:1'\n", encoding="utf-8")
    assert load_contexts(str(path)).named == {"a": {"namesrv": "h:1"}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"# a\n[contexts.\xff]\n", "line 2: not UTF-8: byte 0xff"),
        (b"\0\0", "line 1: a NUL byte"),
    ],
)
def test_a_context_file_that_is_not_text_is_named_with_the_line(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_contexts(str(path))
    assert caught.value.message == f"context file ({path}): {reason}"
    assert caught.value.hint == "repair or remove the file"


def test_a_context_file_that_is_a_folder_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_contexts(str(tmp_path))
    assert caught.value.message == f"context file ({tmp_path}): Is a directory"
