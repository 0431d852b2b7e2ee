"""Annotates graphs of PT2E by the patterns of a target."""

from __future__ import annotations

from typing import Any

from . import _deuteron
from ._edge import operator_name
from ._model import model_source

# The argument of a layer that is its weight.
_WEIGHTS = {"conv": 1, "linear": 1, "addmm": 2, "mm": 1, "bmm": 1, "matmul": 1}


def _lifted(model: Any) -> Any:
    """The ExportedProgram of a module that ``ExportedProgram.module`` made, nodes named as there."""
    import torch
    from torch._export.verifier import TrainingIRVerifier
    from torch.export.graph_signature import (
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
        TensorArgument,
    )

    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    inputs: list[Any] = []
    state: dict[str, Any] = {}
    modes = {
        id(mode): mode
        for node in model.graph.nodes
        if (mode := getattr(node.meta.get("val"), "fake_mode", None)) is not None
    }
    mode = next(iter(modes.values()), None) or torch._subclasses.FakeTensorMode()

    def fake(tensor: Any) -> Any:
        return mode.from_tensor(tensor, static_shapes=True)

    held = [node for node in model.graph.nodes if node.op == "get_attr"]
    given = [node for node in model.graph.nodes if node.op == "placeholder"]
    for node in [*held, *given]:
        value = node.meta.get("val")
        target = None
        if node.op == "get_attr":
            tensor: Any = model
            for part in str(node.target).split("."):
                tensor = getattr(tensor, part)
            if not isinstance(tensor, torch.Tensor):
                continue
            target = str(node.target)
            state[target] = tensor.detach()
            value = fake(state[target])
        copy = graph.create_node("placeholder", node.name, name=node.name)
        copy.meta = {"val": value}
        copies[node] = copy
        kind = InputKind.USER_INPUT if target is None else InputKind.BUFFER
        persistent = True if target is not None else None
        inputs.append(InputSpec(kind, TensorArgument(name=node.name), target, persistent))
    outputs: list[Any] = []
    for node in model.graph.nodes:
        if node.op == "output":
            read = [copies[each] for each in node.all_input_nodes if each in copies]
            outputs = [each for each in read if isinstance(each.meta.get("val"), torch.Tensor)]
        if node.op != "call_function" or any(each not in copies for each in node.all_input_nodes):
            continue
        args = torch.fx.map_arg(node.args, copies.__getitem__)
        kwargs = torch.fx.map_arg(node.kwargs, copies.__getitem__)
        copy = graph.create_node("call_function", node.target, args, kwargs, name=node.name)
        copy.meta = {
            key: node.meta[key]
            for key in ("val", "nn_module_stack", "stack_trace")
            if key in node.meta
        }
        copies[node] = copy
    graph.output(tuple(outputs))
    return torch.export.ExportedProgram(
        torch.nn.Module(),
        graph,
        ExportGraphSignature(
            inputs,
            [
                OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=each.name), None)
                for each in outputs
            ],
        ),
        state,
        {},
        [torch.export.ModuleCallEntry("")],
        None,
        {},
        verifiers=[TrainingIRVerifier],
    )


def spell_out_attention(model: Any) -> Any:
    """Replaces attention by its products and softmax, between which values are quantized."""
    import math

    import torch

    aten = torch.ops.aten
    graph = model.graph
    for node in list(graph.nodes):
        if operator_name(node) != "aten.scaled_dot_product_attention.default":
            continue
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        mask = given.get("attn_mask")
        if given.get("dropout_p") or given.get("is_causal") or given.get("enable_gqa"):
            continue
        if mask is not None and not mask.meta["val"].dtype.is_floating_point:
            continue
        shape = given["query"].meta["val"].shape
        scale = given.get("scale")
        factor = 1 / math.sqrt(shape[-1]) if scale is None else scale

        def call(target: Any, *args: Any, of: Any = node) -> Any:
            made = graph.call_function(target, args)
            made.meta = {key: value for key, value in of.meta.items() if key != "val"}
            values = torch.fx.map_arg(args, lambda each: each.meta["val"])
            made.meta["val"] = target(*values)
            return made

        with graph.inserting_before(node):
            keys = call(aten.transpose.int, given["key"], -2, -1)
            scores = call(aten.mul.Tensor, call(aten.matmul.default, given["query"], keys), factor)
            if mask is not None:
                scores = call(aten.add.Tensor, scores, mask)
            weights = call(aten.softmax.int, scores, -1)
            result = call(aten.matmul.default, weights, given["value"])
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    model.recompile()
    return model


def annotate(model: Any, options: dict[str, Any]) -> None:
    """Sets ``quantization_annotation`` of nodes as PT2E's prepare_pt2e reads it."""
    import torch
    from torchao.quantization.pt2e import (
        HistogramObserver,
        MinMaxObserver,
        PerChannelMinMaxObserver,
    )
    from torchao.quantization.pt2e.quantizer import (
        FixedQParamsQuantizationSpec,
        QuantizationAnnotation,
        QuantizationSpec,
        SharedQuantizationSpec,
    )

    source = model_source(_lifted(model), False)
    groups, results, inputs, _ = _deuteron.executorch_annotate(source, options)
    nodes = {node.name: node for node in model.graph.nodes}

    def spec_of(group: int) -> Any:
        kind, histogram, least_scale, scale, zero_point = groups[group]
        if kind == "fixed":
            return FixedQParamsQuantizationSpec(
                torch.int8, scale, zero_point, -128, 127, torch.per_tensor_affine
            )
        symmetric = kind == "symmetric"
        observer = HistogramObserver if histogram else MinMaxObserver
        return QuantizationSpec(
            torch.int8,
            observer.with_args(eps=least_scale),
            -127 if symmetric else -128,
            127,
            torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
        )

    def weight_spec(node: Any, per_channel: bool) -> Any:
        if not per_channel:
            return QuantizationSpec(
                torch.int8, MinMaxObserver, -127, 127, torch.per_tensor_symmetric
            )
        name = operator_name(node)
        transposed = "conv_transpose" in name or (
            name.startswith("aten.convolution") and node.args[6]
        )
        layer = "conv" in name or "linear" in name
        rank = node.args[_weight_of(node) or 0].meta["val"].dim()
        axis = (1 if transposed else 0) if layer else rank - 1
        return QuantizationSpec(
            torch.int8,
            PerChannelMinMaxObserver,
            -127,
            127,
            torch.per_channel_symmetric,
            ch_axis=axis,
        )

    # The group of each result, and of each edge from a tensor to its reader.
    group_of: dict[Any, int] = {}
    for name, group in results:
        if name in nodes:
            group_of.setdefault(nodes[name], group)
    weights: dict[Any, bool] = {}
    for readers, tensor, group, per_channel in inputs:
        for reader in (nodes[name] for name in readers if name in nodes):
            if reader.op != "call_function":
                continue
            if group < 0:
                at = _weight_of(reader)
                if at is not None and at < len(reader.args):
                    weights[reader.args[at], reader] = per_channel
            else:
                for each in reader.all_input_nodes:
                    if each.name == tensor:
                        group_of[each, reader] = group

    # PT2E makes the observer of a group where it meets it first, in the order of the graph.
    anchors: dict[int, Any] = {}

    def shared(place: Any) -> Any:
        group = group_of[place]
        if groups[group][0] != "fixed" and group in anchors:
            return SharedQuantizationSpec(anchors[group])
        anchors[group] = place
        return spec_of(group)

    for node in model.graph.nodes:
        read: dict[Any, Any] = {}
        for each in node.all_input_nodes:
            if (each, node) in weights:
                read[each] = weight_spec(node, weights[each, node])
            elif (each, node) in group_of:
                read[each] = shared((each, node))
        output = shared(node) if node in group_of else None
        if read or output is not None:
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                input_qspec_map=read, output_qspec=output, _annotated=True
            )


def _weight_of(node: Any) -> int | None:
    packet = operator_name(node).removeprefix("aten.").partition(".")[0]
    return _WEIGHTS.get("conv" if packet.startswith("conv") else packet)
