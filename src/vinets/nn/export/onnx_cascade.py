"""A cascade as one ONNX graph: what is behind the cut stands in an ``If``.

The late images of a batch are gathered, run, and their logits put in place; a batch without any
skips all of that. ``threshold`` is an input that may be left out, for it has a default. A second
output, ``left_early``, tells which images left at the cut.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vinets.nn.cascade import Cascade
from vinets.nn.export.formats import tensor_backbone
from vinets.nn.network import example_inputs

LATE = "late/"  # before the names of what is behind the cut

Graph = Callable[[nn.Module, Tensor, list[str], list[str]], Any]
"""From a module of one tensor, an example, and names of inputs and outputs to an ONNX model."""


def cascade_model(cascade: Cascade, graph: Graph) -> Any:
    """The model, of the models of its two halves."""
    onnx = importlib.import_module("onnx")
    inputs = example_inputs(cascade.record.inputs, batch=2)
    assert isinstance(inputs, Tensor)  # a cascade takes no others
    with torch.no_grad():
        passed = cascade.first(inputs)[2]
        names = ["first_logits", "confidence", "passed"]
        model = graph(_First(cascade, inputs), inputs, ["input"], names)
        late = graph(_Second(cascade), passed.clone(), ["passed"], ["logits"])
    if late.functions or model.functions:
        raise ValueError("the exporter left functions in the graph, which cannot be joined")
    late = onnx.compose.add_prefix(late, LATE)
    whole, helper = model.graph, onnx.helper
    (like,) = (one for one in whole.output if one.name == "first_logits")

    def logits(name: str) -> Any:
        made = onnx.ValueInfoProto()
        made.CopyFrom(like)
        made.name = name
        return made

    node = helper.make_node
    gathered = node("Gather", ["passed", "rest"], [f"{LATE}passed"], axis=0)
    placed = node("ScatterND", ["first_logits", "rows", f"{LATE}logits"], ["joined"])
    going = helper.make_graph(
        [gathered, *late.graph.node, placed],
        "late",
        [],
        [logits("joined")],
        list(late.graph.initializer),
    )
    gone = helper.make_graph(
        [node("Identity", ["first_logits"], ["kept"])], "early", [], [logits("kept")]
    )
    whole.node.extend(
        [
            node("GreaterOrEqual", ["confidence", "threshold"], ["left_early"]),
            node("Not", ["left_early"], ["stays"]),
            node("NonZero", ["stays"], ["places"]),
            node("Transpose", ["places"], ["rows"]),  # (late images, 1)
            node("Reshape", ["rows", "flat"], ["rest"]),
            node("Size", ["rest"], ["late_count"]),
            node("Greater", ["late_count", "none"], ["any_late"]),
            node("If", ["any_late"], ["logits"], then_branch=going, else_branch=gone),
        ]
    )
    number = onnx.TensorProto
    whole.initializer.extend(
        [
            helper.make_tensor("flat", number.INT64, [1], [-1]),
            helper.make_tensor("none", number.INT64, [], [0]),
            helper.make_tensor("threshold", number.FLOAT, [], [cascade.threshold]),
        ]
    )
    whole.input.append(helper.make_tensor_value_info("threshold", number.FLOAT, []))
    batch = like.type.tensor_type.shape.dim[0].dim_param
    left = helper.make_tensor_value_info("left_early", number.BOOL, [batch])
    ends = [logits("logits"), left]
    del whole.output[:]
    whole.output.extend(ends)
    onnx.checker.check_model(model, full_check=True)
    return model


class _First(nn.Module):
    """What every image goes through."""

    def __init__(self, cascade: Cascade, inputs: Tensor) -> None:
        super().__init__()
        self.cascade = cascade
        self.backbone = tensor_backbone(cascade.early, (inputs,))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.cascade.judged(x, self.backbone(x))


class _Second(nn.Module):
    """What late images go through."""

    def __init__(self, cascade: Cascade) -> None:
        super().__init__()
        self.cascade = cascade

    def forward(self, passed: Tensor) -> Tensor:
        return self.cascade.second(passed)
