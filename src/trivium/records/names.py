"""The names that other tools give to the fields of cases, recorded outputs and items.

A new name is one word here. Where several columns of a table could be a field, the first name counts.
"""

CASE_NAMES = {
    "id": ("id", "_id", "idx", "question_id", "task_id", "name"),
    "input": (
        "input",
        "inputs",
        "question",
        "prompt",
        "instruction",
        "query",
        "problem",
        "text",
        "user_input",
        "messages",
    ),
    "references": (
        "references",
        "reference",
        "answer",
        "answers",
        "target",
        "expected_output",
        "expected",
        "output",
        "solution",
        "ground_truth",
        "ground_truths",
        "ideal",
        "gold",
        "expected_answer",
        "correct_answer",
        "reference_answer",
    ),
    "source": ("source", "context", "document", "passage"),
    "group": ("group",),
    "tags": ("tags",),
    "complexity": ("complexity",),
}
"""Names of the fields of a case."""

OUTPUT_NAMES = {
    "case": ("case", "case_id", "id", "_id", "idx", "question_id", "task_id"),
    "contexts": ("contexts", "retrieved_contexts", "retrieval_context", "retrieved_documents"),
    "output": (
        "output",
        "outputs",
        "response",
        "prediction",
        "predictions",
        "predicted",
        "completion",
        "generation",
        "generated_answer",
        "actual_output",
        "model_output",
        "answer",
    ),
}
"""Names of the fields of a recorded output."""

EXPECTED_TOOLS = "expected_tools"
"""DeepEval's name of the calls that are expected, each a name and its ``inputParameters``."""

RESEMBLING = frozenset({EXPECTED_TOOLS, "comments", "expectations", "source_file"})
"""Names of other tools that resemble a field and are another thing, so that they are no misspelling of it."""

EITHER = frozenset({"answer", "output"})
"""Names of the reference in some tools, and of the agent's output in others."""

ITEM_NAMES = {
    "group": ("paper_id", "document_id", "case_id", "case", "participant_id", "patient_id", "user_id", "id"),
    "item": ("question", "question_id", "dimension", "item_id", "id"),
    "pred": ("prediction", "predicted"),
    "gt": ("ground_truth", "label", "truth", "target"),
}
"""Names of the fields of an item of a prediction and its truth."""


def plain_name(name: str) -> str:
    """A name in the form in which the tables above have it: ``Expected Output`` as ``expected_output``."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")
