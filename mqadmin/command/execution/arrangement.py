"""The options ``--columns``, ``--no-headers`` and ``--sort`` of commands that print a list."""

from typing import Any

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.framework.declare import Verb
from mqadmin.output.view import Arrangement

COLUMN_FORMS = ("table", "wide", "csv", "markdown")
HEADER_FORMS = ("table", "wide", "csv")


def arrangement_of(verb: Verb, form: str, options: dict[str, Any]) -> Arrangement | None:
    """Return the wanted arrangement, None for the declared one.

    UsageFault where it does not apply: commands that change something (their result is fixed),
    that print one object, or that print it in a form without columns or headings.
    """
    columns = [name.strip() for name in (options.get("columns") or "").split(",") if name.strip()]
    field, _, order = (options.get("sort") or "").partition(":")
    wanted = Arrangement(
        columns=columns,
        headers=not options.get("no_headers"),
        sort=field,
        descending=order == "desc",
    )
    if wanted.is_default:
        return None
    if order not in ("", "asc", "desc"):
        raise UsageFault(f"--sort: {order!r} is not asc or desc", "example: --sort lag:desc")
    is_check = verb.noun.name == "check" and form in ("table", "wide")
    if verb.changes or is_check or all(view.single for view in verb.views):
        raise not_a_list(verb)
    for given, name, forms in (
        (bool(columns), "--columns", COLUMN_FORMS),
        (not wanted.headers, "--no-headers", HEADER_FORMS),
    ):
        if given and form not in forms:
            raise UsageFault(f"{name} does not apply to -o {form}", "one of " + ", ".join(forms))
    return wanted


def not_a_list(verb: Verb) -> UsageFault:
    """Return the error for an arrangement of a command that does not print a list."""
    return UsageFault(
        f"{verb.path} has no --columns, --no-headers and --sort: it does not print a list",
        "-o json prints all fields",
    )
