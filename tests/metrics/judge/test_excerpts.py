"""Excerpts of long documents: bounded, in order, and where the output leads."""

from hypothesis import given
from hypothesis import strategies as st

from trivium.agents.attempt import Attempt, ChatMessage, dialogue
from trivium.metrics.judge.evidence import passages
from trivium.metrics.judge.prompts.context import Truncation, build_context, excerpt_of_dialogue
from trivium.metrics.judge.prompts.context import head as head_and_cut
from trivium.metrics.judge.prompts.context import relevant_excerpt as relevant_and_cut
from trivium.metrics.metric import MetricInput
from trivium.suites.case import Case

TOPICS = ("parsing of Turkish nouns", "speech of children", "news from Berlin", "poems by machines")
DOCUMENT = "\n\n".join(
    f"Section {n}. This part of the paper is about {topic}, and goes into all of its details at length. " * 3
    for n, topic in enumerate(TOPICS)
)
TEXTS = st.text(alphabet="ab \n.é", max_size=400)


def head(document, most):
    return head_and_cut(document, most).text


def relevant_excerpt(document, output, most):
    return relevant_and_cut(document, output, most).text


def shown_of(document, output, most):
    return relevant_excerpt(document, output, most).rsplit("\n[excerpts: ", 1)[0]


def test_the_passage_that_the_output_speaks_of_is_shown():
    excerpt = shown_of(DOCUMENT, "I liked it. The part on news from Berlin convinces.", 400)
    assert "news from Berlin" in excerpt
    assert "Turkish" not in excerpt
    assert excerpt.startswith("[…]")


def test_passages_stand_in_the_order_of_the_document():
    excerpt = shown_of(DOCUMENT, "Poems by machines are fun. Turkish nouns are not.", 700)
    assert 0 <= excerpt.index("Turkish nouns") < excerpt.index("[…]") < excerpt.index("poems by machines")


def test_the_nearest_passage_is_that_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    output = "Speech of children is studied at length."
    parts = passages(DOCUMENT)
    vectors = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
    tables = [vectors.fit_transform([output, part]) for part in parts]
    values = [float(cosine_similarity(table)[0, 1]) for table in tables]
    nearest = parts[values.index(max(values))]
    assert nearest in relevant_excerpt(DOCUMENT, output, len(nearest) + 10)


def test_room_that_is_left_goes_to_the_beginning():
    assert "Section 0." in shown_of(DOCUMENT, "News from Berlin.", 800)


@given(TEXTS, TEXTS, st.integers(1, 300))
def test_excerpts_are_bounded_and_cut_from_the_document(document, output, most):
    excerpt = relevant_excerpt(document, output, most)
    if len(document) <= most:
        assert excerpt == document
        return
    body, _, note = excerpt.rpartition("\n[")
    assert len(body) <= most
    assert note.startswith(("excerpts: ", "cut: "))
    plain = " ".join(document.split())
    pieces = [" ".join(piece.split()) for piece in body.split("[…]")]
    assert all(piece in plain for piece in pieces)


@given(TEXTS, st.integers(1, 300))
def test_the_head_is_the_first_characters(document, most):
    cut = head(document, most)
    assert cut == document or (cut.startswith(document[:most]) and cut[most:].startswith("\n[cut: "))


def test_an_output_that_shares_no_word_is_shown_the_head():
    assert relevant_excerpt(DOCUMENT, "¿?", 100) == head(DOCUMENT, 100)


def test_the_source_and_each_reference_are_excerpted():
    case = Case(id="c", input="q", source=DOCUMENT, references=(DOCUMENT, "short"))
    subject = MetricInput(case, Attempt(case="c", output="News from Berlin."))
    texts, cut, _ = build_context(subject, excerpt_chars=400, excerpts="retrieval")
    body = texts["source"].rsplit("\n[excerpts: ", 1)[0]
    assert cut == {
        "source": Truncation(len(body), len(DOCUMENT)),
        "references": Truncation(len(body) + len("short"), len(DOCUMENT) + len("short")),
    }
    assert "news from Berlin" in texts["source"]
    assert texts["references"] == f"{texts['source']}\n---\nshort"
    assert "Turkish" in build_context(subject, excerpt_chars=400).texts["source"]


def turns_of(number, length=20):
    return [
        ChatMessage(role=role, content=f"{role} {turn} ".ljust(length, "."), turn=turn)
        for turn in range(1, number + 1)
        for role in ("user", "assistant")
    ]


def test_a_long_dialogue_is_cut_by_whole_turns_and_says_so():
    whole = excerpt_of_dialogue(turns_of(10), 10_000)
    assert (whole.text, whole.cut) == (dialogue(turns_of(10)), None)
    messages = turns_of(10)
    turn = len(dialogue(messages[:2])) + 2
    cut = excerpt_of_dialogue(messages, 3 * turn + 5)
    assert cut.cut == Truncation(3, 10, "turns")
    first, note, last = cut.text.partition("\n\n[cut: 7 turns]\n\n")
    assert (first, last) == (dialogue(messages[:4]), dialogue(messages[-2:]))
    assert note


def test_a_turn_that_is_too_long_by_itself_is_cut_by_characters():
    cut = excerpt_of_dialogue(turns_of(2, 500), 100)
    assert cut.cut.unit == "characters"
    assert cut.text.startswith("turn 1, user: user 1 ...")


def test_of_a_conversation_the_input_is_what_precedes_the_last_reply():
    messages = tuple(turns_of(2))
    attempt = Attempt(case="c", output=messages[-1].content, messages=messages)
    case = Case(id="c", turns=("user 1", "user 2"))
    texts = build_context(MetricInput(case, attempt), excerpt_chars=1000).texts
    assert texts["input"] == dialogue(messages[:-1])
    assert texts["output"] == messages[-1].content
