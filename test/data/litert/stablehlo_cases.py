"""Cases of make_operators.py: operators of StableHLO, and those of windows and bits beside them."""
import numpy as np

from make_vectors import B, schema
from operator_cases import SHAPES, F, I, L, T, options


def stablehlo():
    """Operators of StableHLO, and those of windows and bits that came with them."""
    for shape in SHAPES:
        for code in ("ADD", "MAXIMUM", "MINIMUM", "MULTIPLY"):
            for dtype in (F, I, L):
                yield f"STABLEHLO_{code} {dtype.__name__}", lambda m, c=code, s=shape, d=dtype: m.op(
                    getattr(B, f"STABLEHLO_{c}"),
                    [m.x(s, d, -9, 9), m.x(s, d, -9, 9)],
                    list(s),
                    None,
                    None,
                    d,
                )
    made = [((2, 3, 5, 4), (1, 0, -1, 2), (0, 2, 1, -1), (0, 1, 2, 0))]
    made += [
        ((7, 3), (0, 2), (1, 0), (2, 0)),
        ((5,), (-2,), (3,), (1,)),
        ((2, 2, 3), (0,) * 3, (0,) * 3, (0,) * 3),
    ]
    for s, low, high, between in made:
        to = [(n - 1) * (k + 1) + 1 + a + b for n, a, b, k in zip(s, low, high, between)]
        for dtype in (F, I, L):
            yield f"STABLEHLO_PAD {dtype.__name__}", lambda m, s=s, l=low, h=high, k=between, to=to, d=dtype: m.op2(
                B.STABLEHLO_PAD,
                [m.x(s, d, -9, 9), m.constant(d(4), None, d)],
                to,
                options("StablehloPad", edgePaddingLow=l, edgePaddingHigh=h, interiorPadding=k),
                d,
            )
    yield from windows()
    yield from places()
    for shape in SHAPES:
        for places_ in (0, 1, 5):
            yield "RIGHT_SHIFT", lambda m, s=shape, p=places_: m.op(
                B.RIGHT_SHIFT,
                [m.x(s, I, -99, 99), m.constant(np.full(s, p), None, I)],
                list(s),
                None,
                None,
                I,
            )


def extent(n, size, stride, dilation):
    return (n - (size - 1) * dilation - 1) // stride + 1


def windows():
    """Windows whose elements are combined."""
    made = [((2, 3, 9, 8), (1, 2, 3, 2), (1, 1, 2, 3), (1, 1, 2, 1))]
    made += [((7, 5), (3, 1), (2, 1), (1, 1)), ((9,), (2,), (1,), (3,))]
    R = schema.ReduceWindowFunction
    for s, size, stride, dilation in made:
        to = [extent(*n) for n in zip(s, size, stride, dilation)]
        for kind in ("ADD", "MUL", "MINIMUM", "MAXIMUM"):
            for dtype in (F, I):
                yield f"REDUCE_WINDOW {kind} {dtype.__name__}", lambda m, s=s, w=(
                    size,
                    stride,
                    dilation,
                ), to=to, k=kind, d=dtype: m.op2(
                    B.REDUCE_WINDOW,
                    [m.x(s, d), m.constant(d(2), None, d), *(m.ints(v, L) for v in w)],
                    to,
                    options("ReduceWindow", reduceFunction=getattr(R, k)),
                    d,
                )
        for kind in ("ALL", "ANY"):
            yield f"REDUCE_WINDOW {kind}", lambda m, s=s, w=(
                size,
                stride,
                dilation,
            ), to=to, k=kind: m.op2(
                B.REDUCE_WINDOW,
                [m.x(s, T), m.constant(k == "ALL", None, T), *(m.ints(v, L) for v in w)],
                to,
                options("ReduceWindow", reduceFunction=getattr(R, k)),
                T,
            )
        for code in ("ADD", "MULTIPLY", "MINIMUM", "MAXIMUM"):
            for around, spread in ((0, 1), (1, 2)):
                wide = [(n - 1) * spread + 1 + 2 * around - (d == 0) for d, n in enumerate(s)]
                to = [extent(*n) for n in zip(wide, size, stride, dilation)]
                padding = [around - (i == 1) for i in range(2 * len(s))]
                for dtype in (F, I):
                    yield f"STABLEHLO_REDUCE_WINDOW {code} {dtype.__name__}", lambda m, s=s, w=(
                        size,
                        stride,
                        dilation,
                    ), to=to, c=code, p=padding, b=spread, d=dtype: m.op2(
                        B.STABLEHLO_REDUCE_WINDOW,
                        [m.x(s, d), m.constant(d(1 if c == "MULTIPLY" else 0), None, d)],
                        to,
                        options(
                            "StablehloReduceWindow",
                            windowDimensions=w[0],
                            windowStrides=w[1],
                            windowDilations=w[2],
                            baseDilations=[b] * len(s),
                            padding=p,
                            bodySubgraphIndex=m.combination(getattr(B, f"STABLEHLO_{c}"), d),
                        ),
                        d,
                    )


def places():
    """Slices that are taken and put where indices say."""
    # operand, indices, offset dimensions, collapsed ones, those that indices count, sizes, result
    made = [
        ((5, 4, 3), (6, 1), [1, 2], [0], [0], [1, 4, 3], (6, 4, 3)),
        ((5, 4, 3), (2, 3, 2), [2], [0, 1], [0, 1], [1, 1, 3], (2, 3, 3)),
        ((5, 4, 3), (6, 2), [1, 2, 3], [], [2, 0], [2, 3, 1], (6, 2, 3, 1)),
        ((5, 4, 3, 2), (4, 2), [0, 2, 3], [1], [1, 2], [5, 1, 2, 2], (5, 4, 2, 2)),
    ]
    for s, of, offsets, collapsed, starts, sizes, to in made:
        for dtype in (F, I):
            for index in (I, L):
                yield f"STABLEHLO_GATHER {dtype.__name__} {offsets}", lambda m, s=s, of=of, o=offsets, c=collapsed, k=starts, z=sizes, to=to, d=dtype, i=index: m.op2(
                    B.STABLEHLO_GATHER,
                    [m.x(s, d), m.x(of, i, -1, 5)],
                    list(to),
                    options(
                        "StablehloGather",
                        offsetDims=o,
                        collapsedSliceDims=c,
                        startIndexMap=k,
                        indexVectorDim=len(of) - 1,
                        sliceSizes=z,
                    ),
                    d,
                )
    # operand, indices, updates, window dimensions of them, inserted ones, those that indices count
    made = [
        ((5, 4, 3), (4, 1), (4, 4, 3), [1, 2], [0], [0]),
        ((5, 4, 3), (2, 2), (2, 3), [1], [0, 1], [0, 1]),
        ((5, 4, 3), (3, 2), (2, 3, 2, 1), [0, 2, 3], [], [2, 0]),
    ]
    for s, of, updates, windows_, inserted, starts in made:
        for code in (B.STABLEHLO_ADD, None):
            for dtype in (F, I):
                yield f"STABLEHLO_SCATTER {code} {dtype.__name__} {starts}", lambda m, s=s, of=of, u=updates, w=windows_, n=inserted, k=starts, c=code, d=dtype: m.op2(
                    B.STABLEHLO_SCATTER,
                    [m.x(s, d), m.x(of, I, -1, 4), m.x(u, d)],
                    list(s),
                    options(
                        "StablehloScatter",
                        updateWindowDims=w,
                        insertedWindowDims=n,
                        scatterDimsToOperandDims=k,
                        indexVectorDim=len(of) - 1,
                        updateComputationSubgraphIndex=m.combination(c, d),
                    ),
                    d,
                )
