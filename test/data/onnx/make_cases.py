#!/usr/bin/env python3
"""Makes drawn.npz beside this file: models of one operator over drawn shapes and attributes, and what
ONNX Runtime computes for them.

    make_cases.py [--seed N] [--count N] [--pack FILE] [--only NAME] [--refused]

needs onnx, onnxruntime and numpy. Each row of CASES draws a model; ONNX Runtime decides which exist:
those that it refuses are left out (--refused prints them). What is committed is the default. Another
seed, count and pack give other cases, to be judged by
DEUTERON_ONNX_CASES=FILE build/release/test/unit/test_onnx.
"""
import argparse
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import helper

import coded_cases  # noqa: F401 (adds its cases)
from drawn_model import CASES, F, I, L, Q, T, U, Drawn, broadcastable, case

HERE = Path(__file__).resolve().parent


@case(
    *"Abs Ceil Cos Cosh Erf Exp Floor HardSwish Identity Neg Relu Round Sigmoid Sign Sin Sinh Softplus".split()
)
@case(*"Softsign Tan Tanh Atan Asinh Mish".split())
def unary(m, name):
    m.version = max(m.version, 18)
    m.op(name, [m.x(m.shape())])


@case("Log", "Sqrt", "Reciprocal")
def positive(m, name):
    m.op(name, [m.x(m.shape(), low=0.25)])


@case("Acos", "Asin", "Atanh")
def small(m, name):
    m.op(name, [m.x(m.shape(), low=-0.9, high=0.9)])


@case("Elu", "LeakyRelu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Shrink")
def with_numbers(m, name):
    attributes = {"alpha": float(m.rng.uniform(0.1, 2))} if name != "Shrink" else {}
    if name == "HardSigmoid" and m.flag():
        attributes = {"alpha": 1 / 6, "beta": 0.5}
    if name == "Shrink":
        attributes = {"lambd": 0.7, "bias": m.one_of(0.0, 0.7, 0.3)}
    m.op(name, [m.x(m.shape())], **attributes)


@case("Gelu")
def gelu(m, name):
    m.version = max(m.version, 20)
    m.op(name, [m.x(m.shape())], approximate=m.one_of("none", "tanh"))


@case("Clip")
def clip(m, name):
    dtype = m.one_of(F, I)
    low, high = m.const(-1, dtype), m.const(2, dtype)
    m.op(name, m.one_of([m.x(m.shape(), dtype), low, high], [m.x(m.shape(), dtype), "", high]))


@case("PRelu")
def prelu(m, name):
    shape = m.shape(4)
    m.op(name, [m.x(shape), m.const(m.numbers((shape[1], 1, 1)), F)])


@case("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod")
def binary(m, name):
    dtype = m.one_of(F, F, I, L)
    a, b = broadcastable(m)
    low = (
        1
        if name in ("Div", "Mod")
        else 0.25
        if name == "Pow" and dtype is F
        else 0
        if name == "Pow"
        else -9
    )
    attributes = {"fmod": 1} if name == "Mod" and (dtype is F or m.flag()) else {}
    first = m.x(a, dtype, 0.25 if name == "Pow" else -9, 4)
    m.op(name, [first, m.x(b, dtype, low, 3)], **attributes)


@case("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def comparison(m, name):
    m.version = max(m.version, 16)
    dtype = m.one_of(F, I, L)
    a, b = broadcastable(m)
    m.op(name, [m.x(a, dtype), m.x(b, dtype)])


@case("And", "Or", "Xor")
def logical(m, name):
    a, b = broadcastable(m)
    m.op(name, [m.x(a, T), m.x(b, T)])


@case("Not")
def logical_not(m, name):
    m.op(name, [m.x(m.shape(), T)])


@case("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(m, name):
    m.version = max(m.version, 18)
    a, b = broadcastable(m)
    m.op(name, [m.x(a, I, -99, 99), m.x(b, I, -99, 99)])


@case("Sum", "Mean")
def several(m, name):
    shape = m.shape()
    m.op(name, [m.x(shape) for _ in range(int(m.rng.integers(1, 4)))])


@case("Where")
def where(m, name):
    a, b = broadcastable(m)
    dtype = m.one_of(F, L, I)
    m.op(name, [m.x(a, T), m.x(b, dtype), m.x((1,), dtype)])


@case("Cast")
def cast(m, name):
    a, b = m.one_of(F, I, L, T, U, Q), m.one_of(F, I, L, T)
    low = 0 if a is U else -3
    m.op(name, [m.x(m.shape(), a, low, 9)], to=helper.np_dtype_to_tensor_dtype(np.dtype(b)))


@case("IsNaN")
def is_nan(m, name):
    m.op(name, [m.op("Log", [m.x(m.shape())])])


def window(m, spatial, kernel):
    """Attributes of a window."""
    attributes = {}
    if m.flag():
        attributes["strides"] = [int(n) for n in m.rng.integers(1, 4, spatial)]
    how = m.rng.integers(3)
    if how == 0:
        attributes["auto_pad"] = m.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    elif how == 1:
        attributes["pads"] = [int(m.rng.integers(0, k // 2 + 1)) for k in kernel] + [
            int(m.rng.integers(0, k // 2 + 1)) for k in kernel
        ]
    return attributes


@case("Conv", "Conv", "Conv", "Conv")
def conv(m, name):
    spatial = int(m.one_of(1, 2, 2, 3))
    groups = int(m.one_of(1, 1, 2))
    channels, out = groups * int(m.rng.integers(1, 4)), groups * int(m.rng.integers(1, 4))
    kernel = m.shape(spatial, 1, 3)
    weight = m.const(m.numbers((out, channels // groups, *kernel)), F)
    attributes = window(m, spatial, kernel)
    if "auto_pad" not in attributes and m.flag():
        attributes["dilations"] = [int(n) for n in m.rng.integers(1, 3, spatial)]
    inputs = [m.x((int(m.rng.integers(1, 3)), channels, *m.shape(spatial, 5, 8))), weight]
    if m.flag():
        inputs.append(m.const(m.numbers((out,)), F))
    m.op(name, inputs, group=groups, **attributes)


@case("ConvTranspose", "ConvTranspose")
def conv_transpose(m, name):
    spatial = int(m.one_of(1, 2, 2))
    groups = int(m.one_of(1, 1, 2))
    channels, out = groups * int(m.rng.integers(1, 3)), int(m.rng.integers(1, 4))
    # A stride beyond the kernel leaves gaps, of which ONNX Runtime cuts the last.
    kernel = m.shape(spatial, 3, 4)
    attributes = window(m, spatial, kernel)
    inputs = [
        m.x((1, channels, *m.shape(spatial, 3, 6))),
        m.const(m.numbers((channels, out, *kernel)), F),
    ]
    if m.flag():
        inputs.append(m.const(m.numbers((out * groups,)), F))
    m.op(name, inputs, group=groups, **attributes)


@case("MaxPool", "AveragePool", "LpPool")
def pool(m, name):
    spatial = int(m.one_of(1, 2, 2, 3)) if name != "LpPool" else 2
    kernel = m.shape(spatial, 2, 3)
    attributes = window(m, spatial, kernel)
    if name == "AveragePool" and m.flag():
        attributes["count_include_pad"] = 1
    if name != "LpPool" and "auto_pad" not in attributes and m.flag():
        attributes["ceil_mode"] = 1
    m.op(name, [m.x((2, 3, *m.shape(spatial, 5, 9)))], kernel_shape=kernel, **attributes)


@case("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m, name):
    m.op(name, [m.x((2, 3, *m.shape(2, 2, 6)))])


@case("BatchNormalization")
def batch_norm(m, name):
    shape = m.shape(int(m.one_of(2, 3, 4)))
    parameters = [m.const(m.numbers((shape[1],), F, 0.5, 2), F) for _ in range(4)]
    m.op(name, [m.x(shape), *parameters], epsilon=float(m.one_of(1e-5, 1e-3)))


@case("InstanceNormalization")
def instance_norm(m, name):
    shape = m.shape(int(m.one_of(3, 4)), 2, 5)
    m.op(name, [m.x(shape), m.const(m.numbers((shape[1],)), F), m.const(m.numbers((shape[1],)), F)])


@case("LayerNormalization")
def layer_norm(m, name):
    m.version = max(m.version, 17)
    shape = m.shape(int(m.one_of(2, 3, 4)), 2, 5)
    axis = m.axis(len(shape))
    last = shape[axis:]
    inputs = [m.x(shape), m.const(m.numbers(last), F)]
    if m.flag():
        inputs.append(m.const(m.numbers(last), F))
    m.op(name, inputs, axis=axis)


@case("LpNormalization")
def lp_norm(m, name):
    shape = m.shape(low=2)
    m.op(name, [m.x(shape)], axis=m.axis(len(shape)), p=int(m.one_of(1, 2)))


@case("LRN")
def lrn(m, name):
    m.op(name, [m.x((2, 7, 4, 3))], size=int(m.one_of(1, 2, 3, 5)), alpha=0.3, beta=0.6, bias=1.5)


@case("MeanVarianceNormalization")
def mvn(m, name):
    m.op(name, [m.x(m.shape(4, 2))], axes=m.one_of([0, 2, 3], [2, 3]))


@case("MatMul", "MatMul")
def matmul(m, name):
    n, k, p = (int(v) for v in m.rng.integers(1, 6, 3))
    a, b = m.one_of(
        ((n, k), (k, p)),
        ((2, n, k), (k, p)),
        ((2, 3, n, k), (3, k, p)),
        ((k,), (k, p)),
        ((n, k), (k,)),
        ((k,), (k,)),
        ((2, n, k), (2, k, p)),
    )
    m.op(name, [m.x(a), m.const(m.numbers(b), F) if m.flag() else m.x(b)])


@case("Gemm", "Gemm")
def gemm(m, name):
    n, k, p = (int(v) for v in m.rng.integers(1, 6, 3))
    turns = {"transA": int(m.flag()), "transB": int(m.flag())}
    a = (k, n) if turns["transA"] else (n, k)
    b = (p, k) if turns["transB"] else (k, p)
    c = m.one_of((p,), (1, p), (n, 1), (n, p), ())
    numbers = {"alpha": 0.5, "beta": 2.0} if m.flag() else {}
    m.op(
        name,
        [m.x(a), m.const(m.numbers(b), F) if m.flag() else m.x(b), m.const(m.numbers(c), F)],
        **turns,
        **numbers,
    )


@case("Einsum")
def einsum(m, name):
    equation, shapes = m.one_of(
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij, bjk -> bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij->ji", [(2, 3)]),
        ("i,j->ij", [(3,), (4,)]),
    )
    m.op(name, [m.x(shape) for shape in shapes], equation=equation)


@case("Reshape")
def reshape(m, name):
    m.op(
        name,
        [
            m.x((2, 6, 4), m.one_of(F, L)),
            m.const(m.one_of([0, -1], [4, 12], [-1], [2, 0, 2, 2], [48, 1])),
        ],
    )


@case("Flatten")
def flatten(m, name):
    shape = m.shape()
    m.op(name, [m.x(shape)], axis=int(m.rng.integers(0, len(shape) + 1)))


@case("Squeeze")
def squeeze(m, name):
    m.op(name, m.one_of([m.x((1, 3, 1, 2)), m.const([0])], [m.x((1, 3, 1, 2)), m.const([-2, 0])]))


@case("Unsqueeze")
def unsqueeze(m, name):
    m.op(name, [m.x((3, 2)), m.const(m.one_of([0], [-1], [0, 3], [1, 2]))])


@case("Transpose")
def transpose(m, name):
    shape = m.shape()
    m.op(
        name, [m.x(shape, m.one_of(F, I, T))], perm=[int(i) for i in m.rng.permutation(len(shape))]
    )


@case("Concat")
def concat(m, name):
    shape = list(m.shape())
    axis = m.axis(len(shape))
    dtype = m.one_of(F, L)
    parts = []
    for _ in range(int(m.rng.integers(1, 4))):
        shape[axis] = int(m.rng.integers(1, 4))
        parts.append(m.x(tuple(shape), dtype))
    m.op(name, parts, axis=axis)


@case("Split")
def split(m, name):
    m.version = 18
    if m.flag():
        m.op(name, [m.x((2, 7)), m.const([1, 4, 2])], outputs=3, axis=1)
    else:
        m.op(name, [m.x((7, 3))], outputs=3, num_outputs=3, axis=0)


@case("Slice", "Slice", "Slice")
def slice_(m, name):
    shape = m.shape(low=3, high=7)
    count = int(m.rng.integers(1, len(shape) + 1))
    axes = [int(i) for i in m.rng.permutation(len(shape))[:count]]
    steps = [int(m.one_of(1, 2, -1, -2)) for _ in axes]
    starts = [int(m.rng.integers(-8, 8)) for _ in axes]
    ends = [int(m.one_of(int(m.rng.integers(-8, 8)), 2**62, -(2**62))) for _ in axes]
    m.op(name, [m.x(shape), m.const(starts), m.const(ends), m.const(axes), m.const(steps)])


@case("Expand")
def expand(m, name):
    m.op(name, [m.x((3, 1)), m.const(m.one_of([2, 3, 4], [3, 5], [1, 1], [2, 1, 6]))])


@case("Tile")
def tile(m, name):
    shape = m.shape()
    m.op(
        name,
        [m.x(shape, m.one_of(F, I)), m.const([int(n) for n in m.rng.integers(1, 4, len(shape))])],
    )


@case("Pad", "Pad")
def pad(m, name):
    m.version = max(m.version, 19)
    shape = m.shape(int(m.one_of(2, 3, 4)), 3, 5)
    mode = m.one_of("constant", "reflect", "edge", "wrap")
    amounts = [int(n) for n in m.rng.integers(-1 if mode == "constant" else 0, 3, 2 * len(shape))]
    dtype = m.one_of(F, L)
    inputs = [m.x(shape, dtype), m.const(amounts)]
    if mode == "constant":
        inputs.append(m.const(2, dtype))
    m.op(name, inputs, mode=mode)


@case("DepthToSpace", "SpaceToDepth")
def blocks(m, name):
    attributes = {"mode": m.one_of("DCR", "CRD")} if name == "DepthToSpace" else {}
    m.op(name, [m.x((2, 8, 4, 6))], blocksize=2, **attributes)


@case("Resize", "Resize", "Resize", "Resize")
def resize(m, name):
    m.version = max(m.version, 18)
    shape = (1, 2, *m.shape(2, 3, 7))
    mode = m.one_of("nearest", "linear", "linear", "cubic")
    antialias = mode != "nearest" and m.rng.integers(4) == 0
    transform = m.one_of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attributes["nearest_mode"] = m.one_of(
            "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"
        )
    if mode == "cubic" and m.flag():
        attributes["cubic_coeff_a"] = -0.5
    if antialias:
        attributes["antialias"] = 1
    if m.flag():
        sizes = [1, 2, *(int(n) for n in m.rng.integers(2, 12, 2))]
        m.op(name, [m.x(shape), "", "", m.const(sizes)], **attributes)
    else:
        scales = [1, 1, float(m.one_of(0.5, 2, 1.5, 3)), float(m.one_of(2, 0.6, 1))]
        m.op(name, [m.x(shape), "", m.const(scales, F)], **attributes)


@case("Gather")
def gather(m, name):
    shape = m.shape(int(m.one_of(1, 2, 3)), 2, 5)
    axis = m.axis(len(shape))
    index = m.numbers(m.one_of((), (3,), (2, 2)), L, -shape[axis], shape[axis] - 1)
    m.op(name, [m.x(shape, m.one_of(F, L)), m.const(index)], axis=axis)


@case("GatherElements")
def gather_elements(m, name):
    shape = m.shape(int(m.one_of(1, 2, 3)), 2, 4)
    axis = m.axis(len(shape))
    if m.flag():
        m.op(
            name,
            [m.x(shape), m.const(m.numbers(shape, L, -shape[axis], shape[axis] - 1))],
            axis=axis,
        )
    else:
        m.op(name, [m.x(shape), m.x(shape, L, -shape[axis], shape[axis] - 1)], axis=axis)


@case("GatherND")
def gather_nd(m, name):
    depth = int(m.one_of(1, 2))
    m.op(name, [m.x((2, 3, 4)), m.x((2, 3, depth), L, -2, 1)], batch_dims=int(m.one_of(0, 1)))


@case("ScatterElements")
def scatter_elements(m, name):
    m.version = max(m.version, 18)
    axis = int(m.one_of(0, 1, -1))
    reduction = m.one_of("none", "add", "mul", "max", "min")
    shape = (3, 4)
    index = (
        np.argsort(m.rng.random((2, 3)), axis=axis).astype(L)
        if reduction == "none"
        else m.numbers((2, 3), L, -2, 2)
    )
    m.op(name, [m.x(shape), m.const(index), m.x((2, 3))], axis=axis, reduction=reduction)


@case("ScatterND")
def scatter_nd(m, name):
    m.version = max(m.version, 18)
    m.op(
        name,
        [m.x((5, 3)), m.const([[4], [0], [-3]]), m.x((3, 3))],
        reduction=m.one_of("none", "add", "max"),
    )


@case("OneHot")
def one_hot(m, name):
    m.op(
        name,
        [m.x((2, 3), L, -4, 3), m.const(4), m.const([0.5, 2], F)],
        axis=int(m.one_of(-1, 0, 1)),
    )


@case("Trilu")
def trilu(m, name):
    m.op(name, [m.x((2, 4, 5), m.one_of(F, L)), m.const(m.one_of(-1, 0, 2))], upper=int(m.flag()))


@case("CumSum")
def cumsum(m, name):
    shape = m.shape()
    m.op(
        name,
        [m.x(shape, m.one_of(F, I)), m.const(m.axis(len(shape)))],
        exclusive=int(m.flag()),
        reverse=int(m.flag()),
    )


@case("TopK")
def top_k(m, name):
    m.op(
        name,
        [m.x((3, 6)), m.const([3])],
        outputs=2,
        axis=int(m.one_of(-1, 1)),
        largest=int(m.flag()),
    )


@case("ArgMax", "ArgMin")
def arg_max(m, name):
    shape = m.shape()
    m.op(
        name,
        [m.x(shape)],
        axis=m.axis(len(shape)),
        keepdims=int(m.flag()),
        select_last_index=int(m.flag()),
    )


@case(
    *"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split()
)
def reduction(m, name):
    m.version = max(m.version, 18)
    shape = m.shape()
    dtype = (
        m.one_of(F, F, I)
        if name not in ("ReduceLogSum", "ReduceL2", "ReduceLogSumExp", "ReduceMean")
        else F
    )
    axes = sorted({m.axis(len(shape)) % len(shape) for _ in range(2)})
    low = 0.5 if name == "ReduceLogSum" else -3
    inputs = [m.x(shape, dtype, low)] + ([m.const(axes)] if m.flag() else [])
    m.op(name, inputs, keepdims=int(m.flag()))


@case("Softmax", "LogSoftmax", "Hardmax")
def softmax(m, name):
    shape = m.shape()
    m.op(name, [m.x(shape)], axis=m.axis(len(shape)))


@case("LSTM", "GRU", "RNN")
def recurrent(m, name):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, width, hidden = (int(n) for n in m.rng.integers(2, 5, 4))
    direction = m.one_of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    inputs = [
        m.x((steps, batch, width)),
        m.const(m.numbers((ways, gates * hidden, width)), F),
        m.const(m.numbers((ways, gates * hidden, hidden)), F),
    ]
    if m.flag():
        inputs.append(m.const(m.numbers((ways, 2 * gates * hidden)), F))
        if m.flag():
            inputs += ["", m.x((ways, batch, hidden))]
    attributes = {"linear_before_reset": int(m.flag())} if name == "GRU" else {}
    m.op(
        name,
        inputs,
        outputs=3 if name == "LSTM" else 2,
        hidden_size=hidden,
        direction=direction,
        **attributes,
    )


# ---- several nodes


@case("If")
def branch(m, name):
    x = m.x((2, 3))

    def graph(op):
        node = helper.make_node(op, [x], ["inner"])
        return helper.make_graph([node], op, [], [helper.make_empty_tensor_value_info("inner")])

    m.op(
        name,
        [m.const(m.flag(), T) if m.flag() else m.x((1,), T)],
        then_branch=graph("Relu"),
        else_branch=graph("Neg"),
    )


@case("Shape")
def shape_chain(m, name):
    """What exports write for a reshape: sizes taken out of a shape."""
    x = m.x((2, 3, 4, 5))
    shape = m.op("Shape", [x])
    first = m.op("Gather", [shape, m.const(0)], axis=0)
    first = m.op("Unsqueeze", [first, m.const([0])])
    to = m.op("Concat", [first, m.const([-1])], axis=0)
    m.op("Reshape", [x, to])


# What is drawn depends on a case's row: later ones stand behind.
import placed_cases  # noqa: E402, F401


def drawn(name, function, seed):
    m = Drawn(np.random.default_rng(seed))
    function(m, name)
    return m


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--pack", type=Path, default=HERE / "drawn.npz")
    parser.add_argument("--only")
    parser.add_argument("--refused", action="store_true")
    options = parser.parse_args()
    sessions = onnxruntime.SessionOptions()
    sessions.intra_op_num_threads = 1
    sessions.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions.log_severity_level = 4
    arrays, count, refused = {}, 0, 0
    for row, (name, function) in enumerate(CASES):
        if options.only not in (None, name):
            continue
        for i in range(options.count):
            m = drawn(name, function, [options.seed, row, i])
            data = m.model().SerializeToString()
            try:
                session = onnxruntime.InferenceSession(data, sessions, ["CPUExecutionProvider"])
                outputs = session.run(None, dict(m.inputs))
            except Exception as problem:
                refused += 1
                if options.refused:
                    print(f"{name}: {str(problem)[:160]}")
                continue
            key = f"{count:04d}.{name}"
            arrays[f"{key}/model"] = np.frombuffer(data, np.uint8)
            arrays.update({f"{key}/in{j}": x for j, (_, x) in enumerate(m.inputs)})
            arrays.update({f"{key}/out{j}": np.asarray(y) for j, y in enumerate(outputs)})
            count += 1
    np.savez_compressed(options.pack, **arrays)
    print(f"{count} cases, {refused} refused by ONNX Runtime, {options.pack.stat().st_size} bytes")


if __name__ == "__main__":
    main()
