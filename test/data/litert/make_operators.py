#!/usr/bin/env python3
"""Makes operators_*.tflite and concatenated.tflite beside this file: operators over drawn shapes, and what LiteRT's reference
kernels compute for them, in the form of make_vectors.py.

    make_operators.py [--part 0.1] [--seed N] [--folder FOLDER] [--only NAME] [--refused]

needs what make_vectors.py needs. Every case is one operator over its own inputs. LiteRT decides
which cases exist: those that it refuses alone are left out (--refused prints them). What is
committed is a part of 0.1. Another seed, folder and part give other cases, to be judged by
DEUTERON_LITERT_CASES=FOLDER build/release/test/unit/test_tflite.
"""
import argparse
import os
import sys
from pathlib import Path

import numpy as np

from make_vectors import B, HERE, RELU, RELU6, SAME, TYPES, VALID
from operator_cases import (
    F,
    I,
    L,
    PAIRS,
    Q,
    SHAPES,
    T,
    U,
    Cases,
    broadcast,
    concatenated,
    options,
    quantized,
)
from stablehlo_cases import stablehlo


def elementwise():
    """Operators of one and two operands, of floats, integers and bools."""
    for dtype in (F, I, L):
        for a, b in PAIRS:
            for code in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
                yield f"{code} {dtype.__name__}", lambda m, code=code, a=a, b=b, d=dtype: m.op(
                    getattr(B, code), [m.x(a, d), m.x(b, d)], broadcast(a, b), None, dtype=T
                )
            for code in "ADD SUB MUL MAXIMUM MINIMUM SQUARED_DIFFERENCE FLOOR_MOD".split():
                low = 1 if code == "FLOOR_MOD" else -3
                yield f"{code} {dtype.__name__}", lambda m, code=code, a=a, b=b, d=dtype, low=low: m.op(
                    getattr(B, code),
                    [m.x(a, d, -9, 9), m.x(b, d, low)],
                    broadcast(a, b),
                    None,
                    options(code.title()) if code in ("ADD", "SUB", "MUL") else None,
                    dtype=d,
                )
            for code in ("DIV", "FLOOR_DIV"):
                yield f"{code} {dtype.__name__}", lambda m, code=code, a=a, b=b, d=dtype: m.op(
                    getattr(B, code),
                    [m.x(a, d, -9, 9), m.x(b, d, 1)],
                    broadcast(a, b),
                    None,
                    options("Div") if code == "DIV" else None,
                    dtype=d,
                )
    for a, b in PAIRS:
        yield "DIV relu", lambda m, a=a, b=b: m.op(
            B.DIV,
            [m.x(a), m.x(b, low=1)],
            broadcast(a, b),
            None,
            options("Div", fusedActivationFunction=RELU6),
            dtype=F,
        )
        for code in ("LOGICAL_AND", "LOGICAL_OR", "EQUAL", "NOT_EQUAL"):
            yield f"{code} bool", lambda m, code=code, a=a, b=b: m.op(
                getattr(B, code), [m.x(a, T), m.x(b, T)], broadcast(a, b), None, dtype=T
            )
        yield "POW float", lambda m, a=a, b=b: m.op(
            B.POW, [m.x(a, low=0.25), m.x(b)], broadcast(a, b), None, options("Pow"), F
        )
        yield "POW int", lambda m, a=a, b=b: m.op(
            B.POW, [m.x(a, I), m.x(b, I, 0)], broadcast(a, b), None, options("Pow"), I
        )
        yield "ATAN2", lambda m, a=a, b=b: m.op(B.ATAN2, [m.x(a), m.x(a)], list(a), None, None, F)
        for dtype in (F, I, L, T):
            yield f"SELECT_V2 {dtype.__name__}", lambda m, a=a, b=b, d=dtype: m.op(
                B.SELECT_V2,
                [m.x(b, T), m.x(a, d), m.x((), d)],
                broadcast(a, b),
                None,
                options("SelectV2"),
                d,
            )
    for shape in SHAPES:
        for code in "NEG SQUARE SIN COS FLOOR CEIL ROUND SIGN ABS EXP LOG SQRT RSQRT RELU".split():
            low = 0.25 if code in ("LOG", "SQRT", "RSQRT") else -3
            yield f"{code} float", lambda m, code=code, s=shape, low=low: m.op(
                getattr(B, code), [m.x(s, low=low)], list(s), None, None, F
            )
        for code in ("NEG", "SQUARE", "ABS", "SIGN"):
            for dtype in (I, L):
                yield f"{code} {dtype.__name__}", lambda m, code=code, s=shape, d=dtype: m.op(
                    getattr(B, code), [m.x(s, d, -99, 99)], list(s), None, None, d
                )
        yield "LOGICAL_NOT", lambda m, s=shape: m.op(
            B.LOGICAL_NOT, [m.x(s, T)], list(s), None, None, T
        )
        for exponent in (2, 3, 0.5, 1):
            yield "POW constant", lambda m, s=shape, e=exponent: m.op(
                B.POW,
                [m.x(s, low=0.25), m.constant(F(e), None, F)],
                list(s),
                None,
                options("Pow"),
                F,
            )
        for exponent in (1, 2, 3):
            yield "POW constant int", lambda m, s=shape, e=exponent: m.op(
                B.POW, [m.x(s, I), m.ints(e)], list(s), None, options("Pow"), I
            )
        for a in (F, I, L, T, U):
            for b in (F, I, L, T):
                if a is not b:
                    yield f"CAST {a.__name__} {b.__name__}", lambda m, s=shape, a=a, b=b: m.op(
                        B.CAST,
                        [m.x(s, a)],
                        list(s),
                        None,
                        options(
                            "Cast", inDataType=TYPES[np.dtype(a)], outDataType=TYPES[np.dtype(b)]
                        ),
                        b,
                    )
        yield "ADD_N", lambda m, s=shape: m.op(
            B.ADD_N, [m.x(s), m.x(s), m.x(s)], list(s), None, options("AddN"), F
        )
        for dtype in (F, I):
            for rows in (True, False):
                yield "SELECT", lambda m, s=shape, d=dtype, rows=rows: m.op(
                    B.SELECT,
                    [m.x(s[:1] if rows else s, T), m.x(s, d), m.x(s, d)],
                    list(s),
                    None,
                    options("Select"),
                    d,
                )
        yield "BITWISE_XOR", lambda m, s=shape: m.op(
            B.BITWISE_XOR, [m.x(s, I, -99, 99), m.x(s, I, -99, 99)], list(s), None, None, I
        )
        yield "FAKE_QUANT", lambda m, s=shape: m.op(
            B.FAKE_QUANT,
            [m.x(s)],
            list(s),
            None,
            options("FakeQuant", min=-1.5, max=2.25, numBits=8),
            F,
        )
        yield "BUCKETIZE", lambda m, s=shape: m.op(
            B.BUCKETIZE,
            [m.x(s)],
            list(s),
            None,
            options("Bucketize", boundaries=[-1.0, 0.0, 2.0]),
            I,
        )
        yield "LOG_SOFTMAX", lambda m, s=shape: m.op(
            B.LOG_SOFTMAX, [m.x(s)], list(s), None, options("LogSoftmax"), F
        )
        yield "SOFTMAX beta", lambda m, s=shape: m.op(
            B.SOFTMAX, [m.x(s)], list(s), None, options("Softmax", beta=0.5), F
        )
        yield "PRELU", lambda m, s=shape: m.op(
            B.PRELU,
            [m.x(s), m.constant(m.rng.uniform(0, 1, s[-1:]), None, F)],
            list(s),
            None,
            None,
            F,
        )


def reduced(shape, axes, keep):
    axes = [a % len(shape) for a in axes]
    return [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]


def structural():
    """Constants of shapes, elements by index, reductions, slices."""
    for s in [(2, 3, 5, 4), (7, 3), (5,), (2, 3, 4), (2, 1, 3, 2, 2)]:
        r = len(s)
        axes = [[-1], [0], [r - 1, 0]] + ([[1, 2], [1], [2]] if r > 2 else [])
        for axis in axes:
            for keep in (False, True):
                for code, dtypes in {
                    "SUM": (F, I, L),
                    "MEAN": (F, I, L),
                    "REDUCE_PROD": (F, I),
                    "REDUCE_MAX": (F, I, L),
                    "REDUCE_MIN": (F, I),
                    "REDUCE_ANY": (T,),
                    "REDUCE_ALL": (T,),
                }.items():
                    for d in dtypes:
                        yield f"{code} {d.__name__}", lambda m, code=code, s=s, axis=axis, keep=keep, d=d: m.op(
                            getattr(B, code),
                            [m.x(s, d), m.ints(axis)],
                            reduced(s, axis, keep),
                            None,
                            options("Reducer", keepDims=keep),
                            d,
                        )
        for axis in range(-1, r):
            for d in (F, I, L):
                for exclusive in (False, True):
                    for reverse in (False, True):
                        yield f"CUMSUM {d.__name__}", lambda m, s=s, axis=axis, d=d, e=exclusive, b=reverse: m.op(
                            B.CUMSUM,
                            [m.x(s, d), m.ints(axis)],
                            list(s),
                            None,
                            options("Cumsum", exclusive=e, reverse=b),
                            d,
                        )
            yield "REVERSE_V2", lambda m, s=s, axis=axis: m.op(
                B.REVERSE_V2,
                [m.x(s, I), m.ints([axis % r])],
                list(s),
                None,
                options("ReverseV2"),
                I,
            )
            for d in (F, I):
                for of_index in [(3,), (2, 2), ()]:
                    at = axis % r
                    yield "GATHER", lambda m, s=s, at=at, o=of_index, d=d: m.op(
                        B.GATHER,
                        [m.x(s, d), m.x(o, I, 0, s[at] - 1)],
                        [*s[:at], *o, *s[at + 1 :]],
                        None,
                        options("Gather", axis=at),
                        d,
                    )
                if at > 0:
                    yield "GATHER batch", lambda m, s=s, at=at, d=d: m.op(
                        B.GATHER,
                        [m.x(s, d), m.x((s[0], 3), I, 0, s[at] - 1)],
                        [*s[:at], 3, *s[at + 1 :]],
                        None,
                        options("Gather", axis=at, batchDims=1),
                        d,
                    )
        for depth in range(1, r + 1):
            lows = np.zeros(depth), np.array(s[:depth])

            def gather_nd(m, s=s, depth=depth):
                index = np.stack([m.rng.integers(0, n, (2, 3)) for n in s[:depth]], axis=-1).astype(
                    I
                )
                return m.op(
                    B.GATHER_ND,
                    [m.x(s), m.input(index, None, I)],
                    [3, *s[depth:]],
                    None,
                    options("GatherNd"),
                    F,
                )

            yield "GATHER_ND", gather_nd

            def scatter_nd(m, s=s, depth=depth):
                rows = int(np.prod(s[:depth]))
                places = m.rng.permutation(rows)[: max(1, rows // 2)]
                index = np.stack(np.unravel_index(places, s[:depth]), -1)
                return m.op(
                    B.SCATTER_ND,
                    [m.ints(index), m.x((len(places), *s[depth:])), m.ints(s)],
                    list(s),
                    None,
                    options("ScatterNd"),
                    F,
                )

            yield "SCATTER_ND", scatter_nd
        for d in (I, L):
            yield "SHAPE", lambda m, s=s, d=d: m.op(
                B.SHAPE, [m.x(s)], [r], None, options("Shape", outType=TYPES[np.dtype(d)]), d
            )
        yield "RANK", lambda m, s=s: m.op(B.RANK, [m.x(s)], [], None, options("Rank"), I)
        for d in (F, I):
            yield "ZEROS_LIKE", lambda m, s=s, d=d: m.op(
                B.ZEROS_LIKE, [m.x(s, d)], list(s), None, options("ZerosLike"), d
            )
            yield "FILL", lambda m, s=s, d=d: m.op(
                B.FILL,
                [m.ints(s), m.constant(np.asarray(3, d), None, d)],
                list(s),
                None,
                options("Fill"),
                d,
            )
            yield "FILL computed", lambda m, s=s, d=d: m.op(
                B.FILL, [m.ints(s), m.x((), d)], list(s), None, options("Fill"), d
            )
            yield "BROADCAST_TO", lambda m, s=s, d=d: m.op(
                B.BROADCAST_TO,
                [m.x(s[-1:], d), m.ints(s)],
                list(s),
                None,
                options("BroadcastTo"),
                d,
            )
            yield "TILE", lambda m, s=s, d=d: m.op(
                B.TILE,
                [m.x(s, d), m.ints([2, 1, 3, 1, 2][:r])],
                [n * k for n, k in zip(s, [2, 1, 3, 1, 2])],
                None,
                options("Tile"),
                d,
            )
        for axis in (-1, 0, r - 1):
            at = axis if axis >= 0 else r

            def one_hot(m, s=s, axis=axis, at=at, d=F):
                return m.op(
                    B.ONE_HOT,
                    [
                        m.x(s, I, -1, 5),
                        m.ints(4),
                        m.constant(d(2), None, d),
                        m.constant(d(-1), None, d),
                    ],
                    [*s[:at], 4, *s[at:]],
                    None,
                    options("OneHot", axis=axis),
                    d,
                )

            yield "ONE_HOT", one_hot
        for k in (1, min(3, s[-1])):
            for d in (F, I):
                yield f"TOPK_V2 {d.__name__}", lambda m, s=s, k=k, d=d: m.several(
                    B.TOPK_V2,
                    [m.x(s, d), m.ints(k)],
                    [([*s[:-1], k], None, d), ([*s[:-1], k], None, I)],
                    options("TopKV2"),
                )
        yield "L2_NORMALIZATION", lambda m, s=s: m.op(
            B.L2_NORMALIZATION, [m.x(s)], list(s), None, options("L2Norm"), F
        )
        yield "DYNAMIC_UPDATE_SLICE", lambda m, s=s: m.op(
            B.DYNAMIC_UPDATE_SLICE,
            [m.x(s), m.x([max(1, n - 1) for n in s]), m.ints([1] * r)],
            list(s),
            None,
            options("DynamicUpdateSlice"),
            F,
        )
        if r > 1:
            yield "REVERSE_SEQUENCE", lambda m, s=s: m.op(
                B.REVERSE_SEQUENCE,
                [m.x(s), m.x((s[0],), I, 1, s[1])],
                list(s),
                None,
                options("ReverseSequence", seqDim=1, batchDim=0),
                F,
            )
            yield "MATRIX_SET_DIAG", lambda m, s=s: m.op(
                B.MATRIX_SET_DIAG,
                [m.x(s), m.x([*s[:-2], min(s[-2:])])],
                list(s),
                None,
                options("MatrixSetDiag"),
                F,
            )
        if r < 4:
            yield "MATRIX_DIAG", lambda m, s=s: m.op(
                B.MATRIX_DIAG, [m.x(s)], [*s, s[-1]], None, options("MatrixDiag"), F
            )
        if r == 4:
            # The reference kernel leaves the last channel of a window out, TensorFlow and the
            # optimized kernel do not; a window over all channels is the same for all.
            yield "LOCAL_RESPONSE_NORMALIZATION", lambda m, s=s: m.op(
                B.LOCAL_RESPONSE_NORMALIZATION,
                [m.x(s)],
                list(s),
                None,
                options("LocalResponseNormalization", radius=5, bias=1.5, alpha=0.3, beta=0.75),
                F,
            )
            for padding in (SAME, VALID):
                for stride in ((1, 1, 1), (2, 1, 2)):

                    def conv_3d(m, padding=padding, stride=stride):
                        shape, kernel = (1, 4, 5, 6, 2), (2, 3, 2)
                        out = [
                            -(-n // s) if padding == SAME else (n - k) // s + 1
                            for n, k, s in zip(shape[1:4], kernel, stride)
                        ]
                        weight = m.rng.uniform(-1, 1, (*kernel, 2, 3))
                        return m.op(
                            B.CONV_3D,
                            [
                                m.x(shape),
                                m.constant(weight, None, F),
                                m.constant([1, 2, 3], None, F),
                            ],
                            [1, *out, 3],
                            None,
                            options(
                                "Conv3D",
                                padding=padding,
                                strideD=stride[0],
                                strideH=stride[1],
                                strideW=stride[2],
                                fusedActivationFunction=RELU,
                            ),
                            F,
                        )

                    yield "CONV_3D", conv_3d
    for d, first, last, step in (
        (I, 2, 11, 3),
        (I, 5, -4, -2),
        (F, 0, 1, 0.125),
        (F, 3, 0.5, -0.7),
    ):
        yield "RANGE", lambda m, d=d, a=first, b=last, c=step: m.op(
            B.RANGE,
            [m.constant(np.asarray(v, d), None, d) for v in (a, b, c)],
            [len(np.arange(a, b, c))],
            None,
            options("Range"),
            d,
        )
    yield "BROADCAST_ARGS", lambda m: m.op(
        B.BROADCAST_ARGS, [m.ints([3, 1, 5]), m.ints([4, 1])], [3], None, None, I
    )
    for ids, count in (([0, 0, 1, 3], 4), ([2, 0, 2, 2], 5)):
        for dtype in (F, I):
            for row in ((), (3,), (2, 3)):
                if ids == sorted(ids):
                    yield "SEGMENT_SUM", lambda m, i=ids, n=count, d=dtype, r=row: m.op(
                        B.SEGMENT_SUM,
                        [m.x((4, *r), d), m.ints(i)],
                        [n, *r],
                        None,
                        options("SegmentSum"),
                        d,
                    )
                yield "UNSORTED_SEGMENT_SUM", lambda m, i=ids, n=count, d=dtype, r=row: m.op(
                    B.UNSORTED_SEGMENT_SUM,
                    [m.x((4, *r), d), m.ints(i), m.ints(n)],
                    [n, *r],
                    None,
                    options("UnsortedSegmentSum"),
                    d,
                )
    for index, shape in (([1, 4, 2], [6]), ([[0, 1], [1, 0], [2, 2]], [3, 4])):
        for value in ((), (3,)):
            for dtype in (F, I):
                yield "SPARSE_TO_DENSE", lambda m, i=index, s=shape, v=value, d=dtype: m.op(
                    B.SPARSE_TO_DENSE,
                    [m.ints(i), m.ints(s), m.x(v, d), m.constant(np.asarray(2, d), None, d)],
                    s,
                    None,
                    options("SparseToDense"),
                    d,
                )
    for padding in (VALID, SAME):
        yield "L2_POOL_2D", lambda m, p=padding: m.op(
            B.L2_POOL_2D,
            [m.x((2, 7, 5, 3))],
            [2, 3, 2, 3] if p == VALID else [2, 4, 3, 3],
            None,
            options("Pool2D", padding=p, strideH=2, strideW=2, filterHeight=3, filterWidth=2),
            F,
        )
    yield "SCATTER_ND twice", lambda m: m.op(
        B.SCATTER_ND,
        [m.ints([[1], [3], [1]]), m.x((3, 2)), m.ints([4, 2])],
        [4, 2],
        None,
        options("ScatterNd"),
        F,
    )
    yield "SCATTER_ND computed", lambda m: m.op(
        B.SCATTER_ND,
        [m.x((3, 2), I, 0, 2), m.x((3, 5)), m.ints([3, 3, 5])],
        [3, 3, 5],
        None,
        options("ScatterNd"),
        F,
    )
    yield "EMBEDDING_LOOKUP", lambda m: m.op(
        B.EMBEDDING_LOOKUP,
        [m.x((3,), I, 0, 6), m.constant(m.rng.uniform(-1, 1, (7, 5)), None, F)],
        [3, 5],
        None,
        None,
        F,
    )
    masks = [
        dict(),
        dict(beginMask=5, endMask=2),
        dict(ellipsisMask=2),
        dict(newAxisMask=1),
        dict(newAxisMask=2, shrinkAxisMask=1),
        dict(ellipsisMask=1, shrinkAxisMask=4),
        dict(ellipsisMask=2, newAxisMask=4, beginMask=1),
        dict(shrinkAxisMask=3),
    ]
    for s in [(5, 4, 6), (2, 3, 5, 4), (3, 2, 4, 2)]:
        for mask in masks:
            for step in ([1, 1, 1], [2, 1, 1], [1, 2, 3]):

                def strided_slice(m, s=s, mask=mask, step=step):
                    begin, end = [0, 1, 1], [2, 2, 4]
                    entries, bit = [], lambda name, i: mask.get(name, 0) >> i & 1
                    for i in range(3):
                        if bit("ellipsisMask", i):
                            entries.append(Ellipsis)
                        elif bit("newAxisMask", i):
                            entries.append(None)
                        elif bit("shrinkAxisMask", i):
                            entries.append(begin[i])
                        else:
                            entries.append(
                                slice(
                                    None if bit("beginMask", i) else begin[i],
                                    None if bit("endMask", i) else end[i],
                                    step[i],
                                )
                            )
                    return m.op(
                        B.STRIDED_SLICE,
                        [m.x(s), m.ints(begin), m.ints(end), m.ints(step)],
                        list(np.zeros(s)[tuple(entries)].shape),
                        None,
                        options("StridedSlice", **mask),
                        F,
                    )

                yield f"STRIDED_SLICE {mask}", strided_slice
    for d in (I, L, T):
        for s, around in (
            ((2, 3, 4, 2), [[0, 1], [2, 0], [1, 1], [0, 0]]),
            ((3, 2), [[0, 2], [1, 0]]),
            ((4,), [[3, 1]]),
        ):
            to = [n + sum(each) for n, each in zip(s, around)]
            yield f"PAD {d.__name__}", lambda m, s=s, around=around, to=to, d=d: m.op(
                B.PAD, [m.x(s, d), m.ints(around)], to, None, options("Pad"), d
            )
            yield f"PADV2 {d.__name__}", lambda m, s=s, around=around, to=to, d=d: m.op(
                B.PADV2,
                [m.x(s, d), m.ints(around), m.constant([1], None, d)],
                to,
                None,
                options("PadV2"),
                d,
            )


def special():
    """Spectra, volumes, spread elements and segments."""
    C = np.complex64
    for shape, points in (
        ((3, 8), (1, 8)),
        ((1, 8), (1, 16)),
        ((5, 7), (4, 4)),
        ((2, 3, 6), (4, 8)),
        ((2, 3, 5, 8), (8, 4)),
        ((1, 12), (1, 2)),
    ):
        halved = [*shape[:-2], points[0], points[1] // 2 + 1]

        def spectrum(m, shape=shape, points=points, halved=halved):
            made = m.op(B.RFFT2D, [m.x(shape), m.ints(points)], halved, None, options("Rfft2d"), C)
            m.op(B.REAL, [made], halved, None, None, F)
            m.op(B.IMAG, [made], halved, None, None, F)
            m.op(B.COMPLEX_ABS, [made], halved, None, None, F)
            flat = [int(np.prod(halved))]
            view = m.op(B.RESHAPE, [made, m.ints(flat)], flat, None, options("Reshape"), C)
            m.op(B.COMPLEX_ABS, [view], flat, None, None, F)

        yield f"RFFT2D {len(shape)}", spectrum
    for padding in (SAME, VALID):
        for stride in ((1, 1, 1), (2, 1, 2), (3, 3, 2)):
            for more in (0, 1):
                for bias in (False, True):

                    def conv_3d_transpose(m, padding=padding, stride=stride, more=more, bias=bias):
                        shape, kernel = (1, 3, 4, 2, 3), (2, 3, 2)
                        out = [
                            n * s if padding == SAME else (n - 1) * s + k + more
                            for n, k, s in zip(shape[1:4], kernel, stride)
                        ]
                        weight = m.rng.uniform(-1, 1, (*kernel, 2, 3))
                        operands = [m.ints([1, *out, 2]), m.constant(weight, None, F), m.x(shape)]
                        if bias:
                            operands.append(m.constant([1, -2], None, F))
                        return m.op(
                            B.CONV_3D_TRANSPOSE,
                            operands,
                            [1, *out, 2],
                            None,
                            options(
                                "Conv3D",
                                padding=padding,
                                strideD=stride[0],
                                strideH=stride[1],
                                strideW=stride[2],
                            ),
                            F,
                        )

                    yield f"CONV_3D_TRANSPOSE {padding} {more}", conv_3d_transpose
    for s in SHAPES:
        for steps in ([2, 1, 3, 2], [1, 4, 1, 1]):
            for dtype in (F, I):
                made = [(n - 1) * d + 1 for n, d in zip(s, steps)]
                yield f"DILATE {dtype.__name__}", lambda m, s=s, steps=steps, d=dtype, made=made: m.op(
                    B.DILATE,
                    [m.x(s, d), m.ints(steps[: len(s)]), m.constant(d(-1), None, d)],
                    made,
                    None,
                    None,
                    d,
                )
    for code in ("MAX", "MIN", "PROD"):
        for ids, count in (([0, 0, 1, 3], 4), ([2, 0, 2, 2], 5)):
            for dtype in (F, I):
                for row in ((), (3,), (2, 3), (2, 3, 2)):
                    yield f"UNSORTED_SEGMENT_{code} {dtype.__name__}", lambda m, c=code, ids=ids, n=count, d=dtype, row=row: m.op(
                        getattr(B, f"UNSORTED_SEGMENT_{c}"),
                        [m.x((4, *row), d), m.ints(ids), m.ints(n)],
                        [n, *row],
                        None,
                        None,
                        d,
                    )
                yield f"UNSORTED_SEGMENT_{code} computed", lambda m, c=code, d=dtype: m.op(
                    getattr(B, f"UNSORTED_SEGMENT_{c}"),
                    [m.x((4, 3), d), m.x((4,), I, 0, 2), m.ints(3)],
                    [3, 3],
                    None,
                    None,
                    d,
                )


GROUPS = {
    "operators_special": special,
    "operators_numbers": elementwise,
    "operators_structure": structural,
    "operators_int8": lambda: quantized(Q),
    "operators_uint8": lambda: quantized(U),
    "operators_stablehlo": stablehlo,
    "concatenated": concatenated,
}


def accepted(case, seed, folder):
    """Why LiteRT refuses a case, in a process of its own, because some end it; None if it does not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        reason = ""
        try:
            model = Cases("case", seed)
            case(model)
            model.write_to(folder / f"case_{os.getpid()}.tflite")
        except (RuntimeError, ValueError) as error:
            reason = str(error).split("\n")[0][:120] or "refused"
        os.write(writer, reason.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        reason = pipe.read()
    _, status = os.waitpid(child, 0)
    for suffix in (".tflite", ".npz"):
        (folder / f"case_{child}{suffix}").unlink(missing_ok=True)
    return "it ends LiteRT's process" if status != 0 else reason or None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--only", default="")
    parser.add_argument("--refused", action="store_true")
    parser.add_argument(
        "--part",
        type=float,
        default=1,
        help="of the cases, drawn by the seed; the first of each kind is always there",
    )
    args = parser.parse_args()
    for name, cases in GROUPS.items():
        if args.only not in name:
            continue
        model = Cases(name, args.seed)
        kept, left_out, seen = 0, {}, set()
        for i, (title, case) in enumerate(cases()):
            if title in seen and np.random.default_rng((args.seed, i)).uniform() > args.part:
                continue
            reason = accepted(case, args.seed + i, args.folder)
            if reason is None:
                case(model)
                seen.add(title)
                kept += 1
            else:
                left_out.setdefault(title, reason)
        model.write_to(args.folder / f"{name}.tflite")
        print(f"{name}: {kept} cases, {len(left_out)} kinds refused by LiteRT")
        if args.refused:
            for title, reason in left_out.items():
                print(f"  {title}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
