"""The settings of a run and their origin: option, context, environment or default.

Precedence: the option, then the context named by ``--context``, then the environment, then the
context named by ``MQADMIN_CONTEXT`` or ``context use``, then the default. A context named on the
command line is chosen for this command, so an exported variable must not override it.

Named contexts are stored in ``$XDG_CONFIG_HOME/mqadmin/config.toml``::

    current = "test"

    [contexts.test]
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"
    timeout = "5s"
    secret-key-file = "/home/me/.config/mqadmin/test.key"
    protected = true

A context guards its cluster: ``read-only`` refuses changes, ``protected`` demands the name of the
context for each. The guard applies when the context is in use, and also when another origin
(``--namesrv``, ``NAMESRV_ADDR``, another context) selects one of its name servers.

The keys of a context are the long option names without the leading dashes. A context never
contains a secret, only the path of the file that does.
"""

import os
from collections.abc import Mapping
from typing import Any

from broker.common.times import parse_duration_ms
from broker.errors import ConfigError

DEFAULT_NAMESRV = "127.0.0.1:9876"
DEFAULT_TIMEOUT = "10s"
TIMEOUT_HINT = "write it like 500ms, 10s or 5m"

FILE_LIMIT_BYTES = 64 * 1024 * 1024  # a file named on a command line is read into memory


class Setting:
    """One setting: its name in options and contexts, its environment variable, its default."""

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
    Setting("secret-key-file", "MQADMIN_SECRET_KEY_FILE"),
    Setting("secret-key-command", "MQADMIN_SECRET_KEY_COMMAND"),
    Setting("tools-yml", "MQADMIN_TOOLS_YML"),
    Setting("tls", "MQADMIN_TLS", is_flag=True),
    Setting("tls-ca", "MQADMIN_TLS_CA"),
    Setting("tls-cert", "MQADMIN_TLS_CERT"),
    Setting("tls-key", "MQADMIN_TLS_KEY"),
    Setting("dry-run", "MQADMIN_DRY_RUN", is_flag=True, in_context=False),
    Setting("no-color", "NO_COLOR", is_flag=True),
    Setting("read-only", is_flag=True),
    Setting("protected", is_flag=True),
)

CONTEXT_WORDS = tuple(s.word for s in SETTINGS if s.in_context)

_FLAG_WORDS = frozenset(s.word for s in SETTINGS if s.is_flag)

#: Settings of contexts alone: neither a global option nor a variable can change them.
GUARD_WORDS = ("read-only", "protected")

#: Settings that have no influence on which cluster a command uses, and with which credentials.
LOCAL_WORDS = frozenset({"output", "timeout", "no-color"})

#: The settings that lead to the secret of an account, in order of precedence.
SECRET_WORDS = ("secret-key", "secret-key-file", "secret-key-command")

#: The folder of a Java installation, in which Java's tool finds conf/tools.yml.
JAVA_HOME_VARIABLE = "ROCKETMQ_HOME"

#: Settings that are text on the wire or in messages; secrets and file names may be any bytes.
_TEXT_WORDS = ("namesrv", "output", "timeout", "address-map", "access-key")

# Origins in order of precedence, the highest last.
_DEFAULT, _CURRENT, _ENVIRONMENT, _NAMED, _OPTION = range(5)


#: The origin of a context chosen by ``context use``.
CURRENT_CONTEXT = "current context"


class Effective:
    """The value of one setting and its origin.

    ``origin`` is ``option``, ``environment NAME``, ``context NAME`` or ``default``; ``value`` is
    text, True for a flag that is set, None if not set. ``rank`` orders origins; ``overridden`` is
    the value in the context in use that the environment replaced, else None.
    """

    __slots__ = ("origin", "overridden", "rank", "value")

    def __init__(
        self,
        value: str | bool | None,
        origin: str,
        rank: int = _DEFAULT,
        overridden: str | bool | None = None,
    ) -> None:
        self.value = value
        self.origin = origin
        self.rank = rank
        self.overridden = overridden


class Settings:
    """All settings of a run; ``context`` is the name of the context in use, "" for none.

    ``guards`` are the names of the contexts that guard the cluster, by guard (``read-only``,
    ``protected``): the context in use first.
    """

    def __init__(
        self,
        effective: dict[str, Effective],
        context: str,
        context_origin: str,
        guards: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.effective = effective
        self.context = context
        self.context_origin = context_origin
        self.guards = guards or {}

    @property
    def read_only_context(self) -> str:
        """The context that makes the cluster read-only, "" for none."""
        return next(iter(self.guards.get("read-only", ())), "")

    @property
    def protected_context(self) -> str:
        """The context that protects the cluster, "" for none."""
        return next(iter(self.guards.get("protected", ())), "")

    def text(self, word: str) -> str | None:
        """Return a setting as text, None if it is not set."""
        value = self.effective[word].value
        return value if isinstance(value, str) else None

    def flag(self, word: str) -> bool:
        """Return whether a flag is set."""
        return self.effective[word].value is True

    @property
    def namesrv(self) -> list[str]:
        """The name server addresses, or one ``http://`` address to discover them."""
        return _addresses(self.text("namesrv") or "")

    @property
    def timeout_ms(self) -> int:
        """The total deadline of the run, in milliseconds."""
        effective = self.effective["timeout"]
        try:
            timeout_ms = parse_duration_ms(str(effective.value))
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"timeout ({effective.origin}): {error}", TIMEOUT_HINT) from error
        if timeout_ms <= 0:
            raise ConfigError(
                f"timeout ({effective.origin}): it must be longer than 0", TIMEOUT_HINT
            )
        return timeout_ms

    @property
    def address_map(self) -> dict[str, str]:
        """Advertised address → address to connect to."""
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

    @property
    def secret_word(self) -> str:
        """The setting that leads to the secret, "" if none is set.

        That of the highest precedence; of the same origin the variable, the file, the command.
        """
        given = [word for word in SECRET_WORDS if self.text(word)]
        return max(given, key=lambda word: self.effective[word].rank, default="")

    def secret(self) -> str | None:
        """Return the secret key of the variable or the file; None if a command prints it."""
        word = self.secret_word
        if word == "secret-key-file":
            return read_text(self.text(word) or "").strip()
        return self.text(word) if word == "secret-key" else None

    @property
    def account_file(self) -> str | None:
        """The tools.yml with the account, None if none is used.

        An access key of the same or a higher precedence is used instead.
        """
        path, own = self.effective["tools-yml"], self.effective["access-key"]
        if not path.value or (own.value and own.rank >= path.rank):
            return None
        return str(path.value)

    @property
    def overrides(self) -> list[str]:
        """One sentence for each setting of the context in use that the environment replaced.

        Only settings that select the cluster and the credentials.
        """
        return [
            f"{effective.origin} ({effective.value}) overrides {word} of the {self._context_in_use}"
            f" ({effective.overridden})"
            for word, effective in self.effective.items()
            if effective.overridden is not None and word not in LOCAL_WORDS
        ]

    @property
    def _context_in_use(self) -> str:
        current = self.context_origin == CURRENT_CONTEXT
        return f"{'current ' if current else ''}context {self.context}"


def resolve(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Resolve each setting in order of precedence.

    ``options`` uses Python names (``address_map``). The context file is read only if it exists
    or a context is named; ConfigError for a named context that does not exist, and for an empty
    option, which would otherwise select another cluster than the user meant.
    """
    for word in ("context", *(setting.word for setting in SETTINGS)):
        if options.get(word.replace("-", "_")) == "":
            raise ConfigError(
                f"--{word}: the value is empty",
                f"is a variable of the command line not set? write a value, or omit --{word}",
            )
    name, name_origin = "", "default"
    if options.get("context"):
        name, name_origin = str(options["context"]), "option"
    elif environ.get("MQADMIN_CONTEXT"):
        name, name_origin = environ["MQADMIN_CONTEXT"], "environment MQADMIN_CONTEXT"
    chosen: dict[str, Any] = {}
    named: dict[str, dict[str, Any]] = {}
    path = config_path(environ)
    if name or os.path.exists(path):
        contexts = load_contexts(path)
        if not name and contexts.current:
            name, name_origin = contexts.current, CURRENT_CONTEXT
        if name and name not in contexts.named and name_origin != CURRENT_CONTEXT:
            known = ", ".join(sorted(contexts.named)) or "none"
            raise ConfigError(
                f"context {name!r} ({name_origin}): not in {path}; it has: {known}",
                f"mqadmin context set {name} --namesrv ADDR",
            )
        named = contexts.named
        chosen = named.get(name, {})
    rank = _NAMED if name_origin == "option" else _CURRENT
    effective = {
        setting.word: _effective(setting, options, environ, (chosen, name, rank))
        for setting in SETTINGS
    }
    if effective["tools-yml"].value is None:
        effective["tools-yml"] = _java_account(environ)
    for word in _TEXT_WORDS:
        _check_text(word, effective[word])
    return Settings(effective, name, name_origin, _guards(named, name, effective["namesrv"]))


def _java_account(environ: Mapping[str, str]) -> Effective:
    """Return the file in which Java's tool finds the account, if there is one.

    **Source:** RocketMQ ``AclUtils#getAclRPCHook``: conf/tools.yml of the installation.
    """
    home = environ.get(JAVA_HOME_VARIABLE, "")
    path = os.path.join(home, "conf", "tools.yml")
    if not home or not os.path.isfile(path):
        return Effective(None, "default")
    return Effective(path, f"environment {JAVA_HOME_VARIABLE}")


def _guards(
    named: Mapping[str, Mapping[str, Any]], chosen: str, namesrv: Effective
) -> dict[str, list[str]]:
    """Return, by guard, the contexts that guard the cluster: in use, or with its name servers."""
    used = set(_addresses(str(namesrv.value or "")))
    found: dict[str, list[str]] = {}
    for name in sorted(named, key=lambda one: (one != chosen, one)):
        own = _addresses(str(named[name].get("namesrv", "")))
        if name != chosen and used.isdisjoint(own):
            continue
        for word in GUARD_WORDS:
            if named[name].get(word) is True:
                found.setdefault(word, []).append(name)
    return found


def _addresses(text: str) -> list[str]:
    return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]


def _effective(
    setting: Setting,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    context: tuple[Mapping[str, Any], str, int],
) -> Effective:
    given = options.get(setting.word.replace("-", "_"))
    if given not in (None, False):
        return Effective(given, "option", _OPTION)
    chosen, name, rank = context
    kept = chosen.get(setting.word) if setting.in_context else None
    from_context = None if kept is None else Effective(kept, f"context {name}", rank)
    if from_context is not None and rank == _NAMED:
        return from_context
    from_env = environ.get(setting.env, "") if setting.env else ""
    if from_env:
        value = _flag_value(setting, from_env) if setting.is_flag else from_env
        overridden = kept if kept not in (None, value) else None
        return Effective(value, f"environment {setting.env}", _ENVIRONMENT, overridden)
    return from_context or Effective(setting.default, "default")


def _check_text(word: str, effective: Effective) -> None:
    try:
        str(effective.value).encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(
            f"{word} ({effective.origin}): {effective.value!r:.80} is not valid UTF-8"
        ) from None


def _flag_value(setting: Setting, text: str) -> bool | None:
    """Read a flag variable; 0, false, no and off unset it. ConfigError for another word.

    Each value of NO_COLOR is true.
    """
    word = text.lower()
    if setting.env == "NO_COLOR" or word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return None
    raise ConfigError(
        f"environment {setting.env}: {text!r:.80} is not true or false",
        f"write true or false, or unset {setting.env}",
    )


class Contexts:
    """The context file: the current context ("" for none) and the settings by context name."""

    def __init__(self, current: str, named: dict[str, dict[str, Any]]) -> None:
        self.current = current
        self.named = named


def config_path(environ: Mapping[str, str]) -> str:
    """Return the path of the context file.

    ``$XDG_CONFIG_HOME/mqadmin/config.toml``, else ``~/.config/mqadmin/config.toml``.
    """
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".config"
    )
    return os.path.join(base, "mqadmin", "config.toml")


def load_contexts(path: str) -> Contexts:
    """Read the context file; a missing file has no contexts, ConfigError for an invalid one."""
    import tomllib

    source, hint = f"context file ({path})", "repair or remove the file"
    try:
        with open(path, "rb") as file:
            document = tomllib.loads(text_of(file.read(), source))
    except FileNotFoundError:
        return Contexts("", {})
    except ConfigError as error:
        raise ConfigError(error.message, hint) from error
    except (OSError, tomllib.TOMLDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise ConfigError(f"{source}: {reason}", hint) from error
    named = document.get("contexts", {})
    current = document.get("current", "")
    if not isinstance(named, dict) or not isinstance(current, str):
        raise ConfigError(f"context file ({path}): 'contexts' is a table, 'current' a text")
    for name, settings in named.items():
        if not isinstance(settings, dict):
            raise ConfigError(f"context file ({path}): contexts.{name} is not a table")
        for word, value in settings.items():
            _check_value(path, f"contexts.{name}.{word}", word, value)
    return Contexts(current, named)


def _check_value(path: str, place: str, word: str, value: object) -> None:
    """ConfigError unless ``word`` is a setting of contexts and the value has its type.

    A guard that is written as a text would otherwise be accepted and not apply.
    """
    if word not in CONTEXT_WORDS or not isinstance(value, (str, bool)):
        raise ConfigError(
            f"context file ({path}): {place} is not a setting",
            "settings: " + ", ".join(CONTEXT_WORDS),
        )
    if word in _FLAG_WORDS and not isinstance(value, bool):
        raise ConfigError(
            f"context file ({path}): {place} is true or false, not a text",
            f"write {word} = true, without quotation marks",
        )
    if word not in _FLAG_WORDS and not isinstance(value, str):
        raise ConfigError(
            f"context file ({path}): {place} is a text, not true or false",
            f'write {word} = "TEXT"',
        )


def save_contexts(path: str, contexts: Contexts) -> None:
    """Write the context file atomically by a rename, readable only by its owner."""
    lines = []
    if contexts.current:
        lines.append(f"current = {_toml_text(contexts.current)}\n")
    for name in sorted(contexts.named):
        lines.append(f"\n[contexts.{_toml_text(name)}]\n")
        for word in CONTEXT_WORDS:
            if word in contexts.named[name]:
                value = contexts.named[name][word]
                shown = str(value).lower() if isinstance(value, bool) else _toml_text(value)
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
    """Read a file named on the command line into memory, up to ``limit_bytes``."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "is the path right?") from error
    if len(data) > limit_bytes:
        raise ConfigError(f"{path}: longer than {limit_bytes} bytes")
    return data


def read_text(path: str, limit_bytes: int = FILE_LIMIT_BYTES) -> str:
    """Read a text file named on the command line; ConfigError with path and line."""
    return text_of(read_file(path, limit_bytes), path)


def text_of(data: bytes, source: str) -> str:
    """Decode the content of ``source``; ConfigError with source and line."""
    from broker.common.text import decode_text

    try:
        return decode_text(data)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}", error.hint) from None
