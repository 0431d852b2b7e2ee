#!/usr/bin/env python3
"""Makes the small .tflite models beside this file and what LiteRT's reference kernels compute for
them.

    make_vectors.py            needs ai-edge-litert, flatbuffers and numpy

Each NAME.tflite holds many operators on few inputs; NAME.npz has input_I [samples, …] and what
operators make of them with BUILTIN_REF:
`tensors` [samples, …], the elements of all int8 tensors one after the other by tensor number, and
tensor_T for tensors T of float. test/unit/tflite_test.cpp requires every element equal.
"""
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

HERE = Path(__file__).resolve().parent
B, O = schema.BuiltinOperator, schema.BuiltinOptions
TYPES = {
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.int64): schema.TensorType.INT64,
    np.dtype(np.float32): schema.TensorType.FLOAT32,
}
SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
NONE, RELU, RELU6, RELU_N1 = (
    getattr(schema.ActivationFunctionType, n) for n in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
)


class Model:
    """A model under construction: tensors are numbers, every method of an operator returns the one
    it makes."""

    def __init__(self, name, seed):
        self.name, self.rng = name, np.random.default_rng(seed)
        self.tensors, self.buffers, self.codes, self.operators, self.inputs, self.data = (
            [],
            [schema.BufferT()],
            [],
            [],
            [],
            [],
        )

    def tensor(self, shape, q=None, dtype=np.int8, data=None, axis=0):
        t = schema.TensorT()
        t.name, t.shape, t.type, t.buffer, t.hasRank = (
            f"t{len(self.tensors)}",
            list(shape),
            TYPES[np.dtype(dtype)],
            0,
            True,
        )
        if q is not None:
            t.quantization = p = schema.QuantizationParametersT()
            p.scale, p.zeroPoint = np.atleast_1d(np.asarray(q[0], np.float32)), np.atleast_1d(
                np.asarray(q[1], np.int64)
            )
            p.zeroPoint = np.broadcast_to(p.zeroPoint, p.scale.shape).copy()
            p.quantizedDimension = axis
        if data is not None:
            b = schema.BufferT()
            b.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            self.buffers.append(b)
            t.buffer = len(self.buffers) - 1
        self.tensors.append(t)
        return len(self.tensors) - 1

    def constant(self, values, q=None, dtype=np.int8, axis=0):
        values = np.asarray(values, dtype)
        return self.tensor(values.shape, q, dtype, values, axis)

    def input(self, samples, q, dtype=np.int8):
        samples = np.asarray(samples, dtype)
        self.inputs.append(self.tensor(samples.shape[1:], q, dtype))
        self.data.append(samples)
        return self.inputs[-1]

    def scale(self, t):
        return float(self.tensors[t].quantization.scale[0])

    def op(self, code, inputs, shape, q, options=None, dtype=np.int8):
        if code not in self.codes:
            self.codes.append(code)
        o = schema.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = (
            self.codes.index(code),
            list(inputs),
            [self.tensor(shape, q, dtype)],
        )
        if options is not None:
            o.builtinOptions, o.builtinOptionsType = options, getattr(
                O, type(options).__name__[:-1]
            )
        self.operators.append(o)
        return o.outputs[0]

    def shape(self, t):
        return list(self.tensors[t].shape)

    def q(self, t):
        p = self.tensors[t].quantization
        return float(p.scale[0]), int(p.zeroPoint[0])

    def convolution(
        self,
        x,
        weight,
        weight_scales,
        bias,
        q,
        stride=(1, 1),
        dilation=(1, 1),
        padding=SAME,
        activation=NONE,
        depthwise=False,
    ):
        weight = np.asarray(weight, np.int8)
        channels = weight.shape[3 if depthwise else 0]
        options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
        options.padding, options.strideH, options.strideW = padding, *stride
        options.dilationHFactor, options.dilationWFactor, options.fusedActivationFunction = (
            *dilation,
            activation,
        )
        if depthwise:
            options.depthMultiplier = channels // self.shape(x)[3]
        out = []
        for i in range(2):
            n, k = self.shape(x)[1 + i], (weight.shape[1 + i] - 1) * dilation[i] + 1
            out.append(-(-n // stride[i]) if padding == SAME else (n - k) // stride[i] + 1)
        w = self.constant(weight, (weight_scales, 0), axis=3 if depthwise else 0)
        b = self.constant(
            bias, (np.float32(self.scale(x)) * np.asarray(weight_scales, np.float32), 0), np.int32
        )
        return self.op(
            B.DEPTHWISE_CONV_2D if depthwise else B.CONV_2D,
            [x, w, b],
            [self.shape(x)[0], *out, channels],
            q,
            options,
        )

    def fully_connected(
        self, x, weight, weight_scale, bias, q, activation=NONE
    ):  # one scale, or one a row of the weight
        weight = np.asarray(weight, np.int8)
        options = schema.FullyConnectedOptionsT()
        options.fusedActivationFunction = activation
        w = self.constant(weight, (weight_scale, 0))
        b = self.constant(
            bias, (np.float32(self.scale(x)) * np.asarray(weight_scale, np.float32), 0), np.int32
        )
        rows = int(np.prod(self.shape(x))) // weight.shape[1]
        return self.op(B.FULLY_CONNECTED, [x, w, b], [rows, weight.shape[0]], q, options)

    def pool(self, code, x, kernel, stride, padding, activation=NONE):
        options = schema.Pool2DOptionsT()
        (
            options.padding,
            options.strideH,
            options.strideW,
            options.filterHeight,
            options.filterWidth,
        ) = (padding, *stride, *kernel)
        options.fusedActivationFunction = activation
        n, h, w, c = self.shape(x)
        out = [
            -(-i // s) if padding == SAME else (i - k) // s + 1
            for i, s, k in zip((h, w), stride, kernel)
        ]
        return self.op(code, [x], [n, *out, c], self.q(x), options)

    def add(self, a, b, q, activation=NONE):
        options = schema.AddOptionsT()
        options.fusedActivationFunction = activation
        return self.op(B.ADD, [a, b], np.broadcast_shapes(self.shape(a), self.shape(b)), q, options)

    def mean(self, x, axes, keep, q):
        options = schema.ReducerOptionsT()
        options.keepDims = keep
        shape = [
            1 if i in axes else n for i, n in enumerate(self.shape(x)) if keep or i not in axes
        ]
        return self.op(B.MEAN, [x, self.constant(axes, dtype=np.int32)], shape, q, options)

    def softmax(self, x):
        options = schema.SoftmaxOptionsT()
        options.beta = 1.0
        return self.op(B.SOFTMAX, [x], self.shape(x), (1 / 256, -128), options)

    def write(self):
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = [o.outputs[0] for o in self.operators]
        graph.name = "main"
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers, model.description, model.operatorCodes = (
            3,
            [graph],
            self.buffers,
            self.name,
            [],
        )
        for code in self.codes:
            c = schema.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode = code, min(code, 127)
            c.version = {
                B.FULLY_CONNECTED: 4,
                B.CONV_2D: 3,
                B.DEPTHWISE_CONV_2D: 3,
                B.HARD_SWISH: 1,
                B.RELU_N1_TO_1: 1,
                B.RELU_0_TO_1: 1,
                B.RESHAPE: 1,
                B.DEPTH_TO_SPACE: 1,
            }.get(code, 2)
            model.operatorCodes.append(c)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path = HERE / f"{self.name}.tflite"
        path.write_bytes(bytes(builder.Output()))
        evaluate(path, self.data)


def evaluate(path, data):
    """Runs a model on data[input][sample] and writes the .npz."""
    it = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    it.allocate_tensors()
    arrays = {f"input_{i}": d for i, d in enumerate(data)}
    for sample in range(len(data[0])):
        for detail, d in zip(it.get_input_details(), data):
            it.set_tensor(detail["index"], d[sample])
        it.invoke()
        made = {
            index: it.get_tensor(index).copy()
            for op in it._get_ops_details()
            for index in op["outputs"]
        }
        for index, t in made.items():
            if t.dtype not in (np.int8, np.complex64):  # .npz here holds no complex numbers
                arrays.setdefault(f"tensor_{index}", []).append(t)
        codes = [made[i].ravel() for i in sorted(made) if made[i].dtype == np.int8]
        if codes:
            arrays.setdefault("tensors", []).append(np.concatenate(codes))
    np.savez_compressed(path.with_suffix(".npz"), **{k: np.stack(v) for k, v in arrays.items()})


def elementwise():
    """Every int8 value through every function of one operand, at scales and zero points up to the
    extremes."""
    m = Model("elementwise", 1)
    everything = np.arange(-128, 128).reshape(1, 1, 256)
    for scale, zero in [(0.05, 0), (0.1, -128), (0.02, 127), (1.5, 3), (0.001, -128)]:
        x = m.input(everything, (scale, zero))
        shape = m.shape(x)
        for q in [(scale, zero), (scale * 0.6, -110), (scale / 100, 127), (scale * 3.3, -128)]:
            m.op(B.HARD_SWISH, [x], shape, q)
        m.op(B.LOGISTIC, [x], shape, (1 / 256, -128))
        m.op(B.TANH, [x], shape, (1 / 128, 0))
        for i, code in enumerate([B.RELU, B.RELU6, B.RELU_N1_TO_1, B.RELU_0_TO_1]):
            m.op(code, [x], shape, (scale, zero))
            m.op(
                code,
                [x],
                shape,
                [(0.0235, -128), (0.031, 127), (scale * 0.3, 5), (scale * 7.7, -3)][i],
            )
        for q in [
            (scale * 2, zero),
            (scale * 0.0371, -100),
            (scale * 41.3, 127),
            (scale * 1.0001, -zero),
        ]:
            m.op(B.QUANTIZE, [x], shape, (q[0], min(q[1], 127)))
        m.op(B.DEQUANTIZE, [x], shape, None, dtype=np.float32)
    m.write()


def windows():
    """Pools and paddings over an odd shape: windows in the middle, at each border, larger than the
    input."""
    m = Model("windows", 2)
    for q in [(0.1, -128), (0.03, 17)]:
        shape = (1, 7, 5, 3)
        x = m.input(np.stack([m.rng.integers(-128, 128, shape), np.full(shape, 127)]), q)
        for kernel, stride in [
            ((3, 2), (2, 3)),
            ((2, 2), (2, 2)),
            ((5, 4), (1, 1)),
            ((7, 5), (7, 5)),
            ((1, 1), (3, 2)),
        ]:
            for padding in (SAME, VALID):
                m.pool(B.MAX_POOL_2D, x, kernel, stride, padding)
                m.pool(B.AVERAGE_POOL_2D, x, kernel, stride, padding)
        m.pool(B.MAX_POOL_2D, x, (3, 3), (1, 1), SAME, RELU)
        m.pool(B.AVERAGE_POOL_2D, x, (3, 3), (1, 1), SAME, RELU6)
        for pads in [
            [[0, 0]] * 4,
            [[0, 0], [1, 0], [0, 2], [0, 0]],
            [[0, 1], [2, 3], [1, 1], [3, 0]],
        ]:
            shape = [n + a + b for n, (a, b) in zip(m.shape(x), pads)]
            p = m.constant(pads, dtype=np.int32)
            m.op(B.PAD, [x, p], shape, q, schema.PadOptionsT())
            m.op(B.PADV2, [x, p, m.constant([-128], q)], shape, q, schema.PadV2OptionsT())
        for axes in [[1, 2], [1], [2], [3], [0, 1, 2, 3], [1, 3], [2, 3]]:
            for keep in (True, False):
                m.mean(x, axes, keep, q)
            m.mean(x, axes, True, (q[0] * 0.37, -7))
    m.write()


def ties(count, seed):
    """(s_x, s_weight, s_out, biases): factors where the product of the scales in float and in
    double round a bias differently."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        sx, sw, so = (rng.uniform(0.001, 0.1, 20000).astype(np.float32) for _ in range(3))
        in_float = (sx * sw).astype(np.float64) / so.astype(np.float64)
        in_double = sx.astype(np.float64) * sw.astype(np.float64) / so.astype(np.float64)
        steps = rng.integers(-120, 120, 20000) + 0.5
        bias = np.round(steps / in_double)
        differ = np.nonzero(np.floor(bias * in_float + 0.5) != np.floor(bias * in_double + 0.5))[0]
        found += [(sx[i], sw[i], so[i], int(bias[i])) for i in differ]
    return found[:count]


def linear():
    """Convolutions and fully connected layers: odd shapes, saturation at both ends, extreme zero
    points and weights, ties."""
    m = Model("linear", 3)
    rng = m.rng
    shape = (1, 7, 5, 3)
    for zero in (-128, 127):
        x = m.input(
            np.stack([rng.integers(-128, 128, shape), np.full(shape, -128), np.full(shape, 127)]),
            (0.02, zero),
        )
        scales = rng.uniform(0.001, 0.02, 5)
        bias = rng.integers(-3000, 3000, 5)
        w = rng.integers(-127, 128, (5, 3, 2, 3))
        m.convolution(x, w, scales, bias, (0.3, 3))
        m.convolution(x, w, scales, bias, (0.2, -128), stride=(2, 3), activation=RELU)
        m.convolution(
            x,
            w,
            scales,
            bias,
            (0.04, -128),
            stride=(2, 1),
            dilation=(1, 1),
            padding=VALID,
            activation=RELU6,
        )
        m.convolution(x, w, scales, bias, (0.01, 0), dilation=(2, 3), activation=RELU_N1)
        m.convolution(x, w, 0.01, bias, (0.5, -20), padding=VALID)
        m.convolution(x, np.full((5, 7, 5, 3), 127), scales, bias, (0.0001, 127), padding=VALID)
        m.convolution(x, np.full((5, 7, 5, 3), -127), scales, bias, (7.0, -128), padding=SAME)
        m.convolution(
            x,
            rng.integers(-127, 128, (4, 1, 1, 3)),
            rng.uniform(0.5, 90, 4),
            [0, 1, -1, 2],
            (0.9, 0),
        )
        m.convolution(
            x,
            rng.integers(-127, 128, (4, 2, 2, 3)),
            [1e-9, 1e-7, 1e-5, 1e-3],
            [2**30, -(2**30), 2**31 - 1, -(2**31)],
            (0.7, 5),
        )
        for multiplier in (1, 2):
            c = 3 * multiplier
            w = rng.integers(-127, 128, (1, 3, 2, c))
            m.convolution(
                x,
                w,
                rng.uniform(0.001, 0.02, c),
                rng.integers(-2000, 2000, c),
                (0.05, -3),
                stride=(2, 2),
                depthwise=True,
            )
            m.convolution(
                x,
                w,
                rng.uniform(0.001, 0.02, c),
                rng.integers(-2000, 2000, c),
                (0.03, -128),
                dilation=(2, 1),
                depthwise=True,
                activation=RELU6,
            )
        w = rng.integers(-127, 128, (6, 105))
        m.fully_connected(x, w, 0.004, rng.integers(-9000, 9000, 6), (0.3, 9))
        m.fully_connected(x, w, 0.05, rng.integers(-9000, 9000, 6), (0.002, -128), RELU)
        m.fully_connected(
            x, rng.integers(-127, 128, (4, 35)), 0.003, [0, 0, 500, -500], (0.05, 0), RELU6
        )
    for sx, sw, so, bias in ties(6, 4):
        x = m.input(np.zeros((3, 1, 1, 1, 1)), (sx, 0))
        m.fully_connected(x, [[1]], sw, [bias], (so, 0))
        m.convolution(x, [[[[1]]]], sw, [bias], (so, 0))
    m.write()


def several():
    """Sums with broadcasting, softmax rows, and operators that move data."""
    m = Model("several", 5)
    rng = m.rng
    full, shapes = (1, 3, 5, 4), [(1, 3, 5, 4), (1, 1, 5, 1), (4,), (1, 1, 1, 1), (5, 4)]
    draw = lambda s: np.stack([rng.integers(-128, 128, s), np.full(s, -128), np.full(s, 127)])
    x = m.input(draw(full), (0.1, 7))
    for i, s in enumerate(shapes):
        for q in [(0.1, 7), (0.004, -128), (3.0, 127)]:
            y = m.input(draw(s), q)
            m.add(x, y, (0.15, -3), [NONE, RELU, RELU6, RELU_N1, NONE][i])
            m.add(y, x, (q[0] * 2.1, -128))
    m.add(x, m.constant(rng.integers(-128, 128, 4), (0.2, 5)), (0.3, 1))
    for scale in (0.1, 0.7, 0.003, 0.02, 4.0):
        rows = m.input(
            np.stack(
                [
                    rng.integers(-128, 128, (3, 10)),
                    np.full((3, 10), 5),
                    np.tile([[-128] * 9 + [127]], (3, 1)),
                ]
            ),
            (scale, 12),
        )
        m.softmax(rows)
    m.softmax(x)
    m.softmax(m.input(draw((1, 2)), (0.05, 0)))
    m.softmax(
        m.input(
            np.stack(
                [rng.integers(-128, 128, (1, 500)), np.full((1, 500), 5), np.full((1, 500), -128)]
            ),
            (0.05, 0),
        )
    )
    for shape in [(3, 20), (1, 5, 3, 4), (60,), (1, 60, 1, 1), (2, 5, 6)]:
        m.op(
            B.RESHAPE,
            [x, m.constant(shape, dtype=np.int32)],
            shape,
            m.q(x),
            schema.ReshapeOptionsT(),
        )
    flat = m.op(
        B.RESHAPE,
        [x, m.constant((6, 10), dtype=np.int32)],
        (6, 10),
        m.q(x),
        schema.ReshapeOptionsT(),
    )
    m.op(
        B.RESHAPE,
        [flat, m.constant((1, 5, 4, 3), dtype=np.int32)],
        (1, 5, 4, 3),
        m.q(x),
        schema.ReshapeOptionsT(),
    )
    for perm in [(0, 2, 1, 3), (3, 2, 1, 0), (0, 3, 1, 2), (0, 2, 3, 1)]:
        m.op(
            B.TRANSPOSE,
            [x, m.constant(perm, dtype=np.int32)],
            [full[p] for p in perm],
            m.q(x),
            schema.TransposeOptionsT(),
        )
    y = m.input(draw((1, 3, 5, 4)), (0.1, 7))
    for axis in (1, 2, 3, -1, -3):
        options = schema.ConcatenationOptionsT()
        options.axis = axis
        shape = list(full)
        shape[axis] *= 3
        m.op(B.CONCATENATION, [x, y, x], shape, (0.1, 7), options)
    m.write()


def indexed():
    """Indices of extremes, elements by index, blocks of pixels, and fully connected layers with a
    scale for each row."""
    m = Model("indexed", 6)
    rng = m.rng
    shape, q = (2, 6, 4, 12), (0.1, 7)
    x = m.input(
        np.stack(
            [rng.integers(-128, 128, shape), rng.integers(-2, 3, shape), np.full(shape, -128)]
        ),
        q,
    )
    rows = m.input(
        np.stack(
            [rng.integers(-128, 128, (5, 9)), rng.integers(-1, 2, (5, 9)), np.full((5, 9), 127)]
        ),
        (0.02, -128),
    )
    for code, make_options in (
        (B.ARG_MAX, schema.ArgMaxOptionsT),
        (B.ARG_MIN, schema.ArgMinOptionsT),
    ):
        for t in (x, rows):
            for axis in range(-1, len(m.shape(t))):
                dtype = np.int32 if axis % 2 else np.int64
                options = make_options()
                options.outputType = TYPES[np.dtype(dtype)]
                left = [n for i, n in enumerate(m.shape(t)) if i != axis % len(m.shape(t))]
                m.op(code, [t, m.constant(axis, dtype=np.int32)], left, None, options, dtype)
    computed = m.input(rng.integers(0, 4, (3, 3)), None, np.int32)
    table = m.constant(rng.integers(-128, 128, (7, 5)), (0.3, 1))
    for t, axis, index in (
        (table, 0, computed),
        (rows, 1, computed),
        (x, 1, computed),
        (x, 3, computed),
        (x, -2, m.constant([[3, 0], [1, 1]], dtype=np.int32)),
        (x, 0, m.constant([1], dtype=np.int64)),
        (rows, 0, m.constant([4, 4, 2], dtype=np.int32)),
    ):
        options = schema.GatherOptionsT()
        options.axis = axis
        at = axis % len(m.shape(t))
        m.op(
            B.GATHER,
            [t, index],
            m.shape(t)[:at] + m.shape(index) + m.shape(t)[at + 1 :],
            m.q(t),
            options,
        )
    n, h, w, c = shape
    options = schema.SpaceToDepthOptionsT()
    options.blockSize = 2
    m.op(B.SPACE_TO_DEPTH, [x], (n, h // 2, w // 2, c * 4), q, options)
    options = schema.DepthToSpaceOptionsT()
    options.blockSize = 2
    m.op(B.DEPTH_TO_SPACE, [x], (n, h * 2, w * 2, c // 4), q, options)
    block, pads = m.constant([3, 2], dtype=np.int32), m.constant([[1, 2], [0, 2]], dtype=np.int32)
    batches = m.op(
        B.SPACE_TO_BATCH_ND,
        [x, block, pads],
        (n * 6, (h + 3) // 3, (w + 2) // 2, c),
        q,
        schema.SpaceToBatchNDOptionsT(),
    )
    m.op(
        B.BATCH_TO_SPACE_ND,
        [batches, block, pads],
        (n, h, w, c),
        q,
        schema.BatchToSpaceNDOptionsT(),
    )
    everything = m.input(np.tile(np.arange(-128, 128).reshape(1, 256), (3, 1, 1)), (0.05, -128))
    for to in ((0.03, -128), (0.002, 3)):
        m.op(B.RSQRT, [everything], m.shape(everything), to)
        m.op(B.SQRT, [everything], m.shape(everything), to)
    for activation, to in ((NONE, (0.3, 9)), (RELU, (0.002, -128)), (RELU6, (0.05, 0))):
        m.fully_connected(
            rows,
            rng.integers(-127, 128, (6, 9)),
            rng.uniform(0.001, 0.05, 6),
            rng.integers(-9000, 9000, 6),
            to,
            activation,
        )
    m.write()


if __name__ == "__main__":
    for make in (elementwise, windows, linear, several, indexed):
        make()
    for path in sorted(HERE.iterdir()):
        print(f"{path.stat().st_size:7} {path.name}")
