"""A rubric for comparing two outputs, made from those that score one."""

import msgspec

from trivium.metrics.judge.pairwise import LEVELS, pairwise_rubric
from trivium.suites.rubrics.built_in import built_in_rubrics

AGENT = built_in_rubrics()["agent"]
REVIEW = built_in_rubrics()["review"]


def test_every_dimension_of_an_output_is_asked_about_in_its_own_words():
    rubric = pairwise_rubric([REVIEW])
    clarity = next(each for each in rubric.dimensions if each.name == "clarity")
    assert clarity.levels == LEVELS
    assert not clarity.criteria
    assert all(each.asks in clarity.asks for each in REVIEW.dimensions[2].criteria)
    assert clarity.sees[-2:] == ("first", "second")
    assert [each.name for each in rubric.dimensions][-1] == "overall"


def test_dimensions_of_one_name_are_kept_apart():
    again = msgspec.structs.replace(REVIEW, name="other")
    names = [each.name for each in pairwise_rubric([REVIEW, again]).dimensions]
    assert names[0] == f"review_{REVIEW.dimensions[0].name}"
    assert len(names) == len(set(names))


def test_an_overall_dimension_of_ones_own_is_the_only_one():
    own = msgspec.structs.replace(AGENT.dimensions[1], name="overall")
    assert [
        each.name for each in pairwise_rubric([msgspec.structs.replace(AGENT, dimensions=(own,))]).dimensions
    ] == ["overall"]


def test_a_rubric_of_the_process_alone_compares_no_outputs():
    process = tuple(each for each in REVIEW.dimensions if "trace" in each.needs)
    assert pairwise_rubric([msgspec.structs.replace(REVIEW, dimensions=process)]) is None
