"""What the agents hand to one another: findings, an assessment, and in the end the review."""

from typing import Literal

from pydantic import BaseModel, Field

VERDICTS = {1: "strong reject", 2: "reject", 3: "borderline", 4: "accept", 5: "strong accept"}


class Findings(BaseModel):
    """What the researcher found in the paper, in the paper's own words."""

    title: str
    headline: list[str] = Field(description="What the abstract claims")
    problem: list[str] = Field(description="Sentences that say what is missing or goes wrong so far")
    contributions: list[str] = Field(description="Sentences that say what the authors contribute")
    method: list[str] = Field(description="The sentences of each method section that say most")
    results: list[str] = Field(description="Sentences that state the main results, with their figures")


class Point(BaseModel):
    """One strength or weakness, with the sentence of the paper that it rests on, if there is one."""

    point: str
    quote: str | None = None


class Assessment(BaseModel):
    """What the analyst makes of it."""

    strengths: list[Point]
    weaknesses: list[Point]
    questions: list[str]
    recommendation: Literal[1, 2, 3, 4, 5] = Field(
        description="5 would fight for it, 1 would fight against it"
    )


class Review(BaseModel):
    """A structured review."""

    summary: str
    strengths: list[str]
    weaknesses: list[str]
    questions: list[str]
    recommendation: Literal[1, 2, 3, 4, 5]

    def markdown(self) -> str:
        """The review as people read it."""

        def section(heading: str, lines: list[str]) -> str:
            return f"## {heading}\n\n" + "\n".join(f"- {line}" for line in lines or ["None found."])

        verdict = f"{self.recommendation} of 5 ({VERDICTS[self.recommendation]})"
        return "\n\n".join(
            [
                f"## Summary\n\n{self.summary}",
                section("Strengths", self.strengths),
                section("Weaknesses", self.weaknesses),
                section("Questions", self.questions),
                f"## Recommendation\n\n{verdict}",
            ]
        )
