"""The figures of a broker that never loaded ingest."""

from broker.server.ingest.figures import IngestFigures


def test_nothing_is_counted_at_first() -> None:
    figures = IngestFigures()
    assert (figures.frames, figures.reads, figures.state) == (0, 0, "off")
