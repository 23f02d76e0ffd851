"""Registration of all data sources with a Spark session."""

from pyspark.sql import SparkSession

from mqadmin.pipeline.sources.consumequeue import QueueSource
from mqadmin.pipeline.sources.index import IndexSource
from mqadmin.pipeline.sources.offsets import OffsetsSource
from mqadmin.pipeline.sources.store import StoreSource
from mqadmin.pipeline.sources.verify import VerifySource


def register(session: SparkSession) -> None:
    """Register the data sources of this package with a session."""
    for source in (StoreSource, QueueSource, IndexSource, OffsetsSource, VerifySource):
        session.dataSource.register(source)
