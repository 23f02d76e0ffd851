from pathlib import Path

import pytest

from broker.errors import ConfigError
from mqadmin.command.execution.tools_yml import java_account


@pytest.mark.parametrize(
    ("text", "account"),
    [
        ("accessKey: rocketmq2\nsecretKey: 12345678\n", ("rocketmq2", "12345678")),
        ("# keys\nsecretKey: ' a: b '\naccessKey: \"me\"\n", ("me", "a: b")),
        ("accessKey: me\n", None),
        ("accessKey: me\nsecretKey: ''\n", None),
        ("", None),
        ("- accessKey\n", None),
    ],
)
def test_both_keys_are_an_account(
    tmp_path: Path, text: str, account: tuple[str, str] | None
) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(text)
    assert java_account(str(path)) == account


@pytest.mark.parametrize("text", [b"secretKey: 'topsecret\n", b"a: b: topsecret", b"\xff\xfe\x00"])
def test_a_file_that_is_not_yaml_is_named_without_its_content(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "tools.yml"
    path.write_bytes(text)
    with pytest.raises(ConfigError) as found:
        java_account(str(path))
    assert f"{path}" in found.value.message
    assert "line" in found.value.message
    assert "topsecret" not in found.value.message + found.value.hint


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        java_account(str(tmp_path / "none.yml"))
