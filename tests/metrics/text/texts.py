"""Texts that the tests of the text tier share, written for them."""

from hypothesis import strategies as st

REVIEW = (
    "The paper proposes a parser that learns from partial trees. The idea is simple and well motivated. "
    "The experiments cover three treebanks, and the gains are largest where training data are scarce. "
    "I would have liked an analysis of the errors that remain. The comparison with self-training is missing. "
    "The writing is clear, although the notation of section three could be lighter."
)
OTHER_REVIEW = (
    "This submission studies parsing from incomplete annotation. Its motivation is sound and the method "
    "easy to follow. Gains on small treebanks are convincing; on large ones they vanish. The authors should "
    "compare with self-training and look into remaining errors. Presentation is good, notation is heavy."
)
RECIPE = (
    "Peel two onions and fry them in butter until they are golden. Add the rice, stir, and pour in hot broth "
    "one ladle at a time. After twenty minutes take the pot from the stove and fold in grated cheese."
)

WORDS = """
the of and paper parser tree it’s don't naïve Ünïcode ΟΔΟΣ İzmir 東京 x 42 ½ foo_bar re-run e.g.
"""
words = st.sampled_from(WORDS.split())
punctuation = st.sampled_from([" ", ", ", ".", "—", " “", "” ", "\n", "-", "_", "\u200b", "\x00"])
texts = st.lists(st.tuples(words, punctuation), max_size=30).map(
    lambda parts: "".join(word + mark for word, mark in parts)
) | st.text(max_size=40)
"""Texts with the words, marks and scripts that tokenisers disagree about."""
