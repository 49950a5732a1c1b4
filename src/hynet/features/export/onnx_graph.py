"""ONNX graphs, operation by operation: what the networks that are written by hand are written with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import need
from ...types import Array

OPSET, IR = 18, 9  # what ONNX Runtime 1.18 reads
FLOAT, UINT8 = 1, 2  # ONNX's numbers for them
Kind = tuple[int, Sequence[int | str]]  # type and shape of a tensor; free sizes have names


class Graph:
    """ONNX operations in the order in which they are added; arrays among their inputs become constants."""

    def __init__(self, source: str) -> None:
        self.onnx = need("onnx", "train", "writing ONNX")
        self.source = source  # the name of its input, and the first word of all others: graphs in graphs share names
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operation: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """The name of its output. Inputs are names of outputs, or arrays."""
        return self.add_several(operation, *inputs, names=[name or self._named(operation)], **attributes)[0]

    def add_several(self, operation: str, *inputs: Any, names: list[str], **attributes: Any) -> list[str]:
        """An operation with as many outputs as there are names."""
        given = [
            each if isinstance(each, str) else self.constant(each, f"{names[0]}.{k}") for k, each in enumerate(inputs)
        ]
        self._nodes.append(self.onnx.helper.make_node(operation, given, names, names[0], **attributes))
        return names

    def constant(self, values: Any, name: str = "") -> str:
        """Add a constant that several operations can share, and return its name."""
        name = name or f"{self.source}.constant{len(self._constants)}"
        self._constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def written(self, takes: Kind, result: str, gives: Kind) -> Any:
        """The graph from its source to the result."""
        make = self.onnx.helper.make_tensor_value_info
        start = make(self.source, *takes)
        end = make(result, *gives)
        return self.onnx.helper.make_graph(self._nodes, "hynet", [start], [end], self._constants)

    def model(self, takes: Kind, result: str, gives: Kind, about: Mapping[str, str]) -> Any:
        """The graph as a model, with what is to be known about it."""
        make = self.onnx.helper
        graph = self.written(takes, result, gives)
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=IR)
        make.set_model_props(model, dict(about))
        return model

    def _named(self, operation: str) -> str:
        return f"{self.source}.{operation}{len(self._nodes)}"


def f32(values: Array) -> Array:
    return np.asarray(values, np.float32)
