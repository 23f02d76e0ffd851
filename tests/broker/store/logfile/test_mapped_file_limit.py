"""MappedFileLimit: how many files are mapped, and which one is unmapped."""

import resource

import pytest

from broker.store.logfile import mapped_file_limit
from broker.store.logfile.mapped_file_limit import MAX_MAPPED, MappedFileLimit, max_mapped_files


class File:
    def __init__(self):
        self.released = 0

    def release_mapping(self):
        self.released += 1


def test_the_file_mapped_first_is_unmapped():
    limit = MappedFileLimit(2)
    files = [File() for _ in range(4)]
    for file in files:
        limit.add(file)
    assert [file.released for file in files] == [1, 1, 0, 0]
    limit.add(files[0])
    assert [file.released for file in files] == [1, 1, 1, 0]


def test_the_file_being_mapped_stays_mapped():
    limit = MappedFileLimit(1)
    file = File()
    for _ in range(3):
        limit.add(file)
    assert file.released == 0


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [(256, 32), (24_000, 3_000), (1 << 20, MAX_MAPPED), (resource.RLIM_INFINITY, MAX_MAPPED)],
)
def test_an_eighth_of_the_descriptors(monkeypatch, descriptors, expected):
    monkeypatch.setattr(
        mapped_file_limit.resource, "getrlimit", lambda _: (descriptors, descriptors)
    )
    assert max_mapped_files() == expected


def test_a_low_limit_of_descriptors_leaves_a_few(monkeypatch):
    monkeypatch.setattr(mapped_file_limit.resource, "getrlimit", lambda _: (64, 64))
    assert max_mapped_files() == 16
