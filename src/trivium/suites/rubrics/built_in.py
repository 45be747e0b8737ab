"""The built-in rubrics ``review``, ``agent``, ``documents``, ``conversation`` and ``simulated_user``.

Definitions: docs/definitions/judge.md#review, docs/definitions/judge.md#agent,
docs/definitions/judge.md#documents, docs/definitions/judge.md#conversation,
docs/definitions/judge.md#user-mistakes.
"""

from trivium.suites.rubrics.rubric import LEVELS, Criterion, Dimension, InputName, Level, Rubric

_PROCESS: tuple[InputName, ...] = ("input", "workflow", "trace")


def _criterion(name: str, weight: float, asks: str, *anchors: str) -> Criterion:
    """Make a criterion with anchors for 1, 3 and 5."""
    return Criterion(
        name=name, weight=weight, asks=asks, anchors=dict(zip(("1", "3", "5"), anchors, strict=True))
    )


def _levels(*means: str) -> dict[str, float | Level]:
    """The default levels, best first, with other anchors."""
    return {
        name: Level(value=level.value, means=anchor)
        for (name, level), anchor in zip(LEVELS.items(), means, strict=True)
        if isinstance(level, Level)
    }


REVIEW = Rubric(
    name="review",
    dimensions=(
        Dimension(
            name="technical_accuracy",
            asks="Whether what the output says about the source document is right.",
            criteria=(
                _criterion(
                    "factual_correctness",
                    0.5,
                    "What it states agrees with the source document.",
                    "Most of what it states about the source contradicts it or is made up.",
                    "Its main statements are right; several details are wrong or go "
                    "beyond what the source says.",
                    "Every statement that can be checked agrees with the source, names and figures included.",
                ),
                _criterion(
                    "methodology_understanding",
                    0.3,
                    "It understands how the work was done.",
                    "It misrepresents the method, or shows no sign of knowing what was done.",
                    "It names the method rightly but stays on the surface, or misses a step that matters.",
                    "It shows what was done, how and why; its remarks meet the actual "
                    "design, data and analysis.",
                ),
                _criterion(
                    "domain_knowledge",
                    0.2,
                    "It shows knowledge of the field.",
                    "It confuses basic terms, or could be about any field.",
                    "It uses the terms of the field rightly, without its standards, usual "
                    "practice or related work.",
                    "It measures the work by the standards and known results of its "
                    "field, and does so rightly.",
                ),
            ),
            sees=("input", "source", "output"),
            needs=("source",),
        ),
        Dimension(
            name="constructiveness",
            asks="Whether the output helps the authors to do better.",
            criteria=(
                _criterion(
                    "actionable_feedback",
                    1,
                    "It says what could be done, concretely.",
                    "It gives no advice, or only verdicts such as good, bad or unclear.",
                    "Some remarks say what to change; others leave open what is meant, or where.",
                    "Nearly every criticism says what to change and where, so that the "
                    "authors could start at once.",
                ),
                _criterion(
                    "balanced_critique",
                    1,
                    "It names strengths as well as weaknesses, fairly.",
                    "It only praises or only condemns, or is unfair to the work.",
                    "It names both strengths and weaknesses, one of them only in passing "
                    "or in general terms.",
                    "It names specific strengths and specific weaknesses with reasons, in "
                    "proportion to their weight.",
                ),
                _criterion(
                    "improvement_guidance",
                    1,
                    "It shows a way to each improvement it asks for.",
                    "It asks for improvements without a hint how to make them, or for none.",
                    "For some improvements it shows a way; of others it only says that something is missing.",
                    "For each improvement it shows a way to it: an analysis, an "
                    "experiment, a source, a wording.",
                ),
            ),
            sees=("input", "source", "output"),
        ),
        Dimension(
            name="clarity",
            asks="Whether the output can be followed.",
            criteria=(
                _criterion(
                    "structure",
                    1,
                    "Its parts are in a sensible order and can be told apart.",
                    "There is no order to be seen; points are scattered or repeated.",
                    "Its parts can be told apart, but some points stand in the wrong place or are mixed.",
                    "It follows a plan that is seen at once, and each point stands where it belongs.",
                ),
                _criterion(
                    "readability",
                    1,
                    "Its sentences are plain and free of needless jargon.",
                    "Many sentences have to be read several times, or cannot be understood.",
                    "It can be read, with some long, vague or needlessly technical sentences.",
                    "Every sentence is understood when first read; technical terms stand "
                    "only where they are needed.",
                ),
                _criterion(
                    "logical_flow",
                    1,
                    "Each thought follows from what was said before.",
                    "Conclusions come from nowhere, or contradict what was said.",
                    "The line of thought can be followed, with leaps that the reader has to bridge.",
                    "Each statement is supported by what stands before it, without leap or contradiction.",
                ),
            ),
            sees=("input", "output"),
        ),
        Dimension(
            name="planning_rationality",
            asks="Whether the steps of the process make sense for the task.",
            criteria=(
                _criterion(
                    "logical_flow",
                    0.3,
                    "Each step follows from those before.",
                    "The order makes no sense: results are used before they exist, or "
                    "steps do not serve the task.",
                    "The order is sensible on the whole; a few steps are out of place or "
                    "have no visible purpose.",
                    "Each step builds on the results before it and leads towards the task.",
                ),
                _criterion(
                    "decision_quality",
                    0.5,
                    "What was decided at each step was a good choice.",
                    "Most choices of what to do next were wrong, or ignored what had been found.",
                    "The choices that matter were reasonable; some that were clearly better were missed.",
                    "At each step the choice was one that an expert would have made with what was known.",
                ),
                _criterion(
                    "resource_efficiency",
                    0.2,
                    "Few steps, calls and tokens were wasted.",
                    "Most of the effort was wasted: repetition, dead ends, many times the "
                    "steps that the task needs.",
                    "Some steps or calls could have been left out without loss.",
                    "Nearly every step, call and token served the result.",
                ),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="reasoning_quality",
            asks="Whether the decisions of the process are reasoned well.",
            criteria=(
                _criterion(
                    "decision_making",
                    0.5,
                    "Decisions rest on what was known when they were made.",
                    "Decisions have no visible ground, or go against what was known.",
                    "Most decisions have a ground in what was known; some are guesses or ignore a finding.",
                    "Every decision rests on what was known, with alternatives and uncertainty considered.",
                ),
                _criterion(
                    "logical_coherence",
                    0.5,
                    "Nothing contradicts itself from step to step.",
                    "Steps contradict each other, or conclusions do not follow from what was found.",
                    "The line holds, with a small contradiction or an unexplained change of direction.",
                    "All steps and conclusions fit together; each change of direction is "
                    "explained by a finding.",
                ),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="tool_usage",
            asks="Whether tools were used well.",
            criteria=(
                _criterion(
                    "tool_choice",
                    0.5,
                    "The right tool was taken for each purpose.",
                    "Tools do not fit their purpose, or a tool that was needed was not used.",
                    "The tools do the job; for some purposes a better one was at hand.",
                    "For each purpose the best tool at hand was used, and none where none was needed.",
                ),
                _criterion(
                    "call_efficiency",
                    0.5,
                    "No call was needless, repeated or badly formed.",
                    "Most calls are repeated, needless or badly formed.",
                    "Most calls serve the task; a few are redundant, or repeated because of wrong arguments.",
                    "Each call is well formed, made once, and gives something that is used.",
                ),
            ),
            sees=_PROCESS,
            needs=("trace",),
        ),
        Dimension(
            name="coordination",
            asks="Whether the agents worked together well.",
            criteria=(
                _criterion(
                    "delegation",
                    0.4,
                    "Work went to the agent that suits it.",
                    "Work goes to agents that cannot do it, or one agent does what others were there for.",
                    "Work mostly goes to a suitable agent; some is misplaced, done twice or left undone.",
                    "Each piece of work goes to the agent that suits it best; none is "
                    "done twice or forgotten.",
                ),
                _criterion(
                    "handoff_clarity",
                    0.3,
                    "What was handed over could be worked with.",
                    "What is handed over is missing, garbled or of no help to the receiver.",
                    "It can be worked with, after asking back or filling gaps by guessing.",
                    "Each hand-over holds the task, its context and the results needed, "
                    "and is taken up as meant.",
                ),
                _criterion(
                    "workflow_adherence",
                    0.3,
                    "The expected workflow, where stated, was kept to.",
                    "The expected workflow is ignored: agents or steps are missing, or in another order.",
                    "Its main steps are there; one is skipped, swapped or repeated without need.",
                    "All its steps are there in their order; any departure is explained by the task.",
                ),
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
            levels=_levels(
                "Every citation supports what it is cited for and says exactly where that stands.",
                "Every citation supports what it is cited for; the form of some is incomplete.",
                "The citations of the main claims are right; some of minor claims are "
                "imprecise or cannot be checked.",
                "Several citations do not support what they are cited for, those of main claims among them.",
                "Nearly all citations are wrong or made up.",
            ),
            sees=("input", "sources", "source", "output"),
            weight=0.15,
        ),
        Dimension(
            name="source_quality",
            asks="Whether the sources that the output cites are primary and authoritative (null: none).",
            levels=_levels(
                "All sources are primary and authoritative: original papers, data, official documents.",
                "Most sources are primary and authoritative; a few are good secondary ones.",
                "Primary and secondary sources are mixed, and no main claim rests on an unreliable one.",
                "Most sources are secondary, or main claims rest on unreliable ones.",
                "No source can be trusted.",
            ),
            sees=("input", "sources", "output"),
            weight=0.10,
        ),
        Dimension(
            name="tool_efficiency",
            asks="Whether the right tools were used, with a reasonable number of calls.",
            levels=_levels(
                "The best tools at hand, and no more calls than the task needs.",
                "Fitting tools, with one or two calls that could have been spared.",
                "Tools that do the job, with repeated or roundabout calls.",
                "Wrong tools for a part of the task, or several times the calls that it needs.",
                "Tools misused throughout, or calls without end that led nowhere.",
            ),
            sees=("input", "trace", "output"),
            needs=("trace",),
            weight=0.20,
        ),
    ),
)

DOCUMENTS = Rubric(
    name="documents",
    dimensions=(
        Dimension(
            name="grounded",
            asks="Whether the contexts, which are the retrieved documents, support what the output claims.",
            claims=True,
            sees=("input", "contexts", "output"),
            needs=("contexts",),
            weight=0.5,
        ),
        Dimension(
            name="answers_the_question",
            asks="Whether the output answers what the input asks. Where the contexts hold no answer, saying "
            "so is one.",
            levels=_levels(
                "It answers all that is asked and says nothing beside it.",
                "It answers what is asked; a detail is missing, or something is said that was not asked for.",
                "It answers the main question and leaves another part of what is asked open.",
                "It speaks of the matter and answers little of what is asked, or another question.",
                "It answers nothing of what is asked.",
            ),
            sees=("input", "contexts", "output"),
            weight=0.25,
        ),
        Dimension(
            name="used_what_was_relevant",
            asks="Whether the output uses what the contexts hold for the question, and leaves out the rest "
            "(null: they hold nothing for it).",
            levels=_levels(
                "All that they hold for the question is used, and nothing else of them.",
                "What matters is used; a detail is left out, or something beside the question is taken over.",
                "The main point is used; another that matters is left out.",
                "Most of what they hold for the question is left out, or most of what is used is beside it.",
                "Nothing that they hold for the question is used.",
            ),
            sees=("input", "contexts", "output"),
            needs=("contexts",),
            weight=0.25,
        ),
    ),
)

_TALK: tuple[InputName, ...] = ("conversation", "references", "facts")

CONVERSATION = Rubric(
    name="conversation",
    dimensions=(
        Dimension(
            name="goal_reached",
            asks="Whether the user has at the end of the conversation what they came for, by what the "
            "assistant did and said. Facts and references, if there are any, say what is right.",
            levels=_levels(
                "The user has all that they came for, and nothing of it is wrong.",
                "The user has what they came for; a detail is missing or was hard to get.",
                "The main thing is reached, and another that the user wanted is not.",
                "The user has little of what they came for, or something that is wrong in part.",
                "Nothing of it is reached, or it is claimed to be and is not.",
            ),
            sees=_TALK,
            needs=("conversation",),
            weight=0.4,
        ),
        Dimension(
            name="kept_what_was_said",
            asks="Whether the assistant keeps to what was said in earlier turns, by the user and by itself "
            "(null: there is only one turn).",
            levels=_levels(
                "It uses what was said, asks for nothing twice, and contradicts nothing.",
                "It keeps what matters; once it asks again for a detail, or leaves one out of account.",
                "It keeps the main things, and forgets or contradicts one that the user notices.",
                "It forgets or contradicts several things, so that the user has to repeat them.",
                "It answers each turn as if nothing had been said before, or contradicts itself throughout.",
            ),
            sees=_TALK,
            needs=("conversation",),
            weight=0.2,
        ),
        Dimension(
            name="answered_what_was_asked",
            asks="Whether each reply of the assistant answers what the user said in that turn.",
            levels=_levels(
                "Each reply answers all that was asked in its turn, and nothing beside it.",
                "Each reply answers what was asked; one leaves a detail open or says too much.",
                "Most replies do; one passes over a question, or answers another one.",
                "Several replies pass over what was asked.",
                "Hardly a reply has to do with what was asked.",
            ),
            sees=_TALK,
            needs=("conversation",),
            weight=0.2,
        ),
        Dimension(
            name="handled_refusal_and_correction",
            asks="Whether the assistant takes it up rightly when the user refuses, corrects or contradicts "
            "it: it gives way where they are right and stays where they are not (null: it does not happen).",
            levels=_levels(
                "It takes up each refusal and correction at once and rightly, without excuse or argument.",
                "It takes each up rightly, one of them only in part or after hesitation.",
                "It takes up the one that matters most, and passes over another.",
                "It repeats what was refused or corrected, or gives way where the user is wrong.",
                "It ignores or disputes every refusal and correction, or says whatever it is pressed to.",
            ),
            sees=_TALK,
            needs=("conversation",),
            weight=0.2,
        ),
    ),
)

_PLAYED: tuple[InputName, ...] = ("user", "conversation")


def _mistake(name: str, asks: str, *means: str) -> Dimension:
    """Make a dimension about the simulated user: no mistake, a slip that changes nothing, a mistake."""
    levels = zip((("none", 1.0), ("slip", 0.5), ("mistake", 0.0)), means, strict=True)
    return Dimension(
        name=name,
        asks=asks,
        levels={level: Level(value=value, means=anchor) for (level, value), anchor in levels},
        sees=_PLAYED,
        needs=("user",),
    )


SIMULATED_USER = Rubric(
    name="simulated_user",
    dimensions=(
        _mistake(
            "user_kept_goal",
            "Whether the user of the conversation pursues the goal that they were given, and no other. Judge "
            "the user, not the assistant.",
            "All that the user wants belongs to the goal, and nothing of the goal is given up without need.",
            "The user wanders off once and returns; the assistant's chances are the same.",
            "The user pursues another goal, gives theirs up without need, or speaks as an assistant.",
        ),
        _mistake(
            "user_told_what_they_know",
            "Whether the user of the conversation tells only what they were given to know. Judge the user, "
            "not the assistant.",
            "All that the user states was given to them, or was said by the assistant before.",
            "A detail was not given to them, and nothing depends on it.",
            "The user states something that was not given to them, and the assistant could act on it.",
        ),
        _mistake(
            "user_ended_in_time",
            "Whether the user of the conversation ends it when they were told to: when the goal is reached, "
            "or cannot be. Judge the user, not the assistant.",
            "The conversation ends when the goal is reached, cannot be, or what ends it has happened.",
            "It ends one turn early or late, and the outcome is the same.",
            "The user ends it while the goal could still be reached, or goes on long after its end.",
        ),
    ),
)

USER_MISTAKES = tuple(dimension.name for dimension in SIMULATED_USER.dimensions)
"""Metrics that are 0 where the simulated user of a conversation made a mistake."""

BUILT_IN = {rubric.name: rubric for rubric in (REVIEW, AGENT, DOCUMENTS, CONVERSATION, SIMULATED_USER)}
