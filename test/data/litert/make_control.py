#!/usr/bin/env python3
"""Makes control.tflite beside this file, whose operators call other subgraphs: branches, loops and
composites, and what LiteRT's reference kernels compute for it, in the form of make_vectors.py; and
refused_*.tflite, files that are refused.

    make_control.py            needs what make_vectors.py needs
"""
import numpy as np

from make_vectors import B, HERE, SAME, schema
from operator_cases import F, I, Q, T, Cases, options

COUNT = 6


class Control(Cases):
    """A model whose operators name subgraphs, each of which is built by a function."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.subgraphs = []

    def subgraph(self, build):
        """The number of a subgraph; `build` adds its operators and returns inputs and outputs."""
        part = Control.__new__(Control)
        part.name, part.rng, part.subgraphs = (
            f"part_{len(self.subgraphs)}",
            self.rng,
            self.subgraphs,
        )
        part.buffers, part.codes = self.buffers, self.codes
        part.tensors, part.operators, part.inputs, part.data = [], [], [], []
        graph = schema.SubGraphT()
        self.subgraphs.append(graph)
        number = len(self.subgraphs)
        graph.inputs, graph.outputs = build(part)
        graph.tensors, graph.operators, graph.name = part.tensors, part.operators, part.name
        return number

    def call(self, code, operands, results, made):
        """An operator with these options, and one result for each (shape, q, dtype)."""
        self.several(code, operands, results)
        op = self.operators[-1]
        if code == B.STABLEHLO_COMPOSITE:
            op.builtinOptions2 = made
            op.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
        else:
            op.builtinOptions = made
            op.builtinOptionsType = getattr(schema.BuiltinOptions, type(made).__name__[:-1])
        return list(op.outputs)

    def branch(self, condition, operands, results, then, other):
        made = options("If", thenSubgraphIndex=then, elseSubgraphIndex=other)
        return self.call(B.IF, [condition, *operands], results, made)

    def loop(self, operands, results, condition, body):
        made = options("While", condSubgraphIndex=condition, bodySubgraphIndex=body)
        return self.call(B.WHILE, operands, results, made)

    def composite(self, name, operands, results, body):
        made = options("StableHLOComposite", decompositionSubgraphIndex=body)
        made.name, made.compositeAttributes = name, np.zeros(1, np.uint8)
        return self.call(B.STABLEHLO_COMPOSITE, operands, results, made)

    def binary(self, code, a, b, q=None, dtype=F, shape=None):
        made = options(code.title()) if code in ("ADD", "SUB", "MUL") else None
        return self.op(
            getattr(B, code), [a, b], self.shape(a) if shape is None else shape, q, made, dtype
        )

    def total(self, x):
        axes = self.ints(range(len(self.shape(x))))
        return self.op(B.SUM, [x, axes], [], None, options("Reducer", keepDims=False), F)


def arithmetic(code, number, shape, count=1, dtype=F, q=None):
    """A subgraph of `count` tensors, each with a number added or multiplied."""

    def build(m):
        inputs = [m.tensor(shape, q, dtype) for _ in range(count)]
        other = m.constant(np.asarray(number, dtype), q, dtype)
        return inputs, [m.binary(code, x, other, q, dtype) for x in inputs]

    return build


WEIGHT = np.random.default_rng(31).uniform(-1, 1, (5, 5)).astype(F)


def layer(m, _, x):
    weight, bias = m.constant(WEIGHT, None, F), m.constant(np.arange(5) / 8, None, F)
    return m.op(B.FULLY_CONNECTED, [x, weight, bias], [2, 5], None, options("FullyConnected"), F)


def below(limit, others, dtype=I):
    """The condition counter < limit of a loop that carries further tensors (shape, q, dtype)."""

    def build(m):
        counter = m.tensor([], None, dtype)
        rest = [m.tensor(*each) for each in others]
        result = m.op(B.LESS, [counter, m.constant(limit, None, dtype)], [], None, None, T)
        return [counter, *rest], [result]

    return build


def step(shape, make, dtype=F, q=None):
    """The body of a loop of a counter and a tensor, which becomes make(m, counter, x)."""

    def build(m):
        counter, x = m.tensor([], None, I), m.tensor(shape, q, dtype)
        following = m.binary("ADD", counter, m.constant(1, None, I), None, I)
        return [counter, x], [following, make(m, counter, x)]

    return build


def main():
    m = Control("control", 29)
    x, y = m.x((2, 5)), m.x((1, 6, 5, 3))
    code = m.x((3, 4), Q, q=(0.05, 3))
    counter = m.constant(0, None, I)

    # branches: a known condition, a computed one, on codes, several results, one inside of another
    twice = m.subgraph(arithmetic("MUL", 2, (2, 5)))
    less = m.subgraph(arithmetic("SUB", 1, (2, 5)))
    for holds in (True, False):
        m.branch(m.constant(holds, None, T), [x], [((2, 5), None, F)], twice, less)
    sign = m.op(B.GREATER, [m.total(x), m.constant(0, None, F)], [], None, None, T)
    m.branch(sign, [x], [((2, 5), None, F)], twice, less)
    both = [m.subgraph(arithmetic(c, n, (1, 6, 5, 3), 2)) for c, n in (("ADD", 3), ("MUL", -1))]
    y2 = m.binary("MUL", y, y)
    m.branch(sign, [y, y2], [((1, 6, 5, 3), None, F)] * 2, *both)
    q = (0.05, 3)
    codes = [
        m.subgraph(arithmetic(c, n, (3, 4), 1, Q, q)) for c, n in (("MAXIMUM", 9), ("MINIMUM", -9))
    ]
    m.branch(sign, [code], [((3, 4), q, Q)], *codes)

    def nested(n):
        a = n.tensor((2, 5), None, F)
        large = n.op(B.GREATER, [n.total(a), n.constant(2, None, F)], [], None, None, T)
        return [a], n.branch(large, [a], [((2, 5), None, F)], twice, less)

    m.branch(sign, [x], [((2, 5), None, F)], m.subgraph(nested), less)

    # loops: a fixed number of steps of a layer, of a convolution, on codes; no step; a branch on the
    # counter; a loop inside of a loop
    kernel = m.rng.uniform(-0.4, 0.4, (3, 3, 3, 3)).astype(F)

    def convolution(n, _, a):
        w, b = n.constant(kernel, None, F), n.constant(np.zeros(3), None, F)
        made = options("Conv2D", padding=SAME, strideH=1, strideW=1)
        return n.op(B.CONV_2D, [a, w, b], [1, 6, 5, 3], None, made, F)

    def alternating(n, i, a):
        half = n.binary("FLOOR_MOD", i, n.constant(2, None, I), None, I)
        even = n.op(B.EQUAL, [half, n.constant(0, None, I)], [], None, None, T)
        return n.branch(even, [a], [((2, 5), None, F)], twice, less)[0]

    def inner(n, _, a):
        start = n.constant(0, None, I)
        made = [((), None, I), ((2, 5), None, F)]
        return n.loop(
            [start, a], made, m.subgraph(below(3, made[1:])), m.subgraph(step((2, 5), layer))
        )[1]

    def smaller(n, _, a):
        return n.binary("MAXIMUM", a, n.constant(5, q, Q), q, Q)

    for limit, shape, make, start in (
        (COUNT, (2, 5), layer, x),
        (2, (1, 6, 5, 3), convolution, y),
        (0, (2, 5), layer, x),
        (5, (2, 5), alternating, x),
        (2, (2, 5), inner, x),
    ):
        made = [((), None, I), (shape, None, F)]
        m.loop(
            [counter, start],
            made,
            m.subgraph(below(limit, made[1:])),
            m.subgraph(step(shape, make)),
        )
    made = [((), None, I), ((3, 4), q, Q)]
    m.loop(
        [counter, code],
        made,
        m.subgraph(below(3, made[1:])),
        m.subgraph(step((3, 4), smaller, Q, q)),
    )

    # a composite with weights among its operands
    def norm(n):
        a, gain = n.tensor((2, 5), None, F), n.tensor((5,), None, F)
        square = n.binary("MUL", a, a)
        mean = n.op(
            B.MEAN, [square, n.ints([1])], [2, 1], None, options("Reducer", keepDims=True), F
        )
        scale = n.op(
            B.RSQRT, [n.binary("ADD", mean, n.constant(1e-5, None, F))], [2, 1], None, None, F
        )
        return [a, gain], [n.binary("MUL", n.binary("MUL", a, scale), gain)]

    gain = m.constant(np.linspace(0.5, 1.5, 5), None, F)
    m.composite("odml.rms_norm", [x, gain], [((2, 5), None, F)], m.subgraph(norm))
    m.write_to(HERE / "control.tflite", subgraphs=m.subgraphs)

    refused(
        "steps", lambda m, x, i: (m.subgraph(below(6, [x])), m.subgraph(step((2, 5), layer)), i)
    )
    refused("endless", lambda m, x, i: (m.subgraph(always), m.subgraph(step((2, 5), layer)), None))
    refused("itself", lambda m, x, i: (m.subgraph(below(3, [x])), m.subgraph(calls_itself), None))
    refused("number", lambda m, x, i: (m.subgraph(below(3, [x])), 7, None))
    refused("shape", lambda m, x, i: (m.subgraph(below(3, [x])), m.subgraph(drops_one), None))


def always(m):
    return [m.tensor([], None, I), m.tensor((2, 5), None, F)], [m.constant(True, None, T)]


def calls_itself(m):
    inputs = [m.tensor([], None, I), m.tensor((2, 5), None, F)]
    own = len(m.subgraphs)
    made = [((), None, I), ((2, 5), None, F)]
    return inputs, m.loop(inputs, made, own - 1, own)


def drops_one(m):
    return [m.tensor([], None, I), m.tensor((2, 5), None, F)], [m.constant(1, None, I)]


def refused(name, parts):
    """A loop over a tensor with the condition, body and counter (None: zero) that `parts` makes."""
    m = Control(f"refused_{name}", 1)
    x, i = m.x((2, 5)), m.x((), I)
    condition, body, counter = parts(m, ((2, 5), None, F), i)
    counter = m.constant(0, None, I) if counter is None else counter
    m.loop([counter, x], [((), None, I), ((2, 5), None, F)], condition, body)
    m.write_to(HERE / f"{m.name}.tflite", subgraphs=m.subgraphs, evaluated=False)


if __name__ == "__main__":
    main()
