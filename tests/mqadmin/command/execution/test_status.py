"""Exit statuses: a contract with scripts and cron jobs."""

from mqadmin.command.execution import status


def test_the_numbers_are_the_documented_ones() -> None:
    numbers = {name: value for name, value in vars(status).items() if name.isupper()}
    assert numbers == {
        "DONE": 0,
        "NO": 1,
        "USAGE": 2,
        "UNREACHABLE": 3,
        "REFUSED": 4,
        "PARTLY": 5,
        "NOT_PERMITTED": 6,
        "DAMAGED": 7,
        "MOVED": 8,
        "DEFECT": 70,
        "INTERRUPTED": 130,
    }
    assert all(str(value) in (status.__doc__ or "") for value in numbers.values())
