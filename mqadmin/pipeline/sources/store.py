"""``rocketmq-store``: CommitLog files as a table, for any Spark session.

::

    spark.read.format("rocketmq-store").load("/data/store").where("topic = 'orders'")

Options (all values are text; filters pushed down by Spark narrow the read in the same way):

==================== ==========================================================================
``path``, ``paths``  store directories, CommitLog directories, globs or single files
``columns``          comma-separated columns to decode (Spark does not prune columns itself)
``topic``            comma-separated topics
``since``, ``until`` store time, RFC 3339 or epoch ms; ``until`` is exclusive
``offset.from``      first physical offset; ``offset.to`` is the end, exclusive
``damages``          ``true``: one more row for each damaged region, described in ``damage``
``crc``              ``true``: check every body CRC even if ``crc_ok`` is not selected; ``false``:
                     do not check them for ``damages``
``splitBytes``       bytes per split, default 128 MiB or 1/4 of a core's share of the log
``rows``             rows per Arrow batch, default 8192
``pushdown``         ``true``: accept filters from Spark; requires the session setting
                     ``spark.sql.python.filterPushdown.enabled``
==================== ==========================================================================

The driver lists files and cuts them (``splits``). A worker maps the file and returns Arrow batches
(``split_reader``). Filters exclude rows before anything is copied from the file; whole files are
skipped by physical offset and by the store time of their first records.
"""

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from mqadmin.pipeline.failure import annotated_errors
from mqadmin.pipeline.sources.options import option_columns, option_true
from mqadmin.pipeline.sources.partitions.store_reader import (
    COLUMN_TYPES,
    NAME,
    FilteringReader,
    StoreReader,
)
from mqadmin.pipeline.sources.stream import StoreStreamReader


class StoreSource(DataSource):
    """The data source ``rocketmq-store``."""

    @classmethod
    def name(cls) -> str:
        """Return the name used in ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """Return the selected columns, by default all (``damage`` only with ``damages``).

        ConfigError for an unknown column.
        """
        with annotated_errors():
            names = option_columns(self.options, tuple(COLUMN_TYPES), NAME)
        if names is None:
            with_damage = option_true(self.options, "damages")
            names = [name for name in COLUMN_TYPES if name != "damage" or with_damage]
        return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in names)

    def reader(self, schema: StructType) -> StoreReader:
        """Return a batch reader; with ``pushdown`` one that accepts filters from Spark."""
        options = dict(self.options)
        reader_class = FilteringReader if option_true(self.options, "pushdown") else StoreReader
        return reader_class(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a streaming reader that follows the logs."""
        return StoreStreamReader(schema, dict(self.options))
