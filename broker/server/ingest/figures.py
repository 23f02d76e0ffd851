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
