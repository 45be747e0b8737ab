"""The four agents, who may delegate to whom, and the tools with which they read the paper.

``reviewer`` is what Trivium is pointed at: ``--agent examples.paper_review.reviewers:reviewer``.
"""

import os

from pydantic_ai import Agent, RunContext, ToolOutput
from pydantic_ai.models import Model

from trivium import Case

from . import rules
from .paper import Paper, Passage, Section
from .review import Assessment, Findings, Review

DEFAULT_MODELS = {
    "OPENAI_API_KEY": "openai:gpt-4o-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
}
"""The model that is taken when a provider's key is there and PAPER_REVIEW_MODEL names none."""


def chosen_model() -> str | None:
    """The model that the environment asks for, or None when the rules are to do the work."""
    named = os.environ.get("PAPER_REVIEW_MODEL")
    return named or next((model for key, model in DEFAULT_MODELS.items() if os.environ.get(key)), None)


def paper_of(ctx: RunContext[Case]) -> Paper:
    """The paper under review."""
    return Paper(ctx.deps.source or str(ctx.deps.input))


def list_sections(ctx: RunContext[Case]) -> list[Section]:
    """The sections of the paper, in order, with their number of words."""
    return paper_of(ctx).outline()


def read_section(ctx: RunContext[Case], heading: str) -> str:
    """The text of one section, by its heading."""
    return paper_of(ctx).section(heading)


def search_paper(ctx: RunContext[Case], phrases: list[str]) -> list[Passage]:
    """Sentences that hold any of the phrases; a phrase also matches the beginning of a longer word."""
    return paper_of(ctx).search(phrases)


def find_numbers(ctx: RunContext[Case]) -> list[Passage]:
    """Sentences that state a figure."""
    return paper_of(ctx).numbers()


def check_quotes(ctx: RunContext[Case], quotes: list[str]) -> list[bool]:
    """Whether each quote stands in the paper, word for word."""
    return [paper_of(ctx).says(quote) for quote in quotes]


def build_reviewer(model: Model | str | None = None) -> Agent[Case, str]:
    """The manager, with the agents that it delegates to.

    Args:
        model: A model for all four agents; without one, each works by its rules (see ``rules.py``).
    """
    researcher = Agent(
        model or rules.researcher(),
        name="researcher",
        deps_type=Case,
        output_type=Findings,
        instructions=(
            "Read the whole paper, section by section. Report what it says in its own sentences: "
            "quote, do not judge."
        ),
        tools=[list_sections, read_section, search_paper],
    )
    analyst = Agent(
        model or rules.analyst(),
        name="analyst",
        deps_type=Case,
        output_type=Assessment,
        instructions=(
            "Judge the paper's evidence: comparisons, significance, ablations, data, limits, claims that go "
            "beyond it. Rest every point on a sentence of the paper, or say what you searched for in vain."
        ),
        tools=[search_paper, find_numbers],
    )
    synthesizer = Agent(
        model or rules.synthesizer(),
        name="synthesizer",
        deps_type=Case,
        output_type=Review,
        instructions=(
            "Write the review from the findings and the assessment. Check every quote first and use none "
            "that fails."
        ),
        tools=[check_quotes],
    )

    def publish(ctx: RunContext[Case], review: Review) -> str:
        """Hand in the review."""
        writer = (
            "rules, without a language model" if ctx.model.model_name == rules.NAME else ctx.model.model_name
        )
        return f"{review.markdown()}\n\n*Written by {writer}.*"

    manager = Agent(
        model or rules.manager(),
        name="manager",
        deps_type=Case,
        output_type=ToolOutput(publish, name="publish"),
        instructions=(
            "You are responsible for the review of a paper. Delegate research, then analysis, then "
            "synthesis, pass on what each returns, and publish the synthesizer's review unless it "
            "contradicts the findings."
        ),
    )

    @manager.tool
    async def delegate_research(ctx: RunContext[Case], task: str) -> Findings:
        """Have the researcher read the paper."""
        return (await researcher.run(task, deps=ctx.deps, usage=ctx.usage)).output

    @manager.tool
    async def delegate_analysis(ctx: RunContext[Case], findings: Findings) -> Assessment:
        """Have the analyst judge the paper in the light of the findings."""
        task = f"Assess the paper. Findings:\n{findings.model_dump_json()}"
        return (await analyst.run(task, deps=ctx.deps, usage=ctx.usage)).output

    @manager.tool
    async def delegate_synthesis(ctx: RunContext[Case], findings: Findings, assessment: Assessment) -> Review:
        """Have the synthesizer write the review."""
        task = f"Write the review.\n{findings.model_dump_json()}\n{assessment.model_dump_json()}"
        return (await synthesizer.run(task, deps=ctx.deps, usage=ctx.usage)).output

    return manager


reviewer = build_reviewer(chosen_model())
