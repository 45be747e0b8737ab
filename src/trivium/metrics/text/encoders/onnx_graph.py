"""Writes an ONNX model node by node, its weights beside it rather than in it.

A model is a message of protobuf. Of the ONNX format an encoder needs few messages, with fields of four
kinds, so they are encoded here: the ``onnx`` package would add 29 MB to an installation for the same bytes.
The numbers of the fields are those of ``onnx.proto``.
"""

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

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
