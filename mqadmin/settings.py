"""The settings of a run: option, environment, context, default, and which of them won.

Named contexts live in ``$XDG_CONFIG_HOME/mqadmin/config.toml``::

    current = "test"

    [contexts.test]
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"
    timeout = "5s"
    secret-key-file = "/home/me/.config/mqadmin/test.key"

A context holds the long option words without dashes in front. Secrets are never in it: it names
the file that holds the secret. This module is the only one that touches the file system for the
command line.
"""

import os
from collections.abc import Mapping
from typing import Any

from broker.errors import ConfigError

DEFAULT_NAMESRV = "127.0.0.1:9876"
DEFAULT_TIMEOUT = "10s"

FILE_LIMIT_BYTES = 64 * 1024 * 1024  # a file named on a command line is read whole


class Setting:
    """One setting: its word in options and contexts, its variable, its default."""

    __slots__ = ("default", "env", "in_context", "is_flag", "secret", "word")

    def __init__(
        self,
        word: str,
        env: str = "",
        default: str | None = None,
        *,
        is_flag: bool = False,
        in_context: bool = True,
        secret: bool = False,
    ) -> None:
        self.word = word
        self.env = env
        self.default = default
        self.is_flag = is_flag
        self.in_context = in_context
        self.secret = secret


SETTINGS: tuple[Setting, ...] = (
    Setting("namesrv", "NAMESRV_ADDR", DEFAULT_NAMESRV),
    Setting("output", "MQADMIN_OUTPUT", "table"),
    Setting("timeout", "MQADMIN_TIMEOUT", DEFAULT_TIMEOUT),
    Setting("address-map", "MQADMIN_ADDRESS_MAP"),
    Setting("access-key", "MQADMIN_ACCESS_KEY"),
    Setting("secret-key", "MQADMIN_SECRET_KEY", in_context=False, secret=True),
    Setting("secret-key-file"),
    Setting("tls", "MQADMIN_TLS", is_flag=True),
    Setting("tls-ca"),
    Setting("tls-cert"),
    Setting("tls-key"),
    Setting("no-color", "NO_COLOR", is_flag=True),
)

CONTEXT_WORDS = tuple(s.word for s in SETTINGS if s.in_context)


class Effective:
    """The value of one setting and where it comes from.

    ``origin`` is ``option``, ``environment NAME``, ``context NAME`` or ``default``; ``value`` is
    text, True for a flag that is set, None where nothing gives one.
    """

    __slots__ = ("origin", "value")

    def __init__(self, value: str | bool | None, origin: str) -> None:
        self.value = value
        self.origin = origin


class Settings:
    """All settings of a run; ``context`` is the name of the context in force, "" for none."""

    def __init__(self, effective: dict[str, Effective], context: str, context_origin: str) -> None:
        self.effective = effective
        self.context = context
        self.context_origin = context_origin

    def text(self, word: str) -> str | None:
        """Give a setting as text, None where nothing gives one."""
        value = self.effective[word].value
        return value if isinstance(value, str) else None

    def flag(self, word: str) -> bool:
        """Give a setting that is on or off."""
        return self.effective[word].value is True

    @property
    def namesrv(self) -> list[str]:
        """The name server addresses, or one ``http://`` address to discover them."""
        text = self.text("namesrv") or DEFAULT_NAMESRV
        return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]

    @property
    def timeout_ms(self) -> int:
        """The total deadline of the run."""
        from broker.common.times import parse_duration_ms

        effective = self.effective["timeout"]
        try:
            timeout_ms = parse_duration_ms(str(effective.value))
        except (ValueError, ConfigError) as error:
            raise ConfigError(
                f"timeout ({effective.origin}): {error}", "write it like 500ms, 10s or 5m"
            ) from error
        if timeout_ms <= 0:
            raise ConfigError(f"timeout ({effective.origin}): it must be longer than 0")
        return timeout_ms

    @property
    def address_map(self) -> dict[str, str]:
        """Where to dial instead of the advertised address."""
        effective = self.effective["address-map"]
        pairs: dict[str, str] = {}
        for part in (str(effective.value) if effective.value else "").split(","):
            if not part.strip():
                continue
            advertised, separator, dialled = part.strip().partition("=")
            if not separator or not advertised or not dialled:
                raise ConfigError(
                    f"address map ({effective.origin}): {part!r} is not FROM=TO",
                    "write it like 10.0.0.5:10911=127.0.0.1:20911, several with commas",
                )
            pairs[advertised] = dialled
        return pairs

    def secret(self) -> str | None:
        """Give the secret key: the variable, else the content of the secret key file."""
        direct = self.text("secret-key")
        if direct:
            return direct
        path = self.text("secret-key-file")
        if not path:
            return None
        return read_file(path).decode("utf-8", "surrogateescape").strip()


def resolve(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Find each setting: option, environment, context, default.

    ``options`` uses Python names (``address_map``). The context file is read only if there is
    one; a context that is named but not there is a ``ConfigError``.
    """
    name, name_origin = "", "default"
    if options.get("context"):
        name, name_origin = str(options["context"]), "option"
    elif environ.get("MQADMIN_CONTEXT"):
        name, name_origin = environ["MQADMIN_CONTEXT"], "environment MQADMIN_CONTEXT"
    chosen: dict[str, Any] = {}
    path = config_path(environ)
    if name or os.path.exists(path):
        contexts = load_contexts(path)
        if not name and contexts.current:
            name, name_origin = contexts.current, "current context"
        if name and name not in contexts.named and name_origin != "current context":
            known = ", ".join(sorted(contexts.named)) or "none"
            raise ConfigError(
                f"context {name!r} ({name_origin}): not in {path}; it has: {known}",
                f"mqadmin context set {name} --namesrv ADDR",
            )
        chosen = contexts.named.get(name, {})
    effective = {}
    for setting in SETTINGS:
        effective[setting.word] = _effective(setting, options, environ, chosen, name)
    return Settings(effective, name, name_origin)


def _effective(
    setting: Setting,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    chosen: Mapping[str, Any],
    context: str,
) -> Effective:
    given = options.get(setting.word.replace("-", "_"))
    if given not in (None, False):
        return Effective(given, "option")
    from_env = environ.get(setting.env, "") if setting.env else ""
    if from_env:
        if not setting.is_flag:
            return Effective(from_env, f"environment {setting.env}")
        # NO_COLOR counts whatever its text; other flags can be switched off by words
        if setting.env == "NO_COLOR" or from_env.lower() not in ("0", "false", "no", "off"):
            return Effective(True, f"environment {setting.env}")
        return Effective(None, f"environment {setting.env}")
    if setting.in_context and setting.word in chosen:
        return Effective(chosen[setting.word], f"context {context}")
    return Effective(setting.default, "default")


class Contexts:
    """The context file: the name in use ("" for none) and the settings by context name."""

    def __init__(self, current: str, named: dict[str, dict[str, Any]]) -> None:
        self.current = current
        self.named = named


def config_path(environ: Mapping[str, str]) -> str:
    """Name the context file: ``$XDG_CONFIG_HOME/mqadmin/config.toml``, else under ``~/.config``."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".config"
    )
    return os.path.join(base, "mqadmin", "config.toml")


def load_contexts(path: str) -> Contexts:
    """Read the context file; no file gives no contexts, a broken one a ``ConfigError``."""
    import tomllib

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except FileNotFoundError:
        return Contexts("", {})
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"context file ({path}): {error}", "mend or remove the file") from error
    named = document.get("contexts", {})
    current = document.get("current", "")
    if not isinstance(named, dict) or not isinstance(current, str):
        raise ConfigError(f"context file ({path}): 'contexts' is a table, 'current' a text")
    for name, settings in named.items():
        if not isinstance(settings, dict):
            raise ConfigError(f"context file ({path}): contexts.{name} is not a table")
        for word, value in settings.items():
            if word not in CONTEXT_WORDS or not isinstance(value, (str, bool)):
                raise ConfigError(
                    f"context file ({path}): contexts.{name}.{word} is no setting",
                    "settings: " + ", ".join(CONTEXT_WORDS),
                )
    return Contexts(current, named)


def save_contexts(path: str, contexts: Contexts) -> None:
    """Write the context file whole, readable by its owner only, and swap it in by a rename."""
    lines = []
    if contexts.current:
        lines.append(f"current = {_toml_text(contexts.current)}\n")
    for name in sorted(contexts.named):
        lines.append(f"\n[contexts.{_toml_text(name)}]\n")
        for word in CONTEXT_WORDS:
            if word in contexts.named[name]:
                value = contexts.named[name][word]
                shown = "true" if value is True else _toml_text(str(value))
                lines.append(f"{word} = {shown}\n")
    folder = os.path.dirname(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("".join(lines).lstrip("\n"))
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"context file ({path}): {error.strerror}") from error


def _toml_text(text: str) -> str:
    if not text.isprintable():
        raise ConfigError(f"context: {text!r} holds control characters")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_file(path: str, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
    """Read a file named on the command line whole, up to ``limit_bytes``."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise ConfigError(f"{path}: longer than {limit_bytes} bytes")
    return data
