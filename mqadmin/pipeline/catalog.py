"""All jobs by name, and their descriptions for ``pipeline list`` and ``pipeline schema``."""

from textwrap import wrap
from typing import Final

import msgspec

from broker.errors import ConfigError
from mqadmin.pipeline.declarations import (
    audit,
    diff,
    dlq,
    export,
    keys,
    lag,
    latency,
    retries,
    traffic,
)
from mqadmin.pipeline.job import Job, camel

JOBS: Final[dict[str, Job]] = {
    module.JOB.name: module.JOB
    for module in (traffic, export, dlq, retries, lag, audit, latency, diff, keys)
}


def find_job(name: str) -> Job:
    """Return a job by name. ConfigError for an unknown name."""
    job = JOBS.get(name)
    if job is None:
        raise ConfigError(f"no job {name!r}", f"available: {', '.join(JOBS)}")
    return job


class JobRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job in the list of jobs."""

    job: str
    summary: str
    tables: list[str]
    parameters: list[str]
    plots: bool


class ParameterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A parameter of a job; ``default`` is None if it has none."""

    name: str
    default: str | None
    meaning: str


class ColumnRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column: name in files, name in JSON, type, meaning."""

    name: str
    json_name: str
    type: str
    meaning: str


class TablePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A table with its columns."""

    table: str
    meaning: str
    columns: list[ColumnRow]


class JobPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The complete description of a job."""

    job: str
    summary: str
    text: str
    example: str
    parameters: list[ParameterRow]
    tables: list[TablePage]


def job_row(job: Job) -> JobRow:
    """Return the row of ``pipeline list`` for a job."""
    return JobRow(
        job=job.name,
        summary=job.summary,
        tables=[table.name for table in job.tables],
        parameters=[parameter.name for parameter in job.parameters],
        plots=job.plots,
    )


def job_page(job: Job) -> JobPage:
    """Return the description of a job as a struct."""
    return JobPage(
        job=job.name,
        summary=job.summary,
        text=job.text,
        example=job.example,
        parameters=[
            ParameterRow(name=p.name, default=p.default or None, meaning=p.meaning)
            for p in job.parameters
        ],
        tables=[
            TablePage(
                table=table.name,
                meaning=table.meaning,
                columns=[
                    ColumnRow(
                        name=column.name,
                        json_name=camel(column.name, column.type),
                        type=column.type,
                        meaning=column.meaning,
                    )
                    for column in table.columns
                ],
            )
            for table in job.tables
        ],
    )


def page_text(job: Job) -> str:
    """Return the description of a job as text."""
    lines = [f"{job.name}: {job.summary}", ""]
    lines += [*wrap(job.text, 88), "", "Example:", f"  {job.example}"]
    if job.parameters:
        lines += ["", "Parameters (--param NAME=VALUE):"]
        width = max(len(p.name) for p in job.parameters)
        for p in job.parameters:
            default = f" (default {p.default})" if p.default else ""
            lines.append(f"  {p.name.ljust(width)}  {p.meaning}{default}")
    for table in job.tables:
        first = " (printed by default)" if table is job.tables[0] else ""
        lines += ["", *wrap(f"Table {table.name}{first}: {table.meaning}", 88)]
        width = max(len(column.name) for column in table.columns)
        lines += [
            f"  {column.name.ljust(width)}  {column.type.ljust(5)}  {column.meaning}"
            for column in table.columns
        ]
    return "\n".join(lines) + "\n"
