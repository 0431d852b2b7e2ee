"""What the cases of make_operators.py are made of: a model under construction that draws its inputs,
and the cases on codes."""
import flatbuffers
import numpy as np

from make_vectors import B, SAME, TYPES, VALID, Model, evaluate, schema

TYPES[np.dtype(np.bool_)] = schema.TensorType.BOOL
TYPES[np.dtype(np.uint8)] = schema.TensorType.UINT8
TYPES[np.dtype(np.float16)] = schema.TensorType.FLOAT16
TYPES[np.dtype(np.complex64)] = schema.TensorType.COMPLEX64
F, I, L, T, Q, U = np.float32, np.int32, np.int64, np.bool_, np.int8, np.uint8
PAIRS = [
    ((2, 3, 5, 4), (4,)),
    ((2, 3, 5, 4), (2, 1, 5, 1)),
    ((3, 1), (2, 3, 4)),
    ((7, 2), (7, 2)),
    ((), (6,)),
    ((2, 3, 1, 2), (3, 5, 1)),
]
SHAPES = [(2, 3, 5, 4), (7, 3), (5,), (1, 2, 3)]


class Cases(Model):
    """A model that is written where it is told, with operators of version 1."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.subgraphs = []
        self.op(B.RELU, [self.x((2,))], [2], None, None, F)  # some cases have no input

    def draw(self, shape, dtype=F, low=-3, high=3, q=None):
        if dtype in (F,):
            return self.rng.uniform(low, high, (2, *shape)).astype(F)
        if dtype is T:
            return self.rng.integers(0, 2, (2, *shape)).astype(T)
        if q is not None or dtype in (Q, U):
            bounds = np.iinfo(dtype)
            return self.rng.integers(bounds.min, bounds.max + 1, (2, *shape)).astype(dtype)
        return self.rng.integers(int(low), int(high) + 1, (2, *shape)).astype(dtype)

    def x(self, shape, dtype=F, low=-3, high=3, q=None):
        return self.input(self.draw(shape, dtype, low, high, q), q, dtype)

    def ints(self, values, dtype=I):
        return self.constant(np.asarray(values, dtype), None, dtype)

    def op2(self, code, inputs, shape, options, dtype=F):
        """An operator that has its options in the second union."""
        self.op(code, inputs, shape, None, None, dtype)
        kind = type(options).__name__[:-1]
        made = self.operators[-1]
        made.builtinOptions2 = options
        made.builtinOptions2Type = getattr(schema.BuiltinOptions2, kind)

    def combination(self, code, dtype=F):
        """The number of a subgraph that combines two elements by an operator; None: the second."""
        part = Model(f"part_{len(self.subgraphs)}", 0)
        a, b = part.tensor((), None, dtype), part.tensor((), None, dtype)
        made = b
        if code is not None:
            if code not in self.codes:
                self.codes.append(code)
            made = part.tensor((), None, dtype)
            o = schema.OperatorT()
            o.opcodeIndex, o.inputs, o.outputs = self.codes.index(code), [a, b], [made]
            part.operators.append(o)
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = part.tensors, part.operators
        graph.inputs, graph.outputs, graph.name = [a, b], [made], part.name
        self.subgraphs.append(graph)
        return len(self.subgraphs)

    def several(self, code, inputs, results, options=None):
        """An operator of several outputs [(shape, q, dtype)]."""
        shape, q, dtype = results[0]
        self.op(code, inputs, shape, q, options, dtype)
        more = [self.tensor(s, q, d) for s, q, d in results[1:]]
        self.operators[-1].outputs = list(self.operators[-1].outputs) + more

    def write_to(self, path, outputs=None, subgraphs=(), evaluated=True):
        """Writes the model, and what LiteRT computes for its data if it is `evaluated`. outputs:
        those of all operators, if not given. subgraphs: those that operators call."""
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = outputs or [
            t
            for o in self.operators
            for t in o.outputs
            if self.tensors[t].type != schema.TensorType.COMPLEX64
        ]
        graph.name = "main"
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers, model.description = (
            3,
            [graph, *self.subgraphs, *subgraphs],
            self.buffers,
            self.name,
        )
        model.operatorCodes = []
        for code in self.codes:
            c = schema.OperatorCodeT()
            if isinstance(code, str):  # a custom operator
                c.customCode, code = code, B.CUSTOM
            c.builtinCode, c.deprecatedBuiltinCode = code, min(code, 127)
            c.version = 2 if code == B.BROADCAST_TO else 1
            model.operatorCodes.append(c)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        if evaluated:
            evaluate(path, self.data)


def options(name, **values):
    made = getattr(schema, f"{name}OptionsT")()
    for key, value in values.items():
        assert hasattr(made, key), key
        setattr(made, key, value)
    return made


def broadcast(a, b):
    return list(np.broadcast_shapes(a, b))


def without_small(codes, zero_point):
    """LiteRT's quotient of codes saturates where a dividend is 0 or a few steps, in place of 0."""
    small = np.abs(codes.astype(np.int32) - zero_point) < 16
    return np.where(small, zero_point + 50, codes).astype(codes.dtype)


def quantized(dtype):
    """Operators on codes, which are computed in float, beside those of linear layers."""
    zero = 0 if dtype is Q else 128
    qs = [(0.05, 3 + zero), (0.02, -20 + zero)]
    for a, b in PAIRS:
        for code in "LESS GREATER_EQUAL EQUAL NOT_EQUAL".split():
            yield f"{code}", lambda m, code=code, a=a, b=b: m.op(
                getattr(B, code),
                [m.x(a, dtype, q=qs[0]), m.x(b, dtype, q=qs[0])],
                broadcast(a, b),
                None,
                dtype=T,
            )
        for code in "DIV SQUARED_DIFFERENCE MAXIMUM MINIMUM ADD SUB MUL".split():
            out = qs[0] if code in ("MAXIMUM", "MINIMUM") else (0.1, 7 + zero)
            yield code, lambda m, code=code, a=a, b=b, out=out: m.op(
                getattr(B, code),
                [
                    m.input(without_small(m.draw(a, dtype, q=qs[0]), qs[0][1]), qs[0], dtype),
                    m.input(
                        np.maximum(m.draw(b, dtype, q=qs[0]), zero + 40)
                        if code == "DIV"
                        else m.draw(b, dtype, q=qs[0]),
                        qs[0],
                        dtype,
                    ),
                ],
                broadcast(a, b),
                out,
                options(code.title()) if code in ("ADD", "SUB", "MUL", "DIV") else None,
                dtype,
            )
        yield "SELECT_V2", lambda m, a=a, b=b: m.op(
            B.SELECT_V2,
            [m.x(b, T), m.x(a, dtype, q=qs[0]), m.x(b, dtype, q=qs[0])],
            broadcast(a, b),
            qs[0],
            options("SelectV2"),
            dtype,
        )
    for s in SHAPES:
        for code, out in {
            "NEG": (0.05, -3 + zero),
            "ABS": (0.05, zero),
            "EXP": (0.1, zero),
            "LOGISTIC": (1 / 256, -128 + zero),
            "TANH": (1 / 128, zero),
            "RELU": qs[0],
            "HARD_SWISH": (0.04, 5 + zero),
            "LEAKY_RELU": qs[0],
        }.items():
            yield code, lambda m, code=code, s=s, out=out: m.op(
                getattr(B, code),
                [m.x(s, dtype, q=qs[0])],
                list(s),
                out,
                options("LeakyRelu", alpha=0.1) if code == "LEAKY_RELU" else None,
                dtype,
            )
        yield "TOPK_V2", lambda m, s=s: m.several(
            B.TOPK_V2,
            [m.x(s, dtype, q=qs[0]), m.ints(2)],
            [([*s[:-1], 2], qs[0], dtype), ([*s[:-1], 2], None, I)],
            options("TopKV2"),
        )
        yield "GATHER", lambda m, s=s: m.op(
            B.GATHER,
            [m.x(s, dtype, q=qs[0]), m.x((3,), I, 0, s[-1] - 1)],
            [*s[:-1], 3],
            qs[0],
            options("Gather", axis=len(s) - 1),
            dtype,
        )
        yield "GATHER_ND", lambda m, s=s: m.op(
            B.GATHER_ND,
            [m.x(s, dtype, q=qs[0]), m.x((3, 1), I, 0, s[0] - 1)],
            [3, *s[1:]],
            qs[0],
            options("GatherNd"),
            dtype,
        )
        yield "QUANTIZE", lambda m, s=s: m.op(
            B.QUANTIZE, [m.x(s, dtype, q=qs[0])], list(s), (0.031, 11), None, Q
        )
        yield "DEQUANTIZE", lambda m, s=s: m.op(
            B.DEQUANTIZE, [m.x(s, dtype, q=qs[0])], list(s), None, None, F
        )
        yield "SOFTMAX", lambda m, s=s: m.op(
            B.SOFTMAX,
            [m.x(s, dtype, q=qs[0])],
            list(s),
            (1 / 256, -128 + zero),
            options("Softmax", beta=1.0),
            dtype,
        )
        yield "RESHAPE", lambda m, s=s: m.op(
            B.RESHAPE,
            [m.x(s, dtype, q=qs[0]), m.ints([int(np.prod(s))])],
            [int(np.prod(s))],
            qs[0],
            options("Reshape"),
            dtype,
        )
    if dtype is not U:
        return
    # Weights of bytes, with a zero point of their own; each has codes whose distance from it needs
    # nine bits, or none.
    for wide in (False, True):
        for depthwise in (False, True):

            def convolution(m, wide=wide, depthwise=depthwise):
                shape, kernel = (1, 7, 5, 3), (3, 2)
                x = m.x(shape, U, q=(0.02, 117))
                of_weight = (1, *kernel, 6) if depthwise else (5, *kernel, 3)
                low, high = (0, 256) if wide else (60, 180)
                w = m.constant(m.rng.integers(low, high, of_weight), (0.013, 120), U)
                channels = of_weight[3] if depthwise else of_weight[0]
                bias = m.constant(
                    m.rng.integers(-3000, 3000, channels),
                    (np.float32(0.02) * np.float32(0.013), 0),
                    I,
                )
                made = options(
                    "DepthwiseConv2D" if depthwise else "Conv2D", padding=SAME, strideH=1, strideW=2
                )
                if depthwise:
                    made.depthMultiplier = 2
                return m.op(
                    B.DEPTHWISE_CONV_2D if depthwise else B.CONV_2D,
                    [x, w, bias],
                    [1, 7, 3, channels],
                    (0.3, 128),
                    made,
                    U,
                )

            yield f"CONV uint8 {wide} {depthwise}", convolution

        def fully_connected(m, wide=wide):
            low, high = (0, 256) if wide else (60, 180)
            w = m.constant(m.rng.integers(low, high, (4, 9)), (0.013, 120), U)
            bias = m.constant(
                m.rng.integers(-3000, 3000, 4), (np.float32(0.02) * np.float32(0.013), 0), I
            )
            return m.op(
                B.FULLY_CONNECTED,
                [m.x((3, 9), U, q=(0.02, 117)), w, bias],
                [3, 4],
                (0.1, 128),
                options("FullyConnected"),
                U,
            )

        yield "FULLY_CONNECTED uint8", fully_connected
    for code in (B.MAX_POOL_2D, B.AVERAGE_POOL_2D):
        yield "pool", lambda m, code=code: m.op(
            code,
            [m.x((1, 6, 6, 3), U, q=(0.02, 117))],
            [1, 2, 2, 3],
            (0.02, 117),
            options("Pool2D", padding=VALID, strideH=3, strideW=3, filterHeight=3, filterWidth=3),
            U,
        )
    yield "MEAN", lambda m: m.op(
        B.MEAN,
        [m.x((1, 6, 6, 3), U, q=(0.02, 117)), m.ints([1, 2])],
        [1, 3],
        (0.02, 117),
        options("Reducer"),
        U,
    )
    yield "CONCATENATION", lambda m: m.op(
        B.CONCATENATION,
        [m.x((1, 2, 3, 4), U, q=qs[0]), m.x((1, 2, 3, 2), U, q=qs[0])],
        [1, 2, 3, 6],
        qs[0],
        options("Concatenation", axis=3),
        U,
    )
    yield "PAD", lambda m: m.op(
        B.PAD,
        [m.x((1, 2, 3, 4), U, q=qs[0]), m.ints([[0, 0], [1, 2], [0, 1], [0, 0]])],
        [1, 5, 4, 4],
        qs[0],
        options("Pad"),
        U,
    )


def concatenated():
    """Bytes of other scales than the result, of other zero points alone, and constants: only
    CONCATENATION of UINT8 may have them."""
    for a, b in (
        ((0.05, 131), (0.02, 108)),
        ((0.02, 108), (0.05, 131)),
        ((0.05, 131), (0.05, 200)),
        ((0.004, 0), (3.0, 255)),
    ):
        for shape, axis in (((1, 2, 3, 4), 3), ((1, 2, 3, 4), 1), ((2, 3, 5), -1), ((40,), 0)):
            wide = list(shape)
            wide[axis] *= 3
            yield "CONCATENATION", lambda m, a=a, b=b, shape=shape, axis=axis, wide=wide: m.op(
                B.CONCATENATION,
                [
                    m.x(shape, U, q=a),
                    m.constant(m.draw(shape, U)[0], (0.031, 77), U),
                    m.x(shape, U, q=b),
                ],
                wide,
                b,
                options("Concatenation", axis=axis),
                U,
            )
