"""Builds the ONNX graph of a BERT-like encoder from its config.json and safetensors, without PyTorch.

It is built in milliseconds and its weights are mapped from the file, so that nothing is cached on disk.

A model is a message of protobuf. Of the ONNX format an encoder needs few messages, with fields of four
kinds, so they are encoded here: the ``onnx`` package would add 29 MB to an installation for the same bytes.
The numbers of the fields are those of ``onnx.proto``.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.safetensors_file import Tensors

IR_VERSION, OPSET = 9, 20
"""Versions of the format and of the operators; opset 20 is the first that has Gelu. ONNX Runtime reads both
since 1.17."""

FLOAT, INT64 = 1, 7
"""Element types (``TensorProto.DataType``)."""

_ELEMENT_TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}

_EXTERNAL = 1
"""``TensorProto.DataLocation`` of weights that are outside the model."""

_ATTRIBUTES = {float: (2, 1), int: (3, 2), str: (4, 3), list: (8, 7)}
"""Field of ``AttributeProto`` that holds a value, and its ``AttributeType``, by the type of the value."""

Value = int | float | str | bytes
"""The value of a field; a message within another is its bytes."""


class Architecture(NamedTuple):
    """How a family names its tensors and settings.

    Attributes:
        prefix: What the names begin with in checkpoints that also hold a head, such as of masked words.
        layer: What the names of a layer begin with, before its number.
        query: Projection to queries; likewise ``key``, ``value``.
        attended: Projection of what was attended to.
        attended_norm: Normalisation after it.
        up: Feed-forward projection to the inner width.
        down: The one back.
        norm: Normalisation at the end of the layer.
        width: Key of the hidden width in config.json; so are the following.
        inner: Width inside the feed-forward part.
        layers: Number of layers.
        heads: Number of attention heads.
        activation: Activation of the feed-forward part.
        types: Number of token types; None for a family without.
        counted_from_padding: Whether positions are counted from behind the padding token's id, and only over
            tokens that are not padding.
    """

    prefix: str
    layer: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attended: str = "attention.output.dense"
    attended_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    norm: str = "output.LayerNorm"
    width: str = "hidden_size"
    inner: str = "intermediate_size"
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    activation: str = "hidden_act"
    types: str | None = "type_vocab_size"
    counted_from_padding: bool = False


_ROBERTA = Architecture(prefix="roberta.", counted_from_padding=True)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(prefix="bert."),
    "camembert": _ROBERTA,
    "distilbert": Architecture(
        prefix="distilbert.",
        layer="transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        attended="attention.out_lin",
        attended_norm="sa_layer_norm",
        up="ffn.lin1",
        down="ffn.lin2",
        norm="output_layer_norm",
        width="dim",
        inner="hidden_dim",
        layers="n_layers",
        heads="n_heads",
        activation="activation",
        types=None,
    ),
    "electra": Architecture(prefix="electra."),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}
"""Families that can be built, by ``model_type`` of config.json."""

_ACTIVATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "gelu": ("Gelu", {}),
    "gelu_fast": ("Gelu", {"approximate": "tanh"}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}
"""Operator and attributes, by the name in config.json."""

_EPSILON = 1e-12
"""Of normalisation where config.json gives none: the default of every family here."""

_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""Names that checkpoints converted from TensorFlow use."""

_MASKED = float(np.finfo(np.float32).min)
"""Added to the attention to padding, as transformers does."""


class EncoderGraph(NamedTuple):
    """A model for ONNX Runtime.

    Attributes:
        model: The serialised ModelProto, its initializers external.
        weights: What these are, by name.
        vocabulary: Number of token ids that it knows.
    """

    model: bytes
    weights: Mapping[str, NDArray[np.float32]]
    vocabulary: int


def check_architecture(name: str, config: Mapping[str, Any]) -> Architecture:
    """Return the family of a model.

    Args:
        name: What messages call the encoder.
        config: Its config.json.

    Raises:
        EncoderUnavailable: If its graph cannot be built here; the text says which can, and what else to do.
    """

    def refused(what: str, known: object) -> EncoderUnavailable:
        return EncoderUnavailable(
            f"{name} {what}; without PyTorch only safetensors of {known} can be read. Install it "
            '(pip install "trivium[semantic-torch]"), or name a folder with an ONNX export (model.onnx)'
        )

    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        what = f"is a model of type {kind!r}" if kind is not None else "has no model_type in its config.json"
        raise refused(what, ", ".join(ARCHITECTURES))
    architecture = ARCHITECTURES[kind]
    positions = config.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise refused(f"has {positions!r} positions", "models with absolute positions")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise refused("is a decoder", "encoders")
    activation = config.get(architecture.activation, "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise refused(f"has the activation {activation!r}", f"models with {', '.join(_ACTIVATIONS)}")
    return architecture


def build_graph(
    name: str, config: Mapping[str, Any], files: Sequence[Path], layer: int | None
) -> EncoderGraph:
    """The graph of an encoder up to one of its hidden layers.

    Its inputs are ``input_ids``, ``attention_mask`` and, where the model has token types, ``token_type_ids``,
    each of shape (texts, tokens); its output ``last_hidden_state``, or ``hidden_states.N`` for a layer that
    was asked for, has shape (texts, tokens, width).

    Args:
        name: What messages call the encoder.
        config: Its config.json.
        files: Its safetensors files.
        layer: Hidden layer that is given, 0 for the embeddings, None for the last.

    Raises:
        EncoderUnavailable: If the model is of another kind, or its files do not fit each other.
    """
    architecture = check_architecture(name, config)
    # Beside the whole there may be other files, such as adapters; several parts are named otherwise.
    whole = [file for file in files if file.name == "model.safetensors"]
    try:
        return _Builder(architecture, config, Tensors(whole or files)).build(layer)
    except EncoderUnavailable as error:
        raise EncoderUnavailable(f"{name} cannot be loaded: {error}") from error


class GraphBuilder:
    """Builds a model from its inputs, weights and nodes; each method returns the name of a value.

    Attributes:
        weights: The arrays that the model refers to by name and does not contain.
    """

    def __init__(self) -> None:
        self.weights: dict[str, NDArray[np.float32]] = {}
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def input(self, name: str, *dims: str) -> str:
        """An input of whole numbers, of named dimensions."""
        self._inputs.append(_described(name, INT64, dims))
        return name

    def output(self, value: str, name: str, *dims: str | int) -> None:
        """Give a value out as floats under a name."""
        self._nodes.append(_message((1, value), (2, name), (4, "Identity")))
        self._outputs.append(_described(name, FLOAT, dims))

    def weight(self, name: str, array: NDArray[np.float32]) -> str:
        """A weight that stays outside the model."""
        if name not in self.weights:
            self.weights[name] = array
            place = _message((1, "location"), (2, "weights"))  # required, and replaced before it is read
            self._tensor(name, array, (13, place), (14, _EXTERNAL))
        return name

    def constant(self, value: float | int | list[int]) -> str:
        """A small constant: floats in single precision, whole numbers in 64 bits."""
        array = np.array(value, dtype=np.float32 if isinstance(value, float) else np.int64)
        key = (array.dtype.str, array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = name = f"constant_{len(self._constants)}"
            self._tensor(name, array, (9, array.tobytes()))
        return self._constants[key]

    def node(self, op_type: str, *inputs: str, **attributes: float | int | str | list[int]) -> str:
        """An operator of ONNX with one output."""
        output = f"{op_type}_{len(self._nodes)}"
        stated = []
        for name, value in attributes.items():
            field, kind = _ATTRIBUTES[type(value)]
            values = value if isinstance(value, list) else [value]
            stated.append(_message((1, name), *_each(field, values), (20, kind)))
        self._nodes.append(_message(*_each(1, inputs), (2, output), (4, op_type), *_each(5, stated)))
        return output

    def serialize(self) -> bytes:
        """The model without its weights."""
        named, values = (2, "encoder"), (*_each(11, self._inputs), *_each(12, self._outputs))
        graph = _message(*_each(1, self._nodes), named, *_each(5, self._initializers), *values)
        operators = _message((1, ""), (2, OPSET))
        return _message((1, IR_VERSION), (2, "trivium"), (7, graph), (8, operators))

    def _tensor(self, name: str, array: NDArray[np.generic], *data: tuple[int, Value]) -> None:
        kind = _ELEMENT_TYPES[array.dtype]
        self._initializers.append(_message(*_each(1, array.shape), (2, kind), (8, name), *data))


class _Builder(GraphBuilder):
    """Adds one part of the encoder after the other to the graph."""

    def __init__(self, architecture: Architecture, config: Mapping[str, Any], tensors: Tensors) -> None:
        self._names, self._config, self._tensors = architecture, config, tensors
        super().__init__()
        self._width = self._count(architecture.width)
        self._inner = self._count(architecture.inner)
        self._heads = self._count(architecture.heads)
        if self._width % self._heads:
            raise EncoderUnavailable(
                f"config.json states a width of {self._width} for {self._heads} heads, which does not divide"
            )
        epsilon = config.get("layer_norm_eps", _EPSILON)
        if not isinstance(epsilon, float) or not 0 < epsilon < 1:
            raise EncoderUnavailable(f"config.json states {epsilon!r} as layer_norm_eps")
        self._epsilon = epsilon
        padding = config.get("pad_token_id")
        if padding is None and not architecture.counted_from_padding:
            padding = 0  # masked, so that any token does
        if type(padding) is not int or not 0 <= padding < self._count("vocab_size"):
            raise EncoderUnavailable(f"config.json states {padding!r} as pad_token_id; expected a token id")
        self._padding = padding
        words = "embeddings.word_embeddings.weight"
        self._prefix = architecture.prefix if architecture.prefix + words in tensors else ""

    def build(self, layer: int | None) -> EncoderGraph:
        """The graph up to a layer."""
        count = self._count(self._names.layers)
        if layer is not None and not 0 <= layer <= count:
            raise EncoderUnavailable(f"it has no layer {layer}; its layers are 0 to {count}")
        mask = self.node("Cast", self.input("attention_mask", "texts", "tokens"), to=FLOAT)
        absent = self.node("Sub", self.constant(1.0), self.node("Unsqueeze", mask, self.constant([1, 2])))
        bias = self.node("Mul", absent, self.constant(_MASKED))
        ids = self.input("input_ids", "texts", "tokens")
        shape = self.node("Shape", ids)
        split = self.constant([self._heads, self._width // self._heads])
        self._apart = self.node("Concat", shape, split, axis=0)
        hidden = self._embeddings(ids)
        for index in range(count if layer is None else layer):
            hidden = self._layer(f"{self._names.layer}.{index}.", hidden, bias)
        name = "last_hidden_state" if layer is None else f"hidden_states.{layer}"
        shape = self.node("Concat", shape, self.constant([self._width]), axis=0)
        hidden = self.node("Reshape", hidden, shape)
        self.output(hidden, name, "texts", "tokens", self._width)
        return EncoderGraph(self.serialize(), self.weights, self._count("vocab_size"))

    def _embeddings(self, ids: str) -> str:
        """The input of the first layer; like every hidden state of shape (texts * tokens, width)."""
        names = self._names
        # ELECTRA's smaller models have narrower embeddings, which are then projected.
        electra = names.prefix == "electra."
        width = self._count("embedding_size") if electra else self._width

        def table(name: str, key: str, which: str) -> str:
            held = self._weight(f"embeddings.{name}.weight", self._count(key), width)
            return self.node("Gather", held, which)

        hidden = table("word_embeddings", "vocab_size", ids)
        if names.types is not None:
            types = self.input("token_type_ids", "texts", "tokens")
            hidden = self.node("Add", hidden, table("token_type_embeddings", names.types, types))
        positions = table("position_embeddings", "max_position_embeddings", self._positions(ids))
        hidden = self._normalised("embeddings.LayerNorm", self.node("Add", hidden, positions), width)
        # One row per token from here on, as Gemm wants it.
        hidden = self.node("Reshape", hidden, self.constant([-1, width]))
        if width != self._width:
            hidden = self._linear("embeddings_project", hidden, width, self._width)
        return hidden

    def _positions(self, ids: str) -> str:
        """Positions, of shape (tokens,) or (texts, tokens)."""
        one = self.constant(1)
        if not self._names.counted_from_padding:
            length = self.node("Squeeze", self.node("Shape", ids, start=1, end=2))
            return self.node("Range", self.constant(0), length, one)
        own = self.node("Not", self.node("Equal", ids, self.constant(self._padding)))
        own = self.node("Cast", own, to=INT64)
        counted = self.node("Mul", self.node("CumSum", own, one), own)
        return self.node("Add", counted, self.constant(self._padding))

    def _layer(self, prefix: str, hidden: str, bias: str) -> str:
        names, width, inner = self._names, self._width, self._inner
        attended = self._linear(prefix + names.attended, self._attention(prefix, hidden, bias), width, width)
        hidden = self._normalised(prefix + names.attended_norm, self.node("Add", attended, hidden), width)
        operator, attributes = _ACTIVATIONS[self._config.get(names.activation, "gelu")]
        active = self.node(operator, self._linear(prefix + names.up, hidden, width, inner), **attributes)
        fed = self._linear(prefix + names.down, active, inner, width)
        return self._normalised(prefix + names.norm, self.node("Add", fed, hidden), width)

    def _attention(self, prefix: str, hidden: str, bias: str) -> str:
        names, width = self._names, self._width
        size = width // self._heads

        def heads(name: str, order: list[int]) -> str:
            projected = self._linear(prefix + name, hidden, width, width)
            return self.node("Transpose", self.node("Reshape", projected, self._apart), perm=order)

        query, value = heads(names.query, [0, 2, 1, 3]), heads(names.value, [0, 2, 1, 3])
        near = self.node("MatMul", query, heads(names.key, [0, 2, 3, 1]))
        near = self.node("Add", self.node("Div", near, self.constant(float(np.sqrt(size)))), bias)
        mixed = self.node("MatMul", self.node("Softmax", near, axis=-1), value)
        mixed = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.node("Reshape", mixed, self.constant([-1, width]))

    def _linear(self, name: str, value: str, width: int, to: int) -> str:
        # Gemm takes the matrix as it is stored, (to, width). MatMul would need a transposed copy, with which
        # loading a model of BERT's size took a third more memory.
        matrix, bias = self._weight(f"{name}.weight", to, width), self._weight(f"{name}.bias", to)
        return self.node("Gemm", value, matrix, bias, transB=1)

    def _normalised(self, name: str, value: str, width: int) -> str:
        scale, shift = (self._weight(f"{name}.{part}", width) for part in ("weight", "bias"))
        return self.node("LayerNormalization", value, scale, shift, axis=-1, epsilon=self._epsilon)

    def _weight(self, name: str, *shape: int) -> str:
        stored = self._prefix + name
        for new, old in _OLD_NAMES.items():
            if stored not in self._tensors and stored.endswith(new):
                stored = stored.removesuffix(new) + old
        return self.weight(name, self._tensors.read(stored, shape))

    def _count(self, key: str) -> int:
        found = self._config.get(key)
        if type(found) is not int or not 0 < found < 2**31:
            raise EncoderUnavailable(
                f"config.json states {found!r} as {key}; expected a whole number above 0"
            )
        return found


def _described(name: str, element_type: int, dims: Iterable[str | int]) -> bytes:
    """An input or output (``ValueInfoProto``)."""
    shape = _message(*((1, _message((2 if isinstance(dim, str) else 1, dim))) for dim in dims))
    tensor = _message((1, element_type), (2, shape))
    return _message((1, name), (2, _message((1, tensor))))


def _each(number: int, values: Iterable[Value]) -> list[tuple[int, Value]]:
    """A repeated field."""
    return [(number, value) for value in values]


def _message(*fields: tuple[int, Value]) -> bytes:
    """Encode a message of protobuf from the numbers and values of its fields."""
    encoded: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            encoded += (_varint(number << 3), _varint(value & 0xFFFF_FFFF_FFFF_FFFF))
        elif isinstance(value, float):
            encoded += (_varint(number << 3 | 5), struct.pack("<f", value))
        else:
            content = value.encode() if isinstance(value, str) else value
            encoded += (_varint(number << 3 | 2), _varint(len(content)), content)
    return b"".join(encoded)


def _varint(number: int) -> bytes:
    """A whole number of at least 0: seven bits a byte, the lowest first; a bit says that more follow."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
