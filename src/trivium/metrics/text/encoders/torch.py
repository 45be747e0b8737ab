"""Runs encoders with PyTorch and transformers, on CUDA if available (extra ``semantic-torch``)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.encoder import (
    Backend,
    Tokeniser,
    Tokens,
    Vectors,
    cores,
    max_tokens,
    one_core_each,
    own_vectors,
    padded,
)
from trivium.metrics.text.encoders.model_files import Source


class TorchEncoder:
    """A transformers model with its tokeniser; see :class:`Encoder`."""

    backend: Backend = "torch"

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

        self.name, self.revision, self.layer = source.name, source.revision, layer
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        # On two cores, 1024 was 5 % faster and took a quarter more memory.
        self.tokens_at_once = 32_768 if self._device == "cuda" else 512
        self.workers = 1 if self._device == "cuda" else min(torch.get_num_threads(), cores())
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
        self._pad = model.config.pad_token_id or 0
        self._model = model.eval().requires_grad_(requires_grad=False).to(self._device)
        self.max_tokens = max_tokens(
            source.config("config.json"), {"model_max_length": tokenizer.model_max_length}
        )
        self._tokeniser = Tokeniser(tokenizer.backend_tokenizer, self.max_tokens)

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, truncated to the model's limit."""
        return self._tokeniser(texts)

    def encode(self, batches: Iterable[Sequence[Tokens]]) -> Iterator[list[Vectors]]:
        """Yield for each batch the vectors of each text, special tokens excluded."""
        if self.workers == 1:
            yield from map(self._encode, batches)
            return
        import torch

        before = torch.get_num_threads()
        try:
            yield from one_core_each(
                self._encode, batches, workers=self.workers, begin=partial(torch.set_num_threads, 1)
            )
        finally:
            torch.set_num_threads(before)  # part of the thread count is global to the process

    def _encode(self, batch: Sequence[Tokens]) -> list[Vectors]:
        import torch

        ids, mask = (torch.from_numpy(array).to(self._device) for array in padded(batch, self._pad))
        with torch.inference_mode():
            made = self._model(
                input_ids=ids, attention_mask=mask, output_hidden_states=self.layer is not None
            )
        hidden = made.last_hidden_state if self.layer is None else made.hidden_states[self.layer]
        return own_vectors(batch, hidden.cpu().numpy())


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
