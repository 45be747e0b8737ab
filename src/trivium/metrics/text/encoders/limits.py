"""How many tokens an encoder can read."""

from collections.abc import Mapping
from typing import Any

_WITHOUT_LIMIT = 512
"""Where neither the model nor its tokeniser names a limit (relative positions), the usual one of encoders."""

_PADDED_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xmod", "data2vec-text"}
)
"""Models that count positions from behind the padding token's id, so that so many fewer are left."""


def max_tokens(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    """Tokens of the longest text that a model reads, special ones included.

    Args:
        config: The model's ``config.json``.
        tokenizer_config: Its ``tokenizer_config.json``.
    """
    limits = []
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and positions > 0:
        lost = (config.get("pad_token_id") or 0) + 1 if config.get("model_type") in _PADDED_POSITIONS else 0
        limits.append(positions - lost)
    stated = tokenizer_config.get("model_max_length")
    if isinstance(stated, int | float) and 0 < stated < 1e9:  # "no limit" is written as 1e30
        limits.append(int(stated))
    return min(limits, default=_WITHOUT_LIMIT)
