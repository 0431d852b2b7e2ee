#!/usr/bin/env python3
"""Makes open.tflite beside this file, whose batch, height and width are open (-1 in the signatures of
its shapes), and what LiteRT's reference kernels compute for it when the input is resized.

    make_open.py            needs what make_vectors.py needs
"""
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from make_vectors import B, HERE, RELU, SAME
from operator_cases import F, Cases, options


def main():
    m = Cases("open", 37)
    m.tensors, m.operators, m.inputs, m.codes = [], [], [], []
    x = m.input(np.zeros((1, 1, 4, 4, 3)), None, F)
    m.tensors[x].name, m.tensors[x].shapeSignature = "image", [-1, -1, -1, 3]

    def op(code, inputs, shape, signature, made=None):
        result = m.op(code, inputs, shape, None, made, F)
        m.tensors[result].shapeSignature = signature
        return result

    kernel = m.constant(m.rng.uniform(-1, 1, (6, 3, 3, 3)), None, F)
    bias = m.constant(m.rng.uniform(-1, 1, 6), None, F)
    window = options("Conv2D", padding=SAME, strideH=2, strideW=2, fusedActivationFunction=RELU)
    y = op(B.CONV_2D, [x, kernel, bias], [1, 2, 2, 6], [-1, -1, -1, 6], window)
    up = options("ResizeBilinear", halfPixelCenters=True)
    y = op(B.RESIZE_BILINEAR, [y, m.ints([5, 4])], [1, 5, 4, 6], [-1, 5, 4, 6], up)
    keep = options("Reducer", keepDims=True)
    y = op(B.MEAN, [y, m.ints([1, 2])], [1, 1, 1, 6], [-1, 1, 1, 6], keep)
    y = op(B.SQUEEZE, [y], [1, 6], [-1, 6], options("Squeeze", squeezeDims=[1, 2]))
    weight = m.constant(m.rng.uniform(-1, 1, (4, 6)), None, F)
    y = op(B.FULLY_CONNECTED, [y, weight, -1], [1, 4], [-1, 4], options("FullyConnected"))
    op(B.SOFTMAX, [y], [1, 4], [-1, 4], options("Softmax", beta=1.0))
    path = HERE / "open.tflite"
    m.write_to(path, outputs=list(m.operators[-1].outputs), evaluated=False)

    arrays = {}
    for name, shape in (("same", (1, 4, 4, 3)), ("other", (3, 9, 7, 3))):
        arrays[f"input_{name}"] = m.rng.uniform(-1, 1, shape).astype(F)
        it = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        it.resize_tensor_input(it.get_input_details()[0]["index"], shape)
        it.allocate_tensors()
        it.set_tensor(it.get_input_details()[0]["index"], arrays[f"input_{name}"])
        it.invoke()
        arrays[f"output_{name}"] = it.get_tensor(it.get_output_details()[0]["index"])
    np.savez_compressed(path.with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
