"""A rule-based stand-in for a judge, so that the example runs without a key and without a network.

It takes the place of a language model and nothing else: it reads the prompt that a model would be sent,
answers in the form that a model is asked for, and is called ``python:document_qa.judge:stand_in`` where a
model's name stands. It is no language model, and what it says about outputs is worth what its rules are.

Its rules: an output is right where it holds a reference, word for word; a claim is supported where a fact
has nearly all of its words. Then it makes mistakes on purpose, so that there is something to find out about
it. How confident it is, and whether it says the opposite of what its rules say, is drawn from a digest of
the texts that it was shown: equal texts get equal answers, and other texts are another draw.

=============  =====  =====  =====  =====  =====
confidence         5      4      3      2      1
=============  =====  =====  =====  =====  =====
of answers      40 %   30 %   15 %   10 %    5 %
of these wrong   2 %    6 %   20 %   35 %   45 %
=============  =====  =====  =====  =====  =====

That is 11.35 % wrong in all and 3.71 % among those of confidence 4 and 5.
"""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from .corpus import words

NAME = "rule-based stand-in (no language model)"

CONFIDENCES = {5: (0.40, 0.02), 4: (0.30, 0.06), 3: (0.15, 0.20), 2: (0.10, 0.35), 1: (0.05, 0.45)}
"""Share of the answers at each confidence, and the share of these that are wrong on purpose."""

NEARLY_ALL = 0.8
"""Share of the words of a claim that a fact must have."""

Texts = Mapping[str, str]


def shown(prompt: str) -> dict[str, str]:
    """The texts that a prompt shows, by name: each stands between marks with one code."""
    code = re.search(r"CODE is (\w+)\.", prompt)
    if code is None:
        return {}
    mark = re.escape(code[1])
    return dict(re.findall(rf"<<<(\w+) {mark}>>>\n(.*?)\n<<<end of \1 {mark}>>>", prompt, re.DOTALL))


def draw(texts: Texts, dimension: str, *, seed: int = 0) -> tuple[int, bool]:
    """How confident the stand-in is of a judgement, and whether it is wrong on purpose.

    Args:
        texts: What it was shown.
        dimension: What it judges.
        seed: Another seed is another stand-in, with the same rates.
    """
    content = json.dumps([seed, dimension, sorted(texts.items())])
    digest = blake2b(content.encode(), digest_size=16).digest()
    first, second = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:]))
    for confidence, (share, wrong) in CONFIDENCES.items():
        if first < share or confidence == min(CONFIDENCES):
            return confidence, second < wrong
        first -= share
    raise AssertionError


def holds(output: str, reference: str) -> bool:
    """Whether an output holds a reference, in whole words and whatever their case."""
    wanted = re.escape(reference.strip().rstrip("."))
    return re.search(rf"(?<!\w){wanted}(?!\w)", output, re.IGNORECASE) is not None


def rule_of_correct(texts: Texts) -> bool:
    """What the rules say: the output holds a reference."""
    return any(holds(texts["output"], each) for each in texts.get("references", "").split("\n---\n"))


def judge_correct(texts: Texts, *, seed: int = 0) -> dict[str, Any]:
    """Whether the output answers the question rightly."""
    confidence, mistaken = draw(texts, "correct", seed=seed)
    right = rule_of_correct(texts) != mistaken
    facts = _facts(texts)
    said = (
        "answers the question as the references do" if right else "does not give the answer of the references"
    )
    return {
        "evidence": [each for each in (texts["output"], *facts[:1]) if each],
        "reason": f"Rule-based stand-in: the output {said}.",
        "level": "right" if right else "wrong",
        "confidence": confidence,
    }


def judge_backed(texts: Texts, *, seed: int = 0) -> dict[str, Any]:
    """Whether the facts say what the output claims, sentence by sentence."""
    confidence, mistaken = draw(texts, "backed", seed=seed)
    claims = []
    for sentence in re.split(r"(?<=[.!?]) +", texts["output"].strip()):
        fact = next((each for each in _facts(texts) if _backs(each, sentence)), "")
        verdict: Literal["supported", "unverifiable"] = (
            "supported" if bool(fact) != mistaken else "unverifiable"
        )
        follows = "A fact has nearly all of its words." if fact else "No fact has nearly all of its words."
        claims.append(
            {
                "claim": sentence,
                "quote": fact,
                "reasoning": follows,
                "importance": "major",
                "verdict": verdict,
            }
        )
    return {
        "claims": claims,
        "reason": "Rule-based stand-in: each sentence is a claim.",
        "confidence": confidence,
    }


def _facts(texts: Texts) -> list[str]:
    return [line.removeprefix("- ") for line in texts.get("facts", "").splitlines()]


def _backs(fact: str, claim: str) -> bool:
    claimed = words(claim)
    return bool(claimed) and len(claimed & words(fact)) >= NEARLY_ALL * len(claimed)


RULES = {"correct": judge_correct, "backed": judge_backed}


def stand_in(seed: int = 0) -> FunctionModel:
    """The stand-in, in the place of a language model.

    Args:
        seed: Of its mistakes.
    """

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        prompt = "".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))
        texts = shown(prompt)
        wanted = info.model_request_parameters.output_object
        names = RULES if wanted is None else wanted.json_schema["properties"]
        answer = {name: RULES[name](texts, seed=seed) for name in names}
        return ModelResponse(parts=[TextPart(json.dumps(answer))])

    return FunctionModel(respond, model_name=NAME)
