"""Runs encoders with ONNX Runtime, without PyTorch (extra ``semantic``).

An encoder is an ONNX export, or the safetensors of a BERT-like model, whose graph is then built here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.bert_graph import build_graph
from trivium.metrics.text.encoders.encoder import Encoder, Vectors, cores, max_tokens
from trivium.metrics.text.encoders.model_files import Source

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_LAST_HIDDEN = ("last_hidden_state", "token_embeddings")


class OnnxEncoder(Encoder):
    """An encoder on ONNX Runtime."""

    backend = "onnx"  # its 512 tokens at once stay in a CPU's caches; more were up to a fifth slower

    def __init__(self, source: Source, layer: int | None) -> None:
        """Load the model.

        Args:
            source: The encoder's files.
            layer: Hidden layer whose vectors are returned, None for the last.

        Raises:
            EncoderUnavailable: If it cannot be loaded, or has no output for that layer.
        """
        import onnxruntime
        from tokenizers import Tokenizer

        self.workers = cores()
        tokenizer = source.folder / "tokenizer.json"
        if not tokenizer.is_file():
            raise EncoderUnavailable(f"{source.name} has no tokenizer.json beside its weights")
        config = source.config("config.json")
        model: bytes | Path = source.folder / source.weights[0]
        weights: Mapping[str, Vectors] = {}
        vocabulary = None
        if source.weights[0].endswith(".safetensors"):
            files = [source.folder / file for file in source.weights]
            model, weights, vocabulary = build_graph(source.name, config, files, layer)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # parallel over batches, not within one
        options.enable_mem_pattern = False  # shapes differ from batch to batch
        options.log_severity_level = 3
        try:
            self._session = _load(model, options, weights)
            tokeniser = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both libraries raise many types
            raise EncoderUnavailable(f"{source.name} cannot be loaded: {error}") from error
        known = 1 + max(tokeniser.get_vocab().values(), default=0)
        if vocabulary is not None and known > vocabulary:
            raise EncoderUnavailable(
                f"the tokenizer.json of {source.name} knows {known} tokens, but its weights {vocabulary}"
            )
        self._inputs = {each.name for each in self._session.get_inputs()}
        if unknown := self._inputs - _INPUTS:
            raise EncoderUnavailable(
                f"the ONNX export of {source.name} asks for {', '.join(sorted(unknown))}; "
                "expected an encoder that reads input_ids and attention_mask"
            )
        self._output = _output(source.name, self._session.get_outputs(), layer)
        limit = max_tokens(config, source.config("tokenizer_config.json"))
        super().__init__(source, layer, tokeniser, pad=config.get("pad_token_id") or 0, limit=limit)

    def hidden(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Vectors:
        """Run the model."""
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        wanted = {name: array for name, array in feed.items() if name in self._inputs}
        hidden: Vectors = self._session.run([self._output], wanted)[0]
        return hidden


def _load(model: bytes | Path, options: Any, weights: Mapping[str, Vectors]) -> Any:
    """Load a model, with its weights where it does not contain them.

    ONNX Runtime copies the weights: their arrays, and the file behind them, can go afterwards.
    """
    from onnxruntime import InferenceSession, OrtValue

    values = {name: OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()}
    options.add_external_initializers(list(values), list(values.values()))
    return InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _output(name: str, outputs: Sequence[Any], layer: int | None) -> str:
    """Return the name of the output that holds the vectors of a layer."""
    names = [each.name for each in outputs]
    wanted = _LAST_HIDDEN if layer is None else tuple(f"hidden_states{dot}{layer}" for dot in "._")
    found = next((each for each in wanted if each in names), None)
    if found is None:
        what = "the last hidden layer" if layer is None else f"layer {layer}"
        raise EncoderUnavailable(
            f"the ONNX export of {name} does not give {what}; it gives {', '.join(names)}"
        )
    return found
