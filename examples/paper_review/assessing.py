"""The analyst's rules: what a reviewer checks, and what follows from what was found or not found."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .paper import Passage
from .review import Assessment, Point

MOST_QUOTED = 3
"""Sentences quoted for one kind of point."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that a reviewer looks for.

    Attributes:
        words: What a sentence about it holds, with bars between.
        within: Pattern of the headings under which it counts.
        found: The strength that a find supports; with ``blames``, the weakness that it is.
        lacking: The weakness when nothing was found; empty when that is none.
        question: Asked when nothing was found.
        weight: Added to the recommendation when found, taken off it when lacking.
        blames: Whether a find is a weakness.
    """

    words: str
    within: str = ""
    found: str
    lacking: str = ""
    question: str = ""
    weight: float = 0.0
    blames: bool = False

    @property
    def phrases(self) -> list[str]:
        """The words to search for."""
        return self.words.split("|")

    def counts(self, passage: Passage) -> bool:
        """Whether a sentence that was found stands where it counts."""
        return re.search(self.within, passage.section, re.IGNORECASE) is not None


TESTED = "experiment|evaluation|study|result|simulation|ablation|analysis"

CHECKS = (
    Check(
        words="compare|baseline|against",
        within=TESTED,
        found="The work is compared with other ways to do it",
        lacking="There is no comparison with a baseline, so one cannot tell what the method adds",
        question="How do a simple baseline and the best earlier system do on the same data?",
        weight=0.75,
    ),
    Check(
        words="standard deviation|seeds|confidence interval|bootstrap|p = |p < |mixed-effects|we prove|proof",
        found="The evidence is more than a single number",
        lacking="No test, interval or repetition says how sure the figures are",
        question="How much do the results vary between runs and samples?",
        weight=0.75,
    ),
    Check(
        words="ablation|without|removing|replacing|in place of|threshold",
        within="ablation|experiment|evaluation|simulation",
        found="It is shown what the parts contribute",
        lacking="No ablation shows which part of the method brings the gain",
        question="What is left of the gain when the new part is taken out and everything else is kept?",
        weight=0.25,
    ),
    Check(
        words="participants|annotators|agreement|experts compared|experts preferred",
        found="People judged or annotated",
        weight=0.25,
    ),
    Check(
        words="available|release",
        within="abstract|introduction|conclusion|data|corpus",
        found="Others will be able to build on it",
        lacking="Nothing is said about the release of code or data",
        question="Will code and data be released?",
        weight=0.25,
    ),
    Check(
        words="did not|do not know|not tested|not varied|only|may not|may already|may be|future work",
        within="limit|discussion|conclusion|experiment|study|simulation",
        found="The authors name a limit themselves",
        blames=True,
    ),
    Check(
        words="best of|left out|excluded|by hand|hand-picked|looked|development set|larger|one university",
        within=f"{TESTED}|model|method|prompt",
        found="The set-up may flatter the result",
        weight=-0.5,
        blames=True,
    ),
)

CLAIMS = (
    "state of the art|first method|any language|all previous|solves|obsolete|unnecessary|fully|significantly"
    "|impressive|is enough|negligible|we believe|we expect"
)
OVERSTATING = CLAIMS.split("|")

_OPEN = {
    re.compile(r"(?:did not test|have not tested) ([^.;,]+)"): "What would change with {}?",
    re.compile(r"do not know (whether [^.;,]+)"): "Is there any sign {}?",
    re.compile(r"([A-Z][^.;,]+) is left to future work"): "What stands in the way of {}?",
}
"""What the authors leave open, as a question to them."""

_FEW = re.compile(
    r"(?<![\d.,])(?:\d{1,3} (?:sentences|documents|participants|pairs|questions|dialogues)"
    r"|(?:one|two|three) (?:public )?(?:languages|tasks|data sets|benchmark))\b",
    re.IGNORECASE,
)


def assess(
    found: Sequence[Sequence[Passage]], overstated: Sequence[Passage], numbers: Sequence[Passage]
) -> Assessment:
    """Strengths, weaknesses, questions and a recommendation.

    Args:
        found: Sentences found for each of ``CHECKS``.
        overstated: Sentences that claim much.
        numbers: Sentences that state a figure.
    """
    strengths: list[Point] = []
    weaknesses: list[Point] = []
    questions: list[str] = []
    mark = 2.5
    for check, everywhere in zip(CHECKS, found, strict=True):
        passages = [passage for passage in everywhere if check.counts(passage)]
        if passages:
            quoted = [Point(point=check.found, quote=passage.sentence) for passage in passages[:MOST_QUOTED]]
            (weaknesses if check.blames else strengths).extend(quoted)
            mark += check.weight
        elif check.lacking:
            weaknesses.append(Point(point=check.lacking))
            questions.append(check.question)
            mark -= check.weight
    weaknesses += [Point(point="This claims more than is shown", quote=each.sentence) for each in overstated]
    mark -= 0.25 * len(overstated)
    small = next((passage.sentence for passage in numbers if _FEW.search(passage.sentence)), None)
    if small is not None:
        weaknesses.append(Point(point="The sample is small", quote=small))
    for passage in (each for passages in found for each in passages):
        for pattern, question in _OPEN.items():
            left_open = pattern.search(passage.sentence)
            if left_open:
                questions.append(question.format(left_open.group(1).strip()))
    return Assessment.model_validate(
        {
            "strengths": strengths,
            "weaknesses": weaknesses,
            "questions": list(dict.fromkeys(questions)),
            "recommendation": min(5, max(1, round(mark))),
        }
    )
