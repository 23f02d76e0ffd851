"""One run of one command: its settings, its connections, its output, its exit status."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mqadmin.command.execution.failure import (
    CHECK_NOUN,
    CHECK_UNKNOWN,
    NoResults,
    ReadOnlyFault,
    UsageFault,
    report_of,
    status_of,
    target_report,
    target_status,
)
from mqadmin.command.execution.online import connect, write_plan
from mqadmin.command.execution.status import DEFECT, DONE, INTERRUPTED, NO, PARTLY
from mqadmin.command.framework.declare import Verb
from mqadmin.output.errors import ErrorReport, emit_error, emit_note
from mqadmin.output.stdio import (
    flush_out,
    read_answer,
    silence_closed_pipe,
    stdin_is_terminal,
    write_out,
)
from mqadmin.output.view import (
    FORMATS,
    JSONPATH,
    PROMETHEUS,
    Arrangement,
    ExpressionError,
    Outcome,
    View,
    query_of,
)
from mqadmin.settings import Settings, resolve

if TYPE_CHECKING:
    from mqadmin.admin.offset.reset import ResetPlan
    from mqadmin.admin.result import Listing, Plan, TargetError
    from mqadmin.admin.session import AdminSession
    from mqadmin.output.forms.jsonpath_text import Query


#: Forms to which --columns and --no-headers apply.
COLUMN_FORMS = ("table", "wide", "csv", "markdown")
HEADER_FORMS = ("table", "wide", "csv")


def trace_line(name: str, code: int | None, address: str, elapsed_ms: float) -> None:
    """Print one request (``-v``): name, address, response code (None: no response), duration."""
    answer = "no answer" if code is None else f"code {code}"
    emit_note(f"{name} {address}: {answer}, {elapsed_ms:.1f} ms")


class Session:
    """The context of a command function; ``status`` is the exit status of the run."""

    def __init__(self, verb: Verb, settings: Settings, options: dict[str, Any]) -> None:
        self.verb = verb
        self.settings = settings
        self.options = options
        self.status = DONE
        self.form = str(settings.text("output") or "table")
        self.query = compiled_query(self.form)
        if self.query is not None:
            self.form = JSONPATH
        self._admin: AdminSession | None = None
        self.arrangement = arrangement_of(verb, self.form, options)
        self._place = ""  # context, clusters and name servers of a change, for the question
        self._guarded = True  # the change concerns a cluster, not only local files

    @property
    def admin(self) -> "AdminSession":
        """The online library, connected on first access."""
        if self._admin is None:
            trace = trace_line if self.options.get("verbose") else None
            self._admin = connect(self.settings, trace)
        return self._admin

    @property
    def dry_run(self) -> bool:
        """True when nothing may be changed (``--dry-run``, MQADMIN_DRY_RUN)."""
        return self.verb.has_dry_run and self.settings.flag("dry-run")

    @property
    def yes(self) -> bool:
        """True when changes need no further confirmation.

        A protected context is confirmed by its name only.
        """
        named = self.options.get("yes_context")
        protected = self.settings.protected_context if self._guarded else ""
        return named == protected if protected else bool(named or self.options.get("yes"))

    @property
    def plan_path(self) -> str | None:
        """The file for the plan of a change (``--plan``), which is then not applied."""
        path = self.options.get("plan")
        return None if path is None else str(path)

    @property
    def changes_nothing(self) -> bool:
        """True with --dry-run and --plan."""
        return self.dry_run or self.plan_path is not None

    @property
    def color(self) -> bool:
        """True when colour is allowed (on a terminal)."""
        return not self.settings.flag("no-color")

    @property
    def is_table(self) -> bool:
        """True when the output is for reading on a terminal."""
        return self.form in ("table", "wide")

    @property
    def is_flat(self) -> bool:
        """True when a row is one line: maps are then printed as one row per entry."""
        return self.form in ("table", "wide", "csv", "markdown")

    @property
    def is_machine(self) -> bool:
        """True when errors on stderr are JSON, too."""
        return self.form in ("json", "ndjson")

    def close(self) -> None:
        """Close the connections, if any."""
        if self._admin is not None:
            self._admin.close()

    def emit(
        self,
        view: View,
        rows: Iterable[Any],
        outcome: Outcome | None = None,
        *,
        live: bool = False,
        nothing: str = "",
        hint: str = "",
        quiet: bool = False,
    ) -> int:
        """Print rows, report truncation or an empty result, and set the status.

        ``nothing`` is the message for an empty result, which then has status 1, and ``hint`` the
        next step after an empty or truncated result; with ``quiet`` the caller reports an empty
        result.
        """
        from mqadmin.output.emit import UnknownFieldError, emit

        outcome = outcome or Outcome()
        if live and self.arrangement is not None and self.arrangement.sort:
            raise UsageFault("--sort does not apply to rows that are printed as they arrive")
        try:
            count = emit(
                view,
                rows,
                form=self.form,
                outcome=outcome,
                color=self.color,
                live=live,
                row_type=_row_type(view) if self.form == "csv" and not view.wide else None,
                arrangement=self.arrangement,
                query=self.query,
            )
        except ExpressionError as error:
            raise bad_expression(self.query.text if self.query else "", error) from error
        except UnknownFieldError as error:
            raise UsageFault(str(error), "-o json shows the fields of the rows") from error
        self._report_no_match(rows=count)
        if outcome.truncated:
            status = DONE if outcome.asked else PARTLY
            self.report(status, "truncated", outcome.reason or "more rows were left out", hint)
        elif not count and not outcome.errors and not quiet:
            if nothing:
                self.report(NO, "notFound", nothing, hint)
            elif self.is_table or self.form == "markdown":
                self.note("no results")
        return count

    def _report_no_match(self, *, rows: int) -> None:
        """Report an expression that selects no value of an output with rows (status 1)."""
        if self.query is not None and rows and not self.query.matches:
            message = f"{self.query.text!r} selects nothing"
            self.report(NO, "notFound", message, "-o json prints the document")

    def report(self, status: int, kind: str, message: str, hint: str = "") -> None:
        """Report why the status is not 0, as text or as one JSON object; keep an earlier status."""
        if kind == "truncated" and not self.is_machine:
            self.note(f"truncated: {message}")
            if hint:
                self.note(f"hint: {hint}")
        else:
            emit_error(ErrorReport(kind, message, hint), form=self.form)
        self.status = self.status or status

    def emit_listing(
        self,
        view: View,
        listing: "Listing[Any]",
        *,
        items: Sequence[Any] | None = None,
        nothing: str = "",
        hint: str = "",
        limit: int | None = None,
    ) -> int:
        """Print a ``Listing`` of the library: items, notes, the targets that failed.

        ``items`` replaces those of the listing. ``limit`` is the value of --limit: a listing that
        is truncated only there is complete as requested. Notes name other causes.
        """
        outcome = Outcome(
            truncated=listing.truncated,
            asked=limit is not None and len(listing.items) >= limit and not listing.notes,
            errors=[target_report(e).fields() for e in listing.errors],
        )
        notes = list(listing.notes)
        if nothing and notes and not listing.items and not listing.errors:
            nothing = "; ".join(notes)
            notes = []
        for note in notes:
            self.note(note)
        count = self.emit(
            view,
            listing.items if items is None else items,
            outcome,
            nothing=nothing,
            hint=hint,
            quiet=bool(notes),
        )
        if listing.errors:
            some_worked = count > 0 or self._others_responded(listing.errors)
            self.report_targets(listing.errors, some_worked=some_worked)
        return count

    def _others_responded(self, errors: "Sequence[TargetError]") -> bool:
        """Whether a broker without an error responded: it may have had nothing to list."""
        if self._admin is None:
            return False
        failed = {error.address for error in errors}
        return not self._admin.brokers_responded() <= failed

    def emit_one(self, view: View, thing: Any) -> None:
        """Print one object; UsageFault if the arrangement of a list was asked for."""
        if self.arrangement is not None:
            raise not_a_list(self.verb)
        from mqadmin.output.emit import emit_one

        try:
            emit_one(view, thing, form=self.form, color=self.color, query=self.query)
        except ExpressionError as error:
            raise bad_expression(self.query.text if self.query else "", error) from error
        self._report_no_match(rows=1)

    def report_targets(self, errors: "Sequence[TargetError]", *, some_worked: bool) -> None:
        """Report the targets that failed; status 5 when others worked, else that of the first."""
        reported: list[dict[str, Any]] = []
        for error in errors:
            report = target_report(error)
            if report.fields() not in reported:  # one error of a broker may apply to many queues
                reported.append(report.fields())
                emit_error(report, form=self.form)
        if errors:
            alone = target_status(errors[0].kind, errors[0].response_code)
            self.status = PARTLY if some_worked else alone

    def note(self, text: str) -> None:
        """Write a line that is not data to stderr."""
        emit_note(text)

    def require_consent(self, *, cluster: bool = True) -> None:
        """Refuse a change that is not permitted or cannot be confirmed, before anything is read.

        ``cluster`` False: the change concerns local files, which no context guards.
        """
        self._guarded = cluster
        if cluster:
            self._check_guards()
        protected = self.settings.protected_context if cluster else ""
        if not (self.yes or self.changes_nothing or stdin_is_terminal()):
            if protected:
                raise UsageFault(
                    f"{self.verb.path}: context {protected} is protected, a change needs its name; "
                    "nothing was changed",
                    f"add --yes {protected} to apply it{self._or_dry_run}",
                )
            raise UsageFault(
                f"{self.verb.path}: a change needs --yes without a terminal; nothing was changed",
                f"add --yes to apply it{self._or_dry_run}",
            )

    def guard_change(self) -> None:
        """Refuse or confirm a command that changes a cluster without asking for consent.

        It asks only if the context is protected.
        """
        if self.settings.flag("dry-run") and not self.verb.has_dry_run:
            origin = self.settings.effective["dry-run"].origin
            raise UsageFault(
                f"{self.verb.path}: it has no dry run ({origin}); nothing was changed",
                "omit --dry-run, and unset MQADMIN_DRY_RUN",
            )
        self._check_guards()
        if self.settings.protected_context and not self.changes_nothing:
            self.require_consent()
            self._place = self._place or f"context {self.settings.context or '-'}"
            if not self.consent(f"{self.verb.path}?"):
                raise NoResults(f"{self.verb.path}: not confirmed")
        for sentence in self.settings.overrides:
            self.note(f"warning: {sentence}")

    @property
    def _or_dry_run(self) -> str:
        """The end of a hint about a refused change."""
        return ", or --dry-run to show the plan" if self.verb.has_dry_run else ""

    def _check_guards(self) -> None:
        """Refuse a change of a read-only cluster, and a confirmation of another context."""
        settings = self.settings
        if settings.read_only_context and not self.changes_nothing:
            name = settings.read_only_context
            place = (
                f" (name server {';'.join(settings.namesrv)})" if name != settings.context else ""
            )
            raise ReadOnlyFault(
                f"{self.verb.path}: context {name} is read-only{place}; nothing was changed",
                f"mqadmin context set {name} --no-read-only{self._or_dry_run}",
            )
        named = self.options.get("yes_context")
        if named is not None and named not in (settings.context, settings.protected_context):
            raise UsageFault(
                f"{self.verb.path}: --yes {named}, but the context in use is "
                f"{settings.context or '-'}; nothing was changed",
                f"mqadmin context use {named}, or --context {named}",
            )

    def announce(self, addresses: Iterable[str]) -> None:
        """Report the scope of a change before its plan: context, cluster, name server, brokers.

        ``addresses`` are those of the brokers in the plan. Warns when the environment overrides
        the cluster or credentials of the context in use.
        """
        scope = self.admin.scope(addresses)
        context = f"context {self.settings.context}" if self.settings.context else "context -"
        clusters = "cluster " + (", ".join(scope.clusters) or "-")
        namesrv = "name server " + ";".join(scope.namesrv)
        brokers = [
            address if name == address else f"{name} ({address})"
            for address, name in scope.brokers.items()
        ]
        self._place = f"{context}, {clusters}, {namesrv}"
        self.note(f"{self._place}, broker " + (", ".join(brokers) or "-"))
        for sentence in self.settings.overrides:
            self.note(f"warning: {sentence}")

    def consent(self, question: str) -> bool:
        """Ask for confirmation, unless ``--yes`` is given; False: change nothing, status 1."""
        if self.yes:
            return True
        place = f"{self._place}: " if self._place else ""
        protected = self.settings.protected_context if self._guarded else ""
        if protected:
            typed = read_answer(f"{place}{question} type the name of the context ({protected}): ")
            if typed.strip() == protected:
                return True
        elif read_answer(f"{place}{question} [y/N] ").lower() in ("y", "yes"):
            return True
        self.note("nothing was changed")
        self.status = NO
        return False

    def end_without_change(self, plan: "Plan | ResetPlan") -> None:
        """End a dry run, or write the plan file of ``--plan``."""
        if self.plan_path is None:
            self.end_dry_run()
            return
        context = self.settings.context
        path = write_plan(self.admin, plan, self.plan_path, verb=self.verb.path, context=context)
        self.note(f"nothing was changed; apply the plan with: mqadmin apply {path}")

    def end_dry_run(self) -> None:
        """Report in the last line that nothing was changed."""
        line = "dry run: nothing was changed"
        if self.is_table:
            write_out(line + "\n", flush=True)
        else:
            self.note(line)


def _refuse_dry_run(verb: Verb, options: dict[str, Any], settings: Settings) -> None:
    if options.get("plan") is not None and not verb.plans:
        raise UsageFault(f"{verb.path} has no plan that can be applied later", "omit --plan")
    if settings.flag("dry-run") and options.get("plan") is not None:
        raise UsageFault(
            "--dry-run (or MQADMIN_DRY_RUN) writes nothing and --plan writes a file",
            "omit one of them",
        )
    if options.get("dry_run") and not verb.changes:
        raise UsageFault(f"{verb.path} changes nothing and has no --dry-run", "omit it")


def run_verb(verb: Verb, options: dict[str, Any], values: dict[str, Any]) -> int:
    """Run one command and return its exit status; every exception is reported here."""
    form = str(options.get("output") or os.environ.get("MQADMIN_OUTPUT") or "table")
    session: Session | None = None
    try:
        try:
            settings = resolve(options, os.environ)
            _refuse_dry_run(verb, options, settings)
            form = _checked_form(settings, verb)
            if form == "schema":
                return emit_verb_schema(verb)
            _refuse_undecodable(verb, values)
            session = Session(verb, settings, options)
            verb.run(session, values)
            flush_out()
            return session.status
        finally:
            if session is not None:
                session.close()
    except BrokenPipeError:
        silence_closed_pipe()
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        status = _failed(error, form, verbose=bool(options.get("verbose")))
        return CHECK_UNKNOWN if verb.noun.name == CHECK_NOUN else status


def _refuse_undecodable(verb: Verb, values: dict[str, Any]) -> None:
    """Refuse text that is not UTF-8, except paths and bodies: RocketMQ names and keys are UTF-8."""
    for parameter in verb.parameters:
        value = None if parameter.marker.any_bytes else values.get(parameter.name)
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                name = getattr(parameter.marker, "names", (parameter.marker.metavar,))[0]
                raise UsageFault(f"{name}: {text!r:.80} is not valid UTF-8")


def _row_type(view: View) -> Any:
    """Return the struct of a row; imports every library."""
    from mqadmin.command.execution.row_types import row_type

    return row_type(view)


def emit_verb_schema(verb: Verb) -> int:
    """Print the JSON schema of a command's output."""
    from mqadmin.output.schema import emit_schema

    emit_schema([(view, _row_type(view)) for view in verb.views])
    flush_out()
    return DONE


def compiled_query(form: str) -> "Query | None":
    """Compile EXPR of ``-o jsonpath=EXPR``; None for another form.

    UsageFault with the position for an expression that cannot be used, before anything is read or
    changed.
    """
    text = query_of(form)
    if text is None:
        return None
    from mqadmin.output.forms.jsonpath_text import Query

    try:
        return Query(text)
    except ExpressionError as error:
        raise bad_expression(text, error) from error


def bad_expression(text: str, error: ExpressionError) -> UsageFault:
    """Return the error for an expression of ``-o jsonpath=EXPR``."""
    hint = "example: -o 'jsonpath=$.items[*].topic'"
    return UsageFault(f"-o jsonpath={text}: {error}", hint)


def _checked_form(settings: Settings, verb: Verb) -> str:
    effective = settings.effective["output"]
    is_check = verb.noun.name == CHECK_NOUN and effective.value == PROMETHEUS
    if query_of(str(effective.value)) is not None:
        return JSONPATH
    if effective.value not in FORMATS and not is_check:
        raise UsageFault(
            f"output ({effective.origin}): {effective.value!r} is not an output format",
            "one of " + ", ".join(FORMATS),
        )
    return str(effective.value)


def _failed(error: Exception, form: str, *, verbose: bool) -> int:
    status = status_of(error)
    try:
        if verbose and status == DEFECT:
            sys.excepthook(type(error), error, error.__traceback__)
        emit_error(report_of(error), form=form)
    except OSError:  # stderr is closed or its disk is full: the exit status still reports it
        silence_closed_pipe()
    return status


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
