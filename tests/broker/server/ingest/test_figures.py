"""The figures of a broker that never loaded ingest."""

from broker.server.ingest.figures import IngestFigures


def test_nothing_is_counted_at_first() -> None:
    figures = IngestFigures()
    assert (figures.frames, figures.reads, figures.state) == (0, 0, "off")


def test_the_share_of_the_path_is_that_of_all_stored_messages() -> None:
    figures = IngestFigures()
    assert figures.share(0) == 0
    figures.frames = 3
    assert figures.share(4) == 0.75
