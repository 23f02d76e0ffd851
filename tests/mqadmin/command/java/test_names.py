from mqadmin.command.framework.nouns import NOUNS, load_noun
from mqadmin.command.java.names import JAVA_NAMES

ONLY_49 = {"updateaclconfig", "deleteaclconfig", "clusteraclconfigversion", "updateglobalwhiteaddr"}


def test_the_table_has_the_89_names_of_533_and_the_4_of_498_and_its_alias() -> None:
    assert len(set(JAVA_NAMES) - ONLY_49 - {"deleteaccessconfig"}) == 89
    assert set(JAVA_NAMES) >= ONLY_49
    assert JAVA_NAMES["deleteaccessconfig"] is JAVA_NAMES["deleteaclconfig"]


def test_an_option_has_its_names_its_value_and_whether_it_is_required() -> None:
    options = {option.name: option for option in JAVA_NAMES["topicroute"].options}
    assert options["t"].shown == "-t/--topic"
    assert (options["t"].takes_value, options["t"].required) == (True, True)
    assert (options["l"].takes_value, options["l"].required) == (False, False)


def test_options_without_a_short_name_are_found_by_the_long_one() -> None:
    assert "attributes" in {option.name for option in JAVA_NAMES["updatesubgroup"].options}


def test_no_command_has_one_option_name_twice() -> None:
    for row in JAVA_NAMES.values():
        names = [name for o in row.options for name in (f"-{o.short}", f"--{o.long}")]
        names = [name for name in names if name.strip("-")]
        assert len(names) == len(set(names)), row.name


def test_every_equivalent_is_a_command() -> None:
    for row in JAVA_NAMES.values():
        if row.equivalent:
            noun, *words = row.equivalent.split()
            found = load_noun(noun).find(words) if noun in NOUNS else None
            assert found is not None, row.name
