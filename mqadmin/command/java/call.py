"""The argument of a command with a Java name: its options with types, and the printer."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.common.java import INT64_MAX
from mqadmin.command.execution.failure import NoResults, UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.values import integer
from mqadmin.command.java.names import JavaName
from mqadmin.output.stdio import write_out

if TYPE_CHECKING:
    from mqadmin.admin.result import ChangeResult, Outcome, Plan, TargetError
    from mqadmin.admin.session import AdminSession


class Applies(Protocol):
    """A library of the online tool that makes and applies plans."""

    def apply(self, plan: "Plan") -> "Outcome":
        """Apply a plan; a target that fails does not raise."""


class JavaCall:
    """One run of a command; ``values`` are the options given, by short name (else long name).

    A flag has the value ``"true"``. A value that is not valid is a UsageFault: status 2.
    """

    def __init__(self, session: Session, name: JavaName, values: Mapping[str, str]) -> None:
        self.session = session
        self.name = name
        self.values = values

    @property
    def admin(self) -> "AdminSession":
        """The online library, connected on first access."""
        return self.session.admin

    # --- options --------------------------------------------------------------------------

    def text(self, option: str) -> str:
        """Return the value of a required option."""
        return self.values[option]

    def get(self, option: str) -> str | None:
        """Return the value of an option, None if it is not given."""
        return self.values.get(option)

    def flag(self, option: str) -> bool:
        """Return whether a flag is given."""
        return option in self.values

    def whole(
        self, option: str, default: int = 0, *, lowest: int = 0, highest: int = INT64_MAX
    ) -> int:
        """Return the number of an option, from ``lowest`` to ``highest``."""
        number = self.number(option, lowest=lowest, highest=highest)
        return default if number is None else number

    def number(self, option: str, *, lowest: int = 0, highest: int = INT64_MAX) -> int | None:
        """Return the number of an option, None if it is not given."""
        text = self.values.get(option)
        if text is None:
            return None
        try:
            return integer(text, lowest, highest)
        except ValueError as error:
            raise self.fault(option, str(error)) from error

    def truth(self, option: str, default: bool | None = None) -> bool | None:
        """Return the value of an option that takes ``true`` or ``false``."""
        text = self.values.get(option)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self.fault(option, f"{text!r} is not true or false")
        return text.lower() == "true"

    def choice(self, option: str, words: Sequence[str]) -> str:
        """Return the value of a required option that is one of ``words``."""
        text = self.values[option]
        if text not in words:
            raise self.fault(option, f"{text!r} is not one of {', '.join(words)}")
        return text

    def one_of(self, *options: str, why: str = "") -> str:
        """Return the one option of ``options`` that is given; UsageFault for none or several.

        ``why`` explains which danger the refusal avoids.
        """
        given = [option for option in options if option in self.values]
        if len(given) == 1:
            return given[0]
        shown = " or ".join(self.shown(option) for option in options)
        if given:
            raise UsageFault(f"{self.name.name}: {shown} exclude each other", "give one of them")
        reason = f": {why}" if why else ""
        raise UsageFault(f"{self.name.name}: {shown} is missing{reason}", "give one of them")

    def shown(self, option: str) -> str:
        """Return an option as typed, for messages."""
        return next(item.shown for item in self.name.options if item.name == option)

    def fault(self, option: str, reason: str) -> UsageFault:
        """Build the usage error about the value of an option."""
        return UsageFault(
            f"{self.name.name} {self.shown(option)}: {reason}",
            f"mqadmin help {self.name.name} shows the options",
        )

    def nothing(self, message: str, hint: str = "") -> NoResults:
        """Build the error of a query without a result: status 1."""
        return NoResults(f"{self.name.name}: {message}", hint)

    # --- time -----------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        return int(time.time() * 1000)

    def now_text(self) -> str:
        """Return the local time as Java prints it, to the second."""
        return time.strftime("%Y-%m-%d %H:%M:%S")

    def repeat(self, option: str, show: Callable[[], None], default: int | None = None) -> None:
        """Run ``show`` once, or every so many seconds of ``option`` until it is interrupted."""
        show()
        seconds = self.number(option, lowest=1) or default
        while seconds is not None:
            self.line()
            write_out("", flush=True)
            time.sleep(seconds)
            self.admin.renew()
            show()

    # --- output ---------------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """Print one line on stdout."""
        write_out(text + "\n")

    def errors(self, errors: "Sequence[TargetError]", *, some_worked: bool) -> None:
        """Report the targets that failed on stderr, and set the status: 5 if others worked."""
        self.session.report_targets(errors, some_worked=some_worked)

    def scope(self, plan: "Plan") -> None:
        """Report the scope of a change on stderr: context, cluster, name server, brokers."""
        self.session.announce(change.address for change in plan.changes if change.step == 0)
        for warning in plan.warnings:
            self.session.note(f"warning: {warning}")

    def apply(self, library: Applies, plan: "Plan") -> "list[ChangeResult]":
        """Report the scope of a plan, apply it, and return as :meth:`applied`."""
        self.scope(plan)
        return self.applied(library.apply(plan))

    def applied(self, outcome: "Outcome") -> "list[ChangeResult]":
        """Report the errors of an applied plan, and return the changes that were successful."""
        done = [item for item in outcome.items if item.status in ("done", "unchanged")]
        self.errors(outcome.errors, some_worked=bool(done))
        return done
