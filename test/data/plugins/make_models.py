#!/usr/bin/env python3
"""Makes the models beside this file, whose operators only the plug-in kernels.c knows, and what they
compute.

    make_models.py            needs ai-edge-litert, flatbuffers, numpy, onnx and torch

NAME_input.npz has samples for each input, NAME_output.npz the outputs as `output_I`: of tilt.tflite
and affine.onnx in NumPy, of blend.pt2 by PyTorch, which runs the operator itself.
"""
import struct
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SAMPLES = 4


def save(name, inputs, outputs):
    np.savez(HERE / f"{name}_input.npz", **inputs)
    np.savez(HERE / f"{name}_output.npz", **{f"output_{i}": y for i, y in enumerate(outputs)})


def tilt():
    """int8 x → CUSTOM(Tilt) → int8 y, int32 counts; y → RELU."""
    sys.path.insert(0, str(HERE.parent / "litert"))
    from make_vectors import B, Model, schema

    import flatbuffers

    gain, qx, qy = 1.5, (0.25, -3), (0.5, 10)
    model = Model("tilt", 1)
    x = model.input(model.rng.integers(-128, 128, (SAMPLES, 1, 3, 5, 2)), qx)
    y = model.op(B.CUSTOM, [x], [1, 3, 5, 2], qy)
    counts = model.tensor([2], None, np.int32)
    model.operators[-1].outputs.append(counts)
    model.operators[-1].customOptions = np.frombuffer(struct.pack("<f", gain), np.uint8)
    z = model.op(B.RELU, [y], [1, 3, 5, 2], qy)

    main, whole = schema.SubGraphT(), schema.ModelT()
    main.tensors, main.operators = model.tensors, model.operators
    main.inputs, main.outputs = model.inputs, [z, counts]
    whole.version, whole.subgraphs, whole.buffers = 3, [main], model.buffers
    whole.operatorCodes = []
    for code in model.codes:
        o = schema.OperatorCodeT()
        o.builtinCode, o.deprecatedBuiltinCode, o.version = code, min(code, 127), 1
        o.customCode = "Tilt" if code == B.CUSTOM else None
        whole.operatorCodes.append(o)
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    (HERE / "tilt.tflite").write_bytes(builder.Output())

    codes = model.data[0]
    real = (codes.astype(np.float32) - qx[1]) * np.float32(qx[0])
    tilted = np.float32(gain) * real + np.arange(5, dtype=np.float32)[:, None]
    scaled = tilted / np.float32(qy[0])
    rounded = np.round(scaled)  # halves to even
    out = np.clip(rounded + qy[1], -128, 127).astype(np.int8)
    save(
        "tilt",
        {"t0": np.moveaxis(codes, -1, 2)},
        [
            np.moveaxis(np.maximum(out, qy[1]).astype(np.int8), -1, 2),
            (real > 0).sum((1, 2, 3)).astype(np.int32),
        ],
    )


def blend():
    """A convolution on both sides of mylib::blend."""
    import torch

    @torch.library.custom_op("mylib::blend", mutates_args=())
    def mixed(
        x: torch.Tensor, others: list[torch.Tensor], alpha: float, shift: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return alpha * x + sum(others), torch.roll(x, shift, -1)

    @mixed.register_fake
    def _(x, others, alpha, shift):
        return torch.empty_like(x), torch.empty_like(x)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.after = torch.nn.Conv2d(8, 5, 1)
            self.bias = torch.nn.Parameter(torch.randn(1, 4, 6, 7))

        def forward(self, x):
            x = torch.relu(self.before(x))
            y, rolled = torch.ops.mylib.blend(x, [self.bias, x * x], 0.25, 3)
            return self.after(torch.cat([y, rolled], 1))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net().eval()
    x = torch.randn(SAMPLES, 3, 6, 7)
    torch.export.save(torch.export.export(net, (x[:1],)), HERE / "blend.pt2")
    with torch.no_grad():
        y = torch.cat([net(x[i : i + 1]) for i in range(SAMPLES)])
    save("blend", {"x": x.numpy()[:, None]}, [y.numpy()[:, None]])


def affine():
    """Relu → com.acme.Affine → Relu."""
    import onnx
    from onnx import TensorProto, helper

    def info(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 6])

    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["positive"]),
            helper.make_node("Affine", ["positive"], ["line"], domain="com.acme", a=-0.5, b=1),
            helper.make_node("Relu", ["line"], ["y"]),
        ],
        "affine",
        [info("x")],
        [info("y")],
        value_info=[info("line")],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=8), HERE / "affine.onnx")
    x = np.random.default_rng(2).normal(0, 2, (SAMPLES, 1, 6)).astype(np.float32)
    save("affine", {"x": x}, [np.maximum(np.float32(-0.5) * np.maximum(x, 0) + 1, 0)])


def main():
    tilt()
    affine()
    blend()


if __name__ == "__main__":
    main()
