"""Runs encoders with PyTorch and transformers, on CUDA if available (extra ``semantic-torch``)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.encoder import Encoder, Tokens, Vectors, cores, max_tokens
from trivium.metrics.text.encoders.model_files import Source


class TorchEncoder(Encoder):
    """A transformers model."""

    backend = "torch"

    def __init__(self, source: Source, layer: int | None) -> None:
        """Load the model, only from safetensors: pickled weights can run code.

        Args:
            source: The encoder's files.
            layer: Hidden layer whose vectors are returned, 0 for the embeddings, None for the last.

        Raises:
            EncoderUnavailable: If it cannot be loaded, or has no such layer.
        """
        import torch
        from transformers import AutoModel, AutoTokenizer

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self.workers = min(torch.get_num_threads(), cores())
        # On two cores, 1024 was 5 % faster and took a quarter more memory.
        if self._device == "cuda":
            self.tokens_at_once, self.workers = 32_768, 1
        try:
            with _quietly():
                tokenizer = AutoTokenizer.from_pretrained(source.folder, local_files_only=True)
                model = AutoModel.from_pretrained(
                    source.folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
        except Exception as error:  # the library raises many types
            raise EncoderUnavailable(f"{source.name} cannot be loaded: {error}") from error
        if not getattr(tokenizer, "is_fast", False):
            raise EncoderUnavailable(f"{source.name} has no fast tokeniser (tokenizer.json)")
        layers = getattr(model.config, "num_hidden_layers", None)
        if layer is not None and (layers is None or not 0 <= layer <= layers):
            raise EncoderUnavailable(f"{source.name} has no layer {layer}; its layers are 0 to {layers}")
        self._model = model.eval().requires_grad_(requires_grad=False).to(self._device)
        stated = {"model_max_length": tokenizer.model_max_length}
        limit, pad = max_tokens(source.config("config.json"), stated), model.config.pad_token_id or 0
        super().__init__(source, layer, tokenizer.backend_tokenizer, pad=pad, limit=limit)

    def encode(self, batches: Iterable[Sequence[Tokens]]) -> Iterator[list[Vectors]]:
        """Yield for each batch the vectors of each text, special tokens excluded."""
        import torch

        before = torch.get_num_threads()
        try:
            yield from super().encode(batches)
        finally:
            torch.set_num_threads(before)  # part of the thread count is global to the process

    def hidden(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Vectors:
        """Run the model."""
        import torch

        torch.set_num_threads(1)  # in this thread, of which there is one for each core
        given = {"input_ids": ids, "attention_mask": mask}
        with torch.inference_mode():
            made = self._model(
                **{name: torch.from_numpy(array).to(self._device) for name, array in given.items()},
                output_hidden_states=self.layer is not None,
            )
        states = made.last_hidden_state if self.layer is None else made.hidden_states[self.layer]
        vectors: Vectors = states.cpu().numpy()
        return vectors


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide the progress bar and the warning about unused heads that loading would show."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
