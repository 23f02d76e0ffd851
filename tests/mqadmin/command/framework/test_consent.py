"""--yes CONTEXT on a command line."""

from pathlib import Path

import pytest

from mqadmin.command.framework.consent import consent_words


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "mqadmin").mkdir()
    (tmp_path / "mqadmin" / "config.toml").write_text(
        '[contexts.prod]\nprotected = true\n[contexts.test]\nnamesrv = "h:1"\n'
    )
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topic create T --yes prod", "topic create T --yes-context prod"),
        ("topic create T -y prod", "topic create T --yes-context prod"),
        ("--yes prod topic create T", "--yes-context prod topic create T"),
        ("topic create T --yes=prod", "topic create T --yes-context prod"),
        ("topic create T --yes=other", "topic create T --yes-context other"),
        ("topic create --yes test", "topic create --yes test"),
        ("topic create --yes T", "topic create --yes T"),
        ("topic create T --yes", "topic create T --yes"),
        ("topic create -- --yes prod", "topic create -- --yes prod"),
        ("topic list", "topic list"),
    ],
)
def test_yes_takes_the_name_of_a_guarded_context_only(
    environ: dict[str, str], line: str, expected: str
) -> None:
    assert consent_words(line.split(), environ) == expected.split()
