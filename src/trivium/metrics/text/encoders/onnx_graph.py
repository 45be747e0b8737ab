"""Writes an ONNX model node by node, its weights beside it rather than in it.

The messages are the few of the ONNX format that an encoder needs. The protobuf library, which ONNX Runtime
brings, encodes them; the ``onnx`` package would add 29 MB to an installation for the same bytes.
"""

from functools import cache
from typing import Any

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

_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "StringStringEntryProto": {"key": (1, "string"), "value": (2, "string")},
    "AttributeProto": {
        "name": (1, "string"),
        "f": (2, "float"),
        "i": (3, "int64"),
        "s": (4, "bytes"),
        "ints": (8, "int64*"),
        "type": (20, "int32"),
    },
    "TensorProto": {
        "dims": (1, "int64*"),
        "data_type": (2, "int32"),
        "name": (8, "string"),
        "raw_data": (9, "bytes"),
        "external_data": (13, "StringStringEntryProto*"),
        "data_location": (14, "int32"),
    },
    "Dimension": {"dim_value": (1, "int64"), "dim_param": (2, "string")},
    "TensorShapeProto": {"dim": (1, "Dimension*")},
    "TensorTypeProto": {"elem_type": (1, "int32"), "shape": (2, "TensorShapeProto")},
    "TypeProto": {"tensor_type": (1, "TensorTypeProto")},
    "ValueInfoProto": {"name": (1, "string"), "type": (2, "TypeProto")},
    "NodeProto": {
        "input": (1, "string*"),
        "output": (2, "string*"),
        "op_type": (4, "string"),
        "attribute": (5, "AttributeProto*"),
    },
    "GraphProto": {
        "node": (1, "NodeProto*"),
        "name": (2, "string"),
        "initializer": (5, "TensorProto*"),
        "input": (11, "ValueInfoProto*"),
        "output": (12, "ValueInfoProto*"),
    },
    "OperatorSetIdProto": {"domain": (1, "string"), "version": (2, "int64")},
    "ModelProto": {
        "ir_version": (1, "int64"),
        "producer_name": (2, "string"),
        "graph": (7, "GraphProto"),
        "opset_import": (8, "OperatorSetIdProto*"),
    },
}
"""Number and type of each field, by message; a star marks a repeated one (onnx.proto of the ONNX project)."""


@cache
def _model_class() -> Any:
    """The class of ``ModelProto``, whose other messages are made through its fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="encoder.proto", package="onnx", syntax="proto2")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            plain = kind.rstrip("*")
            field = described.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            if plain in _MESSAGES:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".onnx.{plain}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()  # its own, so that the onnx package can be loaded beside it
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx.ModelProto"))


class GraphBuilder:
    """Builds a model from its inputs, weights and nodes; each method returns the name of a value.

    Attributes:
        weights: The arrays that the model refers to by name and does not contain.
    """

    def __init__(self) -> None:
        self.weights: dict[str, NDArray[np.float32]] = {}
        self._model = _model_class()(ir_version=IR_VERSION, producer_name="trivium")
        self._model.opset_import.add(domain="", version=OPSET)
        self._graph = self._model.graph
        self._graph.name = "encoder"
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def input(self, name: str, *dims: str) -> str:
        """An input of whole numbers, of named dimensions."""
        self._describe(self._graph.input.add(name=name), INT64, dims)
        return name

    def output(self, value: str, name: str, *dims: str | int) -> None:
        """Give a value out as floats under a name."""
        self._graph.node.add(op_type="Identity", input=[value], output=[name])
        self._describe(self._graph.output.add(name=name), FLOAT, dims)

    def weight(self, name: str, array: NDArray[np.float32]) -> str:
        """A weight that stays outside the model."""
        if name not in self.weights:
            self.weights[name] = array
            held = self._graph.initializer.add(
                name=name, data_type=FLOAT, dims=array.shape, data_location=_EXTERNAL
            )
            held.external_data.add(
                key="location", value="weights"
            )  # required, and replaced before it is read
        return name

    def constant(self, value: float | int | list[int]) -> str:
        """A small constant: floats in single precision, whole numbers in 64 bits."""
        array = np.array(value, dtype=np.float32 if isinstance(value, float) else np.int64)
        key = (array.dtype.str, array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = name = f"constant_{len(self._constants)}"
            kind = _ELEMENT_TYPES[array.dtype]
            self._graph.initializer.add(name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes())
        return self._constants[key]

    def node(self, op_type: str, *inputs: str, **attributes: float | int | str | list[int]) -> str:
        """An operator of ONNX with one output."""
        output = f"{op_type}_{len(self._graph.node)}"
        node = self._graph.node.add(op_type=op_type, input=inputs, output=[output])
        for name, value in attributes.items():
            match value:
                case float():
                    node.attribute.add(name=name, type=1, f=value)
                case int():
                    node.attribute.add(name=name, type=2, i=value)
                case str():
                    node.attribute.add(name=name, type=3, s=value.encode())
                case list():
                    node.attribute.add(name=name, type=7, ints=value)
        return output

    def serialize(self) -> bytes:
        """The model without its weights."""
        encoded: bytes = self._model.SerializeToString(deterministic=True)
        return encoded

    @staticmethod
    def _describe(value: Any, element_type: int, dims: tuple[str | int, ...]) -> None:
        tensor = value.type.tensor_type
        tensor.elem_type = element_type
        for dim in dims:
            tensor.shape.dim.add(**({"dim_param": dim} if isinstance(dim, str) else {"dim_value": dim}))
