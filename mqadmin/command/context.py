"""``mqadmin context``: list, show, set, use, delete."""

import os
from typing import Annotated, Any

from mqadmin.command.execution.failure import NoResults, UsageFault
from mqadmin.command.execution.online import check_namesrv
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import pair
from mqadmin.output.view import FORMATS, View
from mqadmin.settings import (
    CONTEXT_WORDS,
    SETTINGS,
    Effective,
    Settings,
    config_path,
    load_contexts,
    save_contexts,
)

NOUN = Noun(
    "context",
    """Manage named settings for several clusters.

    A context is a name for a set of global options, kept in $XDG_CONFIG_HOME/mqadmin/config.toml.
    --context NAME (or MQADMIN_CONTEXT) selects one for a command, 'context use' for all that
    follow. Precedence: option, context named by --context, environment, current context, default;
    'context show --origin' prints which one won. Secrets are not kept: a context names the file
    that holds one.

    A read-only context refuses changes of its cluster with status 6; in a protected one a change is
    confirmed by typing the name of the context, or with --yes CONTEXT. Both also hold when the
    name servers of the context are selected in another way, for example by NAMESRV_ADDR.
    """,
)

CONTEXT_LIST = View(
    "context.list",
    ("current", "name", "namesrv", "settings"),
    keep=("current",),
)
CONTEXT_SHOW = View(
    "context.show",
    ("setting", "value"),
    wide=("setting", "value", "origin"),
    keep=("value",),
)

Name = Annotated[str, Argument("NAME", help="Name of the context.", complete="context")]


@NOUN.verb("list", view=CONTEXT_LIST, examples=["mqadmin context list"])
def list_contexts(session: Session) -> None:
    """List the contexts; the current one has a star."""
    contexts = load_contexts(config_path(os.environ))
    rows = [
        _context_row(session, name, contexts.current, contexts.named[name])
        for name in sorted(contexts.named)
    ]
    session.emit(CONTEXT_LIST, rows)


def _context_row(session: Session, name: str, current: str, settings: Any) -> dict[str, Any]:
    marked: Any = name == current
    if session.is_table:
        marked = "*" if marked else None
    rest = {word: value for word, value in settings.items() if word != "namesrv"}
    return {
        "current": marked,
        "name": name,
        "namesrv": settings.get("namesrv"),
        "settings": rest,
    }


@NOUN.verb(
    "show",
    view=CONTEXT_SHOW,
    examples=["mqadmin context show", "mqadmin context show --origin", "mqadmin context show test"],
)
def show(
    session: Session,
    name: Annotated[
        str | None, Argument("NAME", help="This context alone.", complete="context")
    ] = None,
    origin: Annotated[
        bool, Option("--origin", help="Say for each setting where its value comes from.")
    ] = False,
) -> None:
    """Show the settings in force, or those of one context."""
    if name is not None:
        contexts = load_contexts(config_path(os.environ))
        if name not in contexts.named:
            raise _unknown(name, sorted(contexts.named))
        rows = [
            {"setting": word, "value": value, "origin": f"context {name}"}
            for word, value in contexts.named[name].items()
        ]
    else:
        settings = session.settings
        rows = [
            {
                "setting": "context",
                "value": settings.context or None,
                "origin": settings.context_origin,
            }
        ]
        for setting in SETTINGS:
            effective = settings.effective[setting.word]
            value = effective.value
            if setting.secret and value:
                value = "(set, not shown)"
            rows.append({"setting": setting.word, "value": value, "origin": effective.origin})
    if origin and session.form == "table":
        session.form = "wide"
    session.emit(CONTEXT_SHOW, rows)


@NOUN.verb(
    "set",
    view=CONTEXT_SHOW,
    changes=True,
    examples=[
        "mqadmin context set test --namesrv '10.0.0.1:9876;10.0.0.2:9876' --timeout 5s",
        "mqadmin context set test --unset timeout",
        "mqadmin context set prod --namesrv 10.0.0.1:9876 --protected",
    ],
)
def set_context(
    session: Session,
    name: Name,
    unset: Annotated[
        list[str] | None,
        Option("--unset", metavar="SETTING", help="Remove a setting; may be repeated."),
    ] = None,
    put: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="SETTING=VALUE",
            help="Keep a setting, 'output=json' for one; may be repeated.",
            parse=pair,
        ),
    ] = None,
    read_only: Annotated[
        bool | None, Option("--read-only/--no-read-only", help="Refuse changes of the cluster.")
    ] = None,
    protected: Annotated[
        bool | None,
        Option("--protected/--no-protected", help="Changes need the name of the context."),
    ] = None,
) -> None:
    """Create a context, or change some of its settings.

    The settings are the global options on the same command line; others are not changed.
    -o is the form of this command's own output and is kept only with --set output=FORMAT.
    """
    path = config_path(os.environ)
    contexts = load_contexts(path)
    settings = dict(contexts.named.get(name, {}))
    for word in unset or ():
        if word not in CONTEXT_WORDS:
            raise UsageFault(
                f"context set: {word!r} is not a setting", "settings: " + ", ".join(CONTEXT_WORDS)
            )
        settings.pop(word, None)
    for word in CONTEXT_WORDS:
        given = session.options.get(word.replace("-", "_"))
        if given not in (None, False) and word != "output":
            settings[word] = given
    settings.update(_put(word.split("=", 1)) for word in put or ())
    for word, guard in (("read-only", read_only), ("protected", protected)):
        if guard is not None:
            settings[word] = guard
    if not settings and name not in contexts.named:
        raise UsageFault(
            "context set: no setting is given",
            f"mqadmin context set {name} --namesrv 127.0.0.1:9876",
        )
    _check(session, settings)
    contexts.named[name] = settings
    if not session.dry_run:
        save_contexts(path, contexts)
    session.emit(CONTEXT_SHOW, _rows(name, settings))
    if session.dry_run:
        session.end_dry_run()
    else:
        session.note(f"context {name} is kept in {path}")


def _put(pair_: list[str]) -> tuple[str, str | bool]:
    """Parse a setting and its value from ``--set``; UsageFault for an invalid one."""
    word, text = pair_
    setting = next((s for s in SETTINGS if s.word == word and s.in_context), None)
    if setting is None:
        raise UsageFault(
            f"context set: {word!r} is not a setting", "settings: " + ", ".join(CONTEXT_WORDS)
        )
    if setting.is_flag and text not in ("true", "false"):
        raise UsageFault(f"context set: {word} is true or false, not {text!r}")
    if word == "output" and text not in FORMATS:
        raise UsageFault(
            f"context set: {text!r} is not an output form", "one of " + ", ".join(FORMATS)
        )
    return word, text == "true" if setting.is_flag else text


def _check(session: Session, settings: dict[str, Any]) -> None:
    """Refuse invalid values, for example a duration or an address, before they are saved."""
    effective = {word: Effective(settings.get(word), "option") for word in CONTEXT_WORDS}
    probe = Settings(effective, "", "default")
    if "timeout" in settings:
        _ = probe.timeout_ms
    _ = probe.address_map
    if "namesrv" in settings:
        check_namesrv(probe, probe.namesrv)


@NOUN.verb("use", view=CONTEXT_SHOW, changes=True, examples=["mqadmin context use test"])
def use(
    session: Session,
    name: Annotated[
        str, Argument("NAME", help="Name of the context; - for none.", complete="context")
    ],
) -> None:
    """Make a context the current one for all commands that follow."""
    path = config_path(os.environ)
    contexts = load_contexts(path)
    if name != "-" and name not in contexts.named:
        raise _unknown(name, sorted(contexts.named))
    contexts.current = "" if name == "-" else name
    _show_to_programs(session, name, contexts.named.get(name, {}))
    if session.dry_run:
        session.end_dry_run()
        return
    save_contexts(path, contexts)
    session.note(f"current context: {contexts.current or 'none'}")


@NOUN.verb(
    "delete", view=CONTEXT_SHOW, changes=True, examples=["mqadmin context delete test --yes"]
)
def delete(session: Session, name: Name) -> None:
    """Delete a context."""
    session.require_consent(cluster=False)
    path = config_path(os.environ)
    contexts = load_contexts(path)
    if name not in contexts.named:
        raise _unknown(name, sorted(contexts.named))
    if session.dry_run:
        session.note(f"would delete context {name}")
        _show_to_programs(session, name, {})
        session.end_dry_run()
        return
    if not session.consent(f"delete context {name}?"):
        return
    del contexts.named[name]
    if contexts.current == name:
        contexts.current = ""
    save_contexts(path, contexts)
    _show_to_programs(session, name, {})
    session.note(f"context {name} is gone")


def _show_to_programs(session: Session, name: str, settings: dict[str, Any]) -> None:
    """Print the settings of the context in forms other than tables, which get a sentence."""
    if not session.is_table:
        session.emit(CONTEXT_SHOW, _rows(name, settings))


def _rows(name: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"setting": word, "value": value, "origin": f"context {name}"}
        for word, value in settings.items()
    ]


def _unknown(name: str, known: list[str]) -> NoResults:
    listed = ", ".join(known) or "none"
    return NoResults(
        f"context {name!r}: not there; there are: {listed}",
        f"mqadmin context set {name} --namesrv ADDR",
    )
