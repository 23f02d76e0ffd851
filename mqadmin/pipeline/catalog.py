"""The jobs that there are, and their rows for the command line."""

from typing import Final

import msgspec

from broker.errors import ConfigError
from mqadmin.pipeline.job import Job, row_class
from mqadmin.pipeline.jobs import audit, diff, dlq, export, keys, lag, latency, retries, traffic

JOBS: Final[dict[str, Job]] = {
    module.JOB.name: module.JOB
    for module in (traffic, export, dlq, retries, lag, audit, latency, diff, keys)
}


def find_job(name: str) -> Job:
    """A job by name. ConfigError with the names that there are."""
    job = JOBS.get(name)
    if job is None:
        raise ConfigError(f"no job {name!r}", f"there are {', '.join(JOBS)}")
    return job


def __getattr__(name: str) -> type[msgspec.Struct]:
    """Rows by the name ``job/table``: what a view of the command line points to."""
    job_name, slash, table_name = name.partition("/")
    if not slash or job_name not in JOBS:
        raise AttributeError(name)
    job = JOBS[job_name]
    return row_class(job.table(table_name), job)
