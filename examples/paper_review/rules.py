"""The agents without a language model: rules decide which tool to call next and write from what came back.

Each agent's rules are a function from the messages so far to its next step, exactly the place of a model, so
that tools, delegation and traces are the real ones. Nothing is written that the tools did not bring.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_core import from_json, to_jsonable_python

from .assessing import CHECKS, OVERSTATING, assess
from .paper import Passage, sentences
from .review import Assessment, Findings, Point, Review

NAME = "paper-review-rules"

CONTRIBUTING = ("propose", "present", "introduce", "show that", "prove")
NOT_METHOD = re.compile(
    r"abstract|introduction|experiment|evaluation|study|result|simulation|ablation|analysis|discussion|limitation"
    r"|conclusion|related|reference|acknowledg|interpretab",
    re.IGNORECASE,
)
RESULTS = re.compile("experiment|evaluation|study|result", re.IGNORECASE)
TROUBLE = re.compile(
    r"\b(?:but|however|although|still|slow|expensive|fewer|miss|needs?|useless|wrong|same)\b", re.IGNORECASE
)
MOST_METHOD = 2
"""Sentences told of each method section."""
MOST_RESULTS = 4
"""Sentences told of all results."""

Asked = dict[str, list[Any]]
"""What each tool has returned so far, as plain values."""


def manager() -> FunctionModel:
    """Delegates research, analysis and synthesis in turn, then publishes."""

    def next_step(asked: Asked, prompt: str, info: AgentInfo) -> list[ToolCallPart]:
        if "delegate_research" not in asked:
            return [_call("delegate_research", task=f"Read the paper and report what it says. {prompt}")]
        findings = asked["delegate_research"][0]
        if "delegate_analysis" not in asked:
            return [_call("delegate_analysis", findings=findings)]
        if "delegate_synthesis" not in asked:
            return [_call("delegate_synthesis", findings=findings, assessment=asked["delegate_analysis"][0])]
        return [_answer(info, **asked["delegate_synthesis"][0])]

    return _model(next_step)


def researcher() -> FunctionModel:
    """Reads every section, then looks for what the authors say they contribute."""

    def next_step(asked: Asked, prompt: str, info: AgentInfo) -> list[ToolCallPart]:
        if "list_sections" not in asked:
            return [_call("list_sections")]
        headings = [section["heading"] for section in asked["list_sections"][0]]
        if headings and "read_section" not in asked:
            return [_call("read_section", heading=heading) for heading in headings]
        if "search_paper" not in asked:
            return [_call("search_paper", phrases=list(CONTRIBUTING))]
        texts = dict(zip(headings, asked.get("read_section", []), strict=True))
        contributions = [Passage(**passage) for passage in asked["search_paper"][0]]
        return [_answer(info, **_findings(prompt, texts, contributions).model_dump())]

    return _model(next_step)


def analyst() -> FunctionModel:
    """Runs down a list of what a reviewer checks, each by a search of its own."""

    def next_step(asked: Asked, _prompt: str, info: AgentInfo) -> list[ToolCallPart]:
        if "search_paper" not in asked:
            searches = [*(check.phrases for check in CHECKS), OVERSTATING]
            return [_call("search_paper", phrases=phrases) for phrases in searches]
        if "find_numbers" not in asked:
            return [_call("find_numbers")]
        *found, overstated = [[Passage(**each) for each in passages] for passages in asked["search_paper"]]
        numbers = [Passage(**each) for each in asked["find_numbers"][0]]
        return [_answer(info, **assess(found, overstated, numbers).model_dump())]

    return _model(next_step)


def synthesizer() -> FunctionModel:
    """Checks the quotes, then writes."""

    def next_step(asked: Asked, prompt: str, info: AgentInfo) -> list[ToolCallPart]:
        findings_json, assessment_json = prompt.splitlines()[-2:]
        findings, assessment = Findings(**from_json(findings_json)), Assessment(**from_json(assessment_json))
        points = assessment.strengths + assessment.weaknesses
        quotes = list(dict.fromkeys(point.quote for point in points if point.quote))
        if quotes and "check_quotes" not in asked:
            return [_call("check_quotes", quotes=quotes)]
        stand = {
            quote for quote, stands in zip(quotes, asked.get("check_quotes", [[]])[0], strict=True) if stands
        }

        def written(point: Point) -> str:
            return f"{point.point}: “{point.quote}”" if point.quote in stand else f"{point.point}."

        review = Review(
            summary=_summary(findings),
            strengths=[written(point) for point in assessment.strengths],
            weaknesses=[written(point) for point in assessment.weaknesses],
            questions=assessment.questions,
            recommendation=assessment.recommendation,
        )
        return [_answer(info, **review.model_dump())]

    return _model(next_step)


def third_person(sentence: str) -> str:
    """A sentence of the authors about themselves, as others would say it."""
    swaps = {"We": "The authors", "we": "they", "Our": "Their", "our": "their", "us": "them"}
    return re.sub(r"\b(?:We|we|Our|our|us)\b", lambda found: swaps[found.group()], sentence)


def _findings(prompt: str, texts: dict[str, str], contributions: list[Passage]) -> Findings:
    openings = [heading for heading in texts if re.search("introduction", heading, re.IGNORECASE)]
    introduction = [sentence for heading in openings for sentence in sentences(texts[heading])]
    contributed = [passage.sentence for passage in contributions if passage.section in openings]
    before = introduction[: introduction.index(contributed[0])] if contributed else introduction
    methods = [sentences(text) for heading, text in texts.items() if not NOT_METHOD.search(heading)]
    tested = [text for heading, text in texts.items() if RESULTS.search(heading)]
    figures = [sentence for text in tested for sentence in sentences(text) if re.search(r"\d", sentence)]
    return Findings(
        title=prompt.splitlines()[-1],
        headline=sentences(texts.get("Abstract", ""))[1:],
        problem=[sentence for sentence in before if TROUBLE.search(sentence)] or before[:1],
        contributions=contributed or [passage.sentence for passage in contributions[:2]],
        method=[sentence for section in methods for sentence in _longest(section, MOST_METHOD)],
        results=_longest(figures, MOST_RESULTS),
    )


def _longest(candidates: list[str], most: int) -> list[str]:
    """The longest sentences, in the order of the paper."""
    return sorted(sorted(candidates, key=len, reverse=True)[:most], key=candidates.index)


def _summary(findings: Findings) -> str:
    told = [
        *("The abstract says: " + sentence for sentence in findings.headline),
        *findings.problem,
        *findings.contributions,
        *findings.method,
        *findings.results,
    ]
    return " ".join(third_person(sentence) for sentence in dict.fromkeys(told))


def _model(next_step: Callable[[Asked, str, AgentInfo], list[ToolCallPart]]) -> FunctionModel:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=next_step(_asked(messages), _task(messages), info))

    return FunctionModel(respond, model_name=NAME)


def _task(messages: list[ModelMessage]) -> str:
    parts = (part for message in messages for part in message.parts)
    return next(str(part.content) for part in parts if isinstance(part, UserPromptPart))


def _asked(messages: list[ModelMessage]) -> Asked:
    parts = [part for message in messages for part in message.parts]
    returned = {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}
    asked: defaultdict[str, list[Any]] = defaultdict(list)
    for part in parts:
        if isinstance(part, ToolCallPart) and part.tool_call_id in returned:
            asked[part.tool_name].append(to_jsonable_python(returned[part.tool_call_id]))
    return dict(asked)


def _call(tool: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool_name=tool, args=arguments)


def _answer(info: AgentInfo, **fields: Any) -> ToolCallPart:
    return _call(info.output_tools[0].name, **fields)
