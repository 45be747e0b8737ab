"""The order of groups: by number where all ids are whole numbers, else by code point."""

from trivium.trust.cluster_bootstrap import Groups, ordered_ids


def test_whole_numbers_are_ordered_as_numbers():
    assert ordered_ids(["100", "9", "-3", "62"]) == ["-3", "9", "62", "100"]


def test_an_id_that_comes_again_is_the_same_group():
    assert ordered_ids(iter(["10", "9", "10"])) == ["9", "10"]
    assert ordered_ids(iter(["b", "a", "b"])) == ["a", "b"]


def test_other_ids_are_ordered_by_code_point():
    assert ordered_ids(["b", "10", "9", "Z", "é"]) == ["10", "9", "Z", "b", "é"]


def test_ids_of_absurd_length_are_text():
    assert ordered_ids(["9" * 5000, "10"]) == ["10", "9" * 5000]


def test_a_row_knows_its_group_and_numbers_are_known_by_their_text():
    groups = Groups.of([62, "7", 62, "100"])
    assert groups.ids == ("7", "62", "100")
    assert groups.codes.tolist() == [1, 0, 1, 2]
    assert groups.count == 3


def test_ids_that_are_equal_as_numbers_only_stay_apart():
    assert Groups.of(["1", "01"]).ids == ("01", "1")
