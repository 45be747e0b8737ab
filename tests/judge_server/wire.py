"""Answers and errors as each provider writes them."""

from typing import Any

import msgspec

from tests.judge_server.answer import Answer, tokens, written
from tests.judge_server.question import Api, Question

_CREATED = 1_760_000_000
_REFUSED = "I cannot help with that."


def envelope(question: Question, answers: list[Answer], kind: str) -> dict[str, Any]:
    """The body of a 200.

    Args:
        question: What was asked.
        answers: What the model says, one for each sample.
        kind: Of the reaction: an answer, or a malformed, truncated or refused one.
    """
    if question.api == "chat":
        return _chat(question, answers, kind)
    return (_responses if question.api == "responses" else _messages)(question, answers[0], kind)


def events(message: dict[str, Any], text: str) -> bytes:
    """An Anthropic message as the events of a stream, its text or tool input in one piece."""
    start = {**message, "content": [], "stop_reason": None}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        called = block["type"] == "tool_use"
        opening = {**block, "input": {}} if called else {**block, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": text}
            if called
            else {"type": "text_delta", "text": text}
        )
        found.append({"type": "content_block_start", "index": index, "content_block": opening})
        found.append({"type": "content_block_delta", "index": index, "delta": delta})
        found.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    found.append({"type": "message_delta", "delta": stop, "usage": message["usage"]})
    found.append({"type": "message_stop"})
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for event in found
    )


def error(api: Api, status: int, message: str | None = None) -> dict[str, Any]:
    """The body of a failure."""
    message = message or f"scripted {status}"
    if api == "messages":
        name = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
        name |= {429: "rate_limit_error", 529: "overloaded_error"}
        kind = name.get(status, "api_error")
        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_1",
        }
    kind = (
        "rate_limit_exceeded"
        if status == 429
        else "server_error"
        if status >= 500
        else "invalid_request_error"
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def answer_text(answer: Answer, kind: str) -> str:
    """The model's text after what befell it."""
    text = written(answer.output)
    if kind == "malformed":
        return '{"score": four, ' + text[1:]
    return text[: len(text) // 2] if kind == "truncated" else text


def usage(question: Question, answers: list[Answer]) -> tuple[int, int]:
    """Tokens read and written."""
    if answers[0].usage is not None:
        return answers[0].usage
    written_length = sum(len(written(answer.output)) for answer in answers)
    return max(1, len(question.prompt) // 4), max(1, written_length // 4)


def _chat(question: Question, answers: list[Answer], kind: str) -> dict[str, Any]:
    read, wrote = usage(question, answers)
    return {
        "id": f"chatcmpl-{question.number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": question.model,
        "system_fingerprint": "fp_loopback",
        "choices": [_choice(question, index, answer, kind) for index, answer in enumerate(answers)],
        "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
    }


def _choice(question: Question, index: int, answer: Answer, kind: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    finish, logprobs = "length" if kind == "truncated" else "stop", None
    text = answer_text(answer, kind)
    if kind == "refusal":
        message["refusal"] = _REFUSED
    elif question.tool is not None:
        function = {"name": question.tool, "arguments": text}
        message["tool_calls"] = [
            {"id": f"call_{question.number}_{index}", "type": "function", "function": function}
        ]
        finish = "length" if kind == "truncated" else "tool_calls"
    else:
        message["content"] = text
        if question.logprobs is not None:
            # Providers give log-probabilities for text, not for the arguments of a tool call.
            logprobs = {"content": _tokens(question, answer, text), "refusal": None}
    return {"index": index, "message": message, "finish_reason": finish, "logprobs": logprobs}


def _tokens(question: Question, answer: Answer, text: str) -> list[msgspec.Raw]:
    whole = text == written(answer.output)
    return tokens(
        answer.output if whole else text, top=question.logprobs or 0, odds=answer.odds, seed=question.prompt
    )


def _responses(question: Question, answer: Answer, kind: str) -> dict[str, Any]:
    read, wrote = usage(question, [answer])
    status, number, text = (
        "incomplete" if kind == "truncated" else "completed",
        question.number,
        answer_text(answer, kind),
    )
    item: dict[str, Any]
    if question.tool is not None and kind != "refusal":
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        item |= {"name": question.tool, "arguments": text, "status": status}
    else:
        content: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if kind == "refusal":
            content = {"type": "refusal", "refusal": _REFUSED}
        elif question.logprobs is not None:
            content["logprobs"] = _tokens(question, answer, text)
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": status,
            "content": [content],
        }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if kind == "truncated" else None,
        "instructions": question.body.get("instructions"),
        "model": question.model,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": question.body.get("tool_choice", "auto"),
        "tools": question.body.get("tools", []),
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + wrote,
        },
    }


def _messages(question: Question, answer: Answer, kind: str) -> dict[str, Any]:
    read, wrote = usage(question, [answer])
    stop, content = "end_turn", [{"type": "text", "text": answer_text(answer, kind)}]
    if kind == "refusal":
        stop, content = "refusal", []
    elif question.tool is not None:
        # The provider has parsed a tool's input, except in a stream: a broken one lacks what was asked.
        given = {} if kind in ("malformed", "truncated") else answer.output
        stop = "tool_use"
        content = [
            {"type": "tool_use", "id": f"toolu_{question.number}", "name": question.tool, "input": given}
        ]
    if kind == "truncated":
        stop = "max_tokens"
    return {
        "id": f"msg_{question.number}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": wrote},
    }
