"""IngestFigures: which share of the traffic took the vectorized path."""


class IngestFigures:
    """Counters of one broker.

    ``frames`` sends served by compiled loops, ``reads`` calls of the loops that served any,
    ``state`` of the loader for reports.
    """

    __slots__ = ("frames", "reads", "state")

    def __init__(self) -> None:
        self.frames = 0
        self.reads = 0
        self.state = "off"

    def share(self, stored: int) -> float:
        """The share of ``stored`` messages that took the vectorized path, 0 to 1."""
        return self.frames / stored if stored else 0.0
