"""``mqadmin namesrv``: config show and set, kv, write-perm."""

from typing import Annotated

from broker.errors import ConfigError
from mqadmin.admin.namesrv.library import NamesrvAdmin
from mqadmin.admin.result import Plan
from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.output.values import plain
from mqadmin.output.view import View

NOUN = Noun(
    "namesrv",
    """Show and change name servers: configuration, KV configuration, write permissions.

    Name servers share no state: every command asks or changes each of those that --namesrv names.
    The KV configuration contains texts by namespace and key; the namespace ORDER_TOPIC_CONFIG has
    the order configuration of topics.
    """,
)

NAMESRV_CONFIG = View("namesrv.config.show", ("address", "key", "value"), keep=("value",))
KV_LIST = View("namesrv.kv.list", ("address", "namespace", "key", "value"))
KV_GET = View("namesrv.kv.get", ("address", "namespace", "key", "value"))

Setting = Annotated[list[str], Argument("KEY=VALUE", help="New values of settings.")]
Namespace = Annotated[str, Argument("NAMESPACE", help="Namespace of the entry.")]
Key = Annotated[str, Argument("KEY", help="Key of the entry.")]
Broker = Annotated[str, Argument("BROKER", help="Name of the broker.", complete="broker")]


def settings_of(words: list[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` words; ConfigError for any other word."""
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise ConfigError(f"not a setting: {word!r}", "write KEY=VALUE")
        values[key] = value
    return values


@NOUN.verb(
    "config show",
    view=NAMESRV_CONFIG,
    examples=["mqadmin namesrv config show", "mqadmin namesrv config show --key scan -o json"],
)
def config_show(
    session: Session,
    keys: Annotated[
        list[str] | None,
        Option(
            "--key",
            "-k",
            metavar="TEXT",
            help="Only keys that contain this text; may be repeated.",
        ),
    ] = None,
) -> None:
    """Show the configuration of every name server."""
    listing = NamesrvAdmin(session.admin).config()
    wanted = [key.lower() for key in keys or []]
    items = [plain(item) for item in listing.items]
    for item in items:
        item["config"] = {
            key: value
            for key, value in item["config"].items()
            if not wanted or any(word in key.lower() for word in wanted)
        }
    if wanted and items and not any(item["config"] for item in items):
        session.report(NO, "notFound", f"no key contains {' or '.join(keys or [])}")
    rows = items
    if session.is_flat:
        rows = [
            {**item, "key": key, "value": value}
            for item in items
            for key, value in item["config"].items()
        ]
    session.emit_listing(NAMESRV_CONFIG, listing, items=rows)


@NOUN.verb(
    "config set",
    view=change_view("namesrv.config.set"),
    examples=["mqadmin namesrv config set scanNotActiveBrokerInterval=6000 --dry-run"],
    changes=True,
)
def config_set(session: Session, settings: Setting) -> None:
    """Change settings of every name server, and read them back.

    A key that a name server does not have, or a value of another type, is refused: the name server
    would drop it and report success.
    """
    values = settings_of(settings)
    run_change(
        session,
        NamesrvAdmin,
        lambda library: library.plan_config_set(values),
        f"Set {', '.join(values)} on every name server?",
    )


@NOUN.verb("kv list", view=KV_LIST, examples=["mqadmin namesrv kv list ORDER_TOPIC_CONFIG"])
def kv_list(session: Session, namespace: Namespace) -> None:
    """List the entries of a namespace, per name server."""
    listing = NamesrvAdmin(session.admin).kv_list(namespace)
    session.emit_listing(KV_LIST, listing, nothing=f"namespace {namespace} has no entry")


@NOUN.verb("kv get", view=KV_GET, examples=["mqadmin namesrv kv get ORDER_TOPIC_CONFIG orders"])
def kv_get(session: Session, namespace: Namespace, key: Key) -> None:
    """Show one entry of a namespace, per name server."""
    listing = NamesrvAdmin(session.admin).kv_get(namespace, key)
    session.emit_listing(
        KV_GET,
        listing,
        nothing=f"namespace {namespace} has no key {key}",
        hint=f"mqadmin namesrv kv list {namespace} lists the entries",
    )


@NOUN.verb(
    "kv put",
    view=change_view("namesrv.kv.put"),
    examples=["mqadmin namesrv kv put ORDER_TOPIC_CONFIG orders 'broker-a:4;broker-b:4'"],
    changes=True,
)
def kv_put(
    session: Session,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, Argument("VALUE", help="New value.")],
) -> None:
    """Create or change an entry on every name server, and read it back."""
    run_change(
        session,
        NamesrvAdmin,
        lambda library: library.plan_kv_put(namespace, key, value),
        f"Put {namespace}/{key} on every name server?",
    )


@NOUN.verb(
    "kv delete",
    view=change_view("namesrv.kv.delete"),
    examples=["mqadmin namesrv kv delete ORDER_TOPIC_CONFIG orders"],
    changes=True,
)
def kv_delete(session: Session, namespace: Namespace, key: Key) -> None:
    """Delete an entry from every name server that has it."""

    def plan(library: NamesrvAdmin) -> Plan:
        found = library.plan_kv_delete(namespace, key)
        if found.empty and not found.errors:
            raise NoResults(
                f"no name server has {namespace}/{key}",
                f"mqadmin namesrv kv list {namespace} lists the entries",
            )
        return found

    run_change(
        session,
        NamesrvAdmin,
        plan,
        f"Delete {namespace}/{key} from every name server?",
    )


@NOUN.verb(
    "write-perm wipe",
    view=change_view("namesrv.write-perm.wipe"),
    examples=["mqadmin namesrv write-perm wipe broker-a --yes"],
    changes=True,
)
def write_perm_wipe(session: Session, broker: Broker) -> None:
    """Remove the write permission of a broker's topics from the routes, for example to drain it.

    It lasts until the name server restarts or the broker registers a changed topic table;
    mqadmin broker config set BROKER brokerPermission=4 is permanent.
    """
    run_change(
        session,
        NamesrvAdmin,
        lambda library: library.plan_write_perm(broker, allow=False),
        f"Remove the write permission of {broker} on every name server?",
    )


@NOUN.verb(
    "write-perm add",
    view=change_view("namesrv.write-perm.add"),
    examples=["mqadmin namesrv write-perm add broker-a --yes"],
    changes=True,
)
def write_perm_add(session: Session, broker: Broker) -> None:
    """Restore the write permission of a broker's topics in the routes."""
    run_change(
        session,
        NamesrvAdmin,
        lambda library: library.plan_write_perm(broker, allow=True),
        f"Restore the write permission of {broker} on every name server?",
    )
