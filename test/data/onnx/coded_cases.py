"""The cases of make_cases.py on codes. Weights stay within 63 because ONNX Runtime adds pairs of
products in 16 bits on machines without VNNI, where larger ones saturate."""
import numpy as np

from drawn_model import MICROSOFT, F, I, Q, U, case


def scale_of(m, zero=None, dtype=None):
    dtype = m.one_of(Q, U) if dtype is None else dtype
    zero = int(m.rng.integers(-20, 20)) + (128 if dtype is U else 0) if zero is None else zero
    return [m.const(np.float32(m.rng.uniform(0.01, 0.05)), F), m.const(zero, dtype)], dtype


@case("QuantizeLinear")
def quantize(m, name):
    codes, _ = scale_of(m)
    m.op(name, [m.x(m.shape()), *codes])


@case("DequantizeLinear")
def dequantize(m, name):
    codes, dtype = scale_of(m)
    m.op(name, [m.x(m.shape(), dtype, -128, 255), *codes])


@case("QDQ", "QDQ", "QDQ")
def qdq(m, name):
    """x → codes → real → operator → codes."""

    def through(x, dtype=None):
        codes, dtype = scale_of(m, dtype=dtype)
        return m.op("DequantizeLinear", [m.op("QuantizeLinear", [x, *codes]), *codes])

    x = through(m.x((1, 3, 6, 5)))
    kind = m.one_of("Conv", "Relu", "Add", "MaxPool", "Sigmoid", "Concat", "Reshape")
    if kind == "Conv":
        weight = m.numbers((4, 3, 3, 3), Q, -63, 63)
        scales = m.rng.uniform(0.01, 0.02, 4).astype(F)
        w = m.op(
            "DequantizeLinear",
            [m.const(weight, Q), m.const(scales, F), m.const(np.zeros(4), Q)],
            axis=0,
        )
        y = m.op("Conv", [x, w], pads=[1, 1, 1, 1])
    elif kind == "Add":
        y = m.op("Add", [x, through(m.x((1, 3, 6, 5)))])
    elif kind == "Concat":
        y = m.op("Concat", [x, x], axis=1)
    elif kind == "Reshape":
        y = m.op("Reshape", [x, m.const([3, -1])])
    elif kind == "MaxPool":
        y = m.op("MaxPool", [x], kernel_shape=[2, 2])
    else:
        y = m.op(kind, [x])
    codes, _ = scale_of(m)
    m.op("QuantizeLinear", [y, *codes])


@case("QLinearConv", "QLinearConv")
def qlinear_conv(m, name):
    (x, dtype), (y, _) = scale_of(m), scale_of(m, dtype=U)
    (x, dtype) = scale_of(m, dtype=U)
    w = [m.const(m.numbers((4, 3, 3, 3), Q, -63, 63), Q)]
    w += [m.const(m.rng.uniform(0.001, 0.01, 4), F), m.const(np.zeros(4), Q)]
    inputs = [m.x((1, 3, 7, 6), dtype, 0, 255), *x, *w, *y]
    if m.flag():
        inputs.append(m.const(m.numbers((4,), I, -2000, 2000), I))
    m.op(name, inputs, pads=[1, 0, 0, 1])


@case("QLinearMatMul")
def qlinear_matmul(m, name):
    (a, dtype), (b, _), (y, _) = scale_of(m, dtype=U), scale_of(m, 0, Q), scale_of(m, dtype=U)
    m.op(name, [m.x((3, 5), dtype, 0, 255), *a, m.const(m.numbers((5, 4), Q, -63, 63), Q), *b, *y])


@case("QLinearAdd", "QLinearMul")
def qlinear_binary(m, name):
    dtype = m.one_of(Q, U)
    (a, _), (b, _), (y, _) = (scale_of(m, dtype=dtype) for _ in range(3))
    first, second = m.x((2, 3, 4), dtype, -128, 255), m.x((3, 4), dtype, -128, 255)
    m.op(name, [first, *a, second, *b, *y], domain=MICROSOFT)


@case(
    "QLinearSigmoid",
    "QLinearLeakyRelu",
    "QLinearAveragePool",
    "QLinearGlobalAveragePool",
    "QLinearSoftmax",
)
def qlinear_unary(m, name):
    dtype = m.one_of(Q, U) if name in ("QLinearSigmoid", "QLinearLeakyRelu") else U
    (a, _), (y, _) = scale_of(m, dtype=dtype), scale_of(m, dtype=dtype)
    attributes = {
        "QLinearLeakyRelu": {"alpha": 0.1},
        "QLinearAveragePool": {"kernel_shape": [2, 2], "strides": [2, 2]},
        "QLinearGlobalAveragePool": {"channels_last": 0},
        "QLinearSoftmax": {"axis": -1, "opset": 13},
    }.get(name, {})
    m.op(name, [m.x((1, 3, 4, 6), dtype, -128, 255), *a, *y], domain=MICROSOFT, **attributes)


@case("QLinearConcat")
def qlinear_concat(m, name):
    (y, _), (a, _), (b, _) = (scale_of(m, dtype=U) for _ in range(3))
    m.op(
        name, [*y, m.x((2, 3), U, 0, 255), *a, m.x((2, 4), U, 0, 255), *b], domain=MICROSOFT, axis=1
    )


@case("QGemm")
def qgemm(m, name):
    (a, _), (b, _), (y, _) = scale_of(m, dtype=U), scale_of(m, 0, Q), scale_of(m, dtype=U)
    m.op(
        name,
        [
            m.x((3, 5), U, 0, 255),
            *a,
            m.const(m.numbers((4, 5), Q, -63, 63), Q),
            *b,
            m.const(m.numbers((4,), I, -999, 999), I),
            *y,
        ],
        domain=MICROSOFT,
        transB=1,
    )


@case("MatMulInteger")
def matmul_integer(m, name):
    m.op(
        name,
        [
            m.x((3, 5), U, 0, 255),
            m.const(m.numbers((5, 4), Q, -63, 63), Q),
            m.const(7, U),
            m.const(0, Q),
        ],
    )


@case("DynamicQuantizeLinear")
def dynamic(m, name):
    m.op(name, [m.x(m.shape())], outputs=3)
