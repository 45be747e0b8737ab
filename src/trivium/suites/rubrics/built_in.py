"""The rubrics that come with Trivium (spec: metrics, T2.2 to T2.4)."""

from trivium.suites.rubrics.rubric import Criterion, Dimension, Rubric, Seen

_PROCESS: tuple[Seen, ...] = ("input", "workflow", "trace")


def _criterion(name: str, weight: float, asks: str) -> Criterion:
    return Criterion(name=name, weight=weight, asks=asks)


REVIEW = Rubric(
    name="review",
    dimensions=(
        Dimension(
            name="technical_accuracy",
            asks="Whether what the output says about the source document is right.",
            criteria=(
                _criterion("factual_correctness", 0.5, "What it states agrees with the source document."),
                _criterion("methodology_understanding", 0.3, "It understands how the work was done."),
                _criterion("domain_knowledge", 0.2, "It shows knowledge of the field."),
            ),
            sees=("input", "source", "output"),
            needs=("source",),
        ),
        Dimension(
            name="constructiveness",
            asks="Whether the output helps the authors to do better.",
            criteria=(
                _criterion("actionable_feedback", 1, "It says what could be done, concretely."),
                _criterion("balanced_critique", 1, "It names strengths as well as weaknesses, fairly."),
                _criterion("improvement_guidance", 1, "It shows a way to each improvement it asks for."),
            ),
            sees=("input", "source", "output"),
        ),
        Dimension(
            name="clarity",
            asks="Whether the output can be followed.",
            criteria=(
                _criterion("structure", 1, "Its parts are in a sensible order and can be told apart."),
                _criterion("readability", 1, "Its sentences are plain and free of needless jargon."),
                _criterion("logical_flow", 1, "Each thought follows from what was said before."),
            ),
            sees=("input", "output"),
        ),
        Dimension(
            name="planning_rationality",
            asks="Whether the steps of the process make sense for the task.",
            criteria=(
                _criterion("logical_flow", 0.3, "Each step follows from those before."),
                _criterion("decision_quality", 0.5, "What was decided at each step was a good choice."),
                _criterion("resource_efficiency", 0.2, "Few steps, calls and tokens were wasted."),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="reasoning_quality",
            asks="Whether the decisions of the process are reasoned well.",
            criteria=(
                _criterion("decision_making", 0.5, "Decisions rest on what was known when they were made."),
                _criterion("logical_coherence", 0.5, "Nothing contradicts itself from step to step."),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="tool_usage",
            asks="Whether tools were used well.",
            criteria=(
                _criterion("tool_choice", 0.5, "The right tool was taken for each purpose."),
                _criterion("call_efficiency", 0.5, "No call was needless, repeated or badly formed."),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="coordination",
            asks="Whether the agents worked together well.",
            criteria=(
                _criterion("delegation", 0.4, "Work went to the agent that suits it."),
                _criterion("handoff_clarity", 0.3, "What was handed over could be worked with."),
                _criterion("workflow_adherence", 0.3, "The expected workflow, where stated, was kept to."),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
    ),
)

AGENT = Rubric(
    name="agent",
    dimensions=(
        Dimension(
            name="factual_accuracy",
            asks="Whether the claims of the output are true, by the facts, the source and the references.",
            claims=True,
            sees=("input", "facts", "source", "references", "output"),
            needs=("facts", "source", "references"),
            weight=0.30,
        ),
        Dimension(
            name="completeness",
            asks="How large a share of the aspects that were asked for the output covers.",
            aspects=True,
            sees=("input", "aspects", "output"),
            weight=0.25,
        ),
        Dimension(
            name="citation_accuracy",
            asks="Whether the sources that the output cites say what they are cited for (null: none).",
            sees=("input", "sources", "source", "output"),
            weight=0.15,
        ),
        Dimension(
            name="source_quality",
            asks="Whether the sources that the output cites are primary and authoritative (null: none).",
            sees=("input", "sources", "output"),
            weight=0.10,
        ),
        Dimension(
            name="tool_efficiency",
            asks="Whether the right tools were used, with a reasonable number of calls.",
            sees=("input", "trace", "output"),
            needs=("trace",),
            weight=0.20,
        ),
    ),
)

BUILT_IN = {rubric.name: rubric for rubric in (REVIEW, AGENT)}
