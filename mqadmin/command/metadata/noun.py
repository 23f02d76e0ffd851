"""``mqadmin metadata``: export, diff, apply."""

from typing import Annotated

from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import metadata, metadata_file, metadata_scope, save_metadata
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.command.metadata.secrets import SecretsFile, user_passwords
from mqadmin.output.view import View

NOUN = Noun(
    "metadata",
    """Export, compare and apply the metadata of a cluster.

    Metadata are topics with their attributes, subscription groups, users, access rules, KV entries
    of name servers and broker settings. A file of one cluster can be applied to another one.
    """,
)

METADATA_EXPORT = View("metadata.export", ("kind", "name", "brokerName", "fields"))
METADATA_DIFF = View(
    "metadata.diff",
    ("kind", "name", "target", "status", "file", "cluster"),
    keep=("file", "cluster"),
)

KINDS = ("topic", "group", "kv", "user", "acl", "setting")


def object_kind(text: str) -> str:
    """Check a kind of object."""
    if text not in KINDS:
        raise ValueError(f"{text!r} is not one of {', '.join(KINDS)}")
    return text


Cluster = Annotated[
    str | None,
    Option("--cluster", "-c", metavar="NAME", help="The cluster; default: the only cluster."),
]
Only = Annotated[
    list[str] | None,
    Option(
        "--only",
        metavar="KIND",
        help=f"Only {', '.join(KINDS[:-1])} or {KINDS[-1]}; may be repeated.",
        parse=object_kind,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    Option(
        "--namespace",
        metavar="NAME",
        help="KV namespace, may be repeated; default ORDER_TOPIC_CONFIG.",
    ),
]
File = Annotated[str, Argument("FILE", help="File of 'metadata export'.", complete="file")]


class CompareOptions(Options):
    """Options of the commands that compare a file with a cluster."""

    path: File
    cluster: Cluster = None
    only: Only = None
    settings: Annotated[
        bool, Option("--settings", help="Broker settings, too; default: all other kinds.")
    ] = False
    ignore: Annotated[
        list[str] | None,
        Option(
            "--ignore",
            metavar="FIELD",
            help="Keep this field (example: perm) of present objects; may be repeated.",
        ),
    ] = None


@NOUN.verb(
    "export",
    view=METADATA_EXPORT,
    examples=[
        "mqadmin metadata export --out cluster.json",
        "mqadmin metadata export --only topic --only group -o json",
    ],
)
def export(
    session: Session,
    out: Annotated[
        str | None,
        Option("--out", metavar="FILE", help="New JSON file; default: print.", complete="file"),
    ] = None,
    cluster: Cluster = None,
    only: Only = None,
    namespaces: Namespaces = None,
) -> None:
    """Export the metadata of a cluster.

    An object that is the same on every broker is one item without brokerName. Left out are
    objects of RocketMQ itself, retry and DLQ topics, committed offsets (see 'offset export'),
    passwords and other secrets, paths, and settings that identify a broker. Name servers list KV
    entries by namespace only: name further ones with --namespace.
    """
    scope = metadata_scope(only, None, cluster=cluster, namespaces=namespaces)
    content, listing = metadata(session.admin).export(scope)
    if out is not None and not listing.errors:
        save_metadata(out, content)
    if out is None or listing.errors or not session.is_table:
        session.emit_listing(METADATA_EXPORT, listing, nothing="the cluster has no metadata")
    if out is not None and listing.errors:
        session.note(f"{out} was not written, because it would be incomplete")
    elif out is not None:
        session.note(f"{len(listing.items)} objects of cluster {content.cluster} are in {out}")


@NOUN.verb(
    "diff",
    view=METADATA_DIFF,
    examples=[
        "mqadmin metadata diff cluster.json",
        "mqadmin metadata diff cluster.json --ignore perm --only topic -o json",
    ],
)
def diff(
    session: Session,
    given: CompareOptions,
    ignore_extra: Annotated[
        bool, Option("--ignore-extra", help="Omit objects that only the cluster has.")
    ] = False,
) -> None:
    """Compare a metadata file with a cluster.

    Status 0 if nothing differs, 1 if something does. 'missing' objects are in the file only,
    'extra' ones in the cluster only; of the others the fields that differ are shown.
    """
    content = metadata_file(given.path)
    scope = metadata_scope(
        given.only, given.ignore, cluster=given.cluster, settings=_settings("diff", given)
    )
    listing = metadata(session.admin).diff(content, scope)
    items = [row for row in listing.items if not (ignore_extra and row.status == "extra")]
    session.emit_listing(METADATA_DIFF, listing, items=items)
    if items:
        session.report(NO, "differs", f"{len(items)} objects differ from {given.path}")


@NOUN.verb(
    "apply",
    view=change_view("metadata.apply"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin metadata apply cluster.json --dry-run",
        "mqadmin metadata apply cluster.json --ignore perm --yes",
        "mqadmin metadata apply cluster.json --secrets-file users.secret --yes",
        "mqadmin metadata apply cluster.json --plan metadata.plan",
    ],
)
def apply(session: Session, given: CompareOptions, secrets_file: SecretsFile = None) -> None:
    """Create and update the objects of a metadata file in a cluster.

    Nothing is deleted: objects, access rules and settings that the file does not name are kept.
    Objects that are as in the file need no change, so that the command can be rerun. --ignore
    keeps a field of present objects; a new object gets all fields of the file.

    The file contains no passwords: a user that the cluster lacks is created with the password of a
    line USER=PASSWORD of --secrets-file, or of the variable MQADMIN_USER_PASSWORD_USER (the name in
    capitals, _ for other characters than A-Z and 0-9). The passwords of present users are
    kept. --plan creates no users, because a plan would contain their passwords.
    """
    content = metadata_file(given.path)
    scope = metadata_scope(
        given.only, given.ignore, cluster=given.cluster, settings=_settings("apply", given)
    )
    passwords = None
    if session.plan_path is None:
        passwords = user_passwords(secrets_file)
    elif secrets_file is not None:
        raise UsageFault(
            "metadata apply: --secrets-file and --plan exclude each other",
            "a plan file would contain the passwords; apply the users without --plan",
        )
    run_change(
        session,
        metadata,
        lambda library: library.plan(content, scope, passwords),
        f"apply {given.path}?",
    )


def _settings(verb: str, given: CompareOptions) -> bool:
    """Return whether settings are compared, too; UsageFault for --settings with --only."""
    if given.settings and given.only:
        raise UsageFault(
            f"metadata {verb}: --settings and --only exclude each other", "use --only setting"
        )
    return bool(given.settings)
