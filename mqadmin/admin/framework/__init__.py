"""The parts common to all nouns: session, topology, results, failures, applied plans."""
