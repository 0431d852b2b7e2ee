"""Drawn cases of operators that read images at computed places, keep the places of what they take, or
compute spectra (make_cases.py)."""
import coded_cases
import numpy as np
from drawn_model import MICROSOFT, F, I, L, Q, T, U, case


@case("GridSample")
def grid_sample(m, name):
    spatial = int(m.one_of(2, 2, 3))
    m.version = max(m.version, 20)
    batch = int(m.rng.integers(1, 3))
    x = m.x((batch, int(m.rng.integers(1, 4)), *m.shape(spatial, 2, 5)))
    grid = m.x((batch, *m.shape(spatial, 1, 4), spatial), F, -1.4, 1.4)
    m.op(
        name,
        [x, grid],
        mode=m.one_of("linear", "nearest", *(["cubic"] if spatial == 2 else [])),
        padding_mode=m.one_of("zeros", "border", "reflection"),
        align_corners=int(m.flag()),
    )


@case("AffineGrid")
def affine_grid(m, name):
    m.version = max(m.version, 20)
    spatial = int(m.one_of(2, 3))
    batch = int(m.rng.integers(1, 3))
    theta = m.x((batch, spatial, spatial + 1))
    # Of one pixel ONNX Runtime takes the edge, PyTorch the middle.
    size = m.const([batch, 2, *m.shape(spatial, 2, 5)])
    m.op(name, [theta, size], align_corners=int(m.flag()))


@case("RoiAlign")
def roi_align(m, name):
    m.version = max(m.version, 16)
    images, boxes = int(m.rng.integers(1, 3)), int(m.rng.integers(1, 4))
    x = m.x((images, int(m.rng.integers(1, 4)), *m.shape(2, 4, 9)))
    corners = m.x((boxes, 4), F, -2, 12)
    numbers = m.x((boxes,), L, 0, images - 1)
    m.op(
        name,
        [x, corners, numbers],
        coordinate_transformation_mode=m.one_of("half_pixel", "output_half_pixel"),
        output_height=int(m.rng.integers(1, 4)),
        output_width=int(m.rng.integers(1, 4)),
        sampling_ratio=int(m.rng.integers(1, 4)),
        spatial_scale=float(m.one_of(1.0, 0.5)),
    )


@case("DeformConv", "DeformConv")
def deform_conv(m, name):
    m.version = max(m.version, 22)
    groups, moved = int(m.one_of(1, 2)), int(m.one_of(1, 2))
    channels, out = groups * moved * int(m.rng.integers(1, 3)), groups * int(m.rng.integers(1, 3))
    kernel, stride, pads = m.shape(2, 1, 3), m.shape(2, 1, 2), m.shape(4, 0, 2)
    batch, extent = int(m.rng.integers(1, 3)), m.shape(2, 5, 8)
    to = [(extent[i] + pads[i] + pads[2 + i] - kernel[i]) // stride[i] + 1 for i in range(2)]
    taps = kernel[0] * kernel[1] * moved
    inputs = [
        m.x((batch, channels, *extent)),
        m.const(m.numbers((out, channels // groups, *kernel)), F),
        m.x((batch, 2 * taps, *to), F, -2, 2),
    ]
    with_mask = m.flag()
    inputs.append(m.const(m.numbers((out,)), F) if m.flag() else "")
    if with_mask:
        inputs.append(m.x((batch, taps, *to), F, 0, 1))
    m.op(name, inputs, group=groups, offset_group=moved, strides=stride, pads=pads)


@case("MaxPool", "MaxPool")
def places_of_pool(m, name):
    spatial = int(m.one_of(1, 2, 2, 3))
    kernel = m.shape(spatial, 2, 3)
    attributes = {"strides": m.shape(spatial, 1, 3)}
    if m.flag():
        attributes["pads"] = [int(n) for n in m.rng.integers(0, 2, 2 * spatial)]
        attributes["ceil_mode"] = int(m.flag())
    else:
        attributes["auto_pad"] = m.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    if spatial > 1:
        attributes["storage_order"] = int(m.flag())
    x = m.x((2, 3, *m.shape(spatial, 5, 8)))
    m.op(name, [x], 2, kernel_shape=kernel, **attributes)


@case("AveragePool")
def pool_with_gaps(m, name):
    m.version = max(m.version, 19)
    spatial = int(m.one_of(1, 2, 2, 3))
    kernel = m.shape(spatial, 2, 3)
    attributes = {
        "dilations": m.shape(spatial, 1, 3),
        "strides": m.shape(spatial, 1, 3),
        "ceil_mode": int(m.flag()),
        "count_include_pad": int(m.flag()),
    }
    if m.flag():
        attributes["pads"] = [int(n) for n in m.rng.integers(0, 2, 2 * spatial)]
    x = m.x((2, 3, *m.shape(spatial, 7, 10)))
    m.op(name, [x], kernel_shape=kernel, **attributes)


@case("MaxUnpool")
def max_unpool(m, name):
    kernel = [2, int(m.one_of(2, 3))]
    x = m.x((2, 3, kernel[0] * int(m.rng.integers(1, 4)), kernel[1] * int(m.rng.integers(1, 4))))
    values = m.op("MaxPool", [x], 2, kernel_shape=kernel, strides=kernel)
    places = m.outputs[1]
    m.op(name, [values, places], kernel_shape=kernel, strides=kernel)


@case("ConvTranspose")
def volume_transpose(m, name):
    groups = int(m.one_of(1, 2))
    channels, out = groups * int(m.rng.integers(1, 3)), int(m.rng.integers(1, 3))
    kernel, stride = m.shape(3, 2, 3), m.shape(3, 1, 2)
    inputs = [
        m.x((1, channels, *m.shape(3, 2, 4))),
        m.const(m.numbers((channels, out, *kernel)), F),
    ]
    if m.flag():
        inputs.append(m.const(m.numbers((out * groups,)), F))
    attributes = (
        {"auto_pad": m.one_of("SAME_UPPER", "SAME_LOWER")}
        if m.flag()
        else {"pads": [int(n) for n in m.rng.integers(0, 2, 6)]}
    )
    m.op(name, inputs, group=groups, strides=stride, kernel_shape=kernel, **attributes)


@case("DFT", "DFT")
def spectrum(m, name):
    m.version = max(m.version, 17)
    parts, inverse = int(m.one_of(1, 2)), m.flag()
    rank = int(m.one_of(2, 3))
    x = m.x((*m.shape(rank, 2, 6), parts))
    axis = int(m.rng.integers(1, rank)) if m.version < 20 else int(m.rng.integers(0, rank))
    length = m.const(int(m.rng.integers(2, 8))) if m.flag() else ""
    attributes = {"inverse": int(inverse)}
    if parts == 1 and not inverse:
        attributes["onesided"] = int(m.flag())
    if m.version < 20:
        m.op(name, [x, length] if length else [x], axis=axis, **attributes)
    else:
        m.op(name, [x, length, m.const(axis)], **attributes)


@case("STFT", "STFT")
def short_spectra(m, name):
    m.version = max(m.version, 17)
    length = int(m.rng.integers(2, 9))
    x = m.x((int(m.rng.integers(1, 3)), length + int(m.rng.integers(0, 20)), 1))
    hop = m.const(int(m.rng.integers(1, 4)))
    window = m.const(m.numbers((length,), F, 0, 1), F) if m.flag() else ""
    size = m.const(length) if not window or m.flag() else ""
    inputs = [x, hop, window, size] if size else [x, hop, window]
    m.op(name, inputs, onesided=int(m.flag()))


@case("MelWeightMatrix")
def mel_weights(m, name):
    m.version = max(m.version, 17)
    points, rate = int(m.rng.integers(8, 40)), 8000
    highest = float(m.rng.uniform(1000, 3900))
    matrix = m.op(
        name,
        [
            m.const(int(m.rng.integers(1, 9))),
            m.const(points),
            m.const(rate),
            m.const(np.float32(m.rng.uniform(0, 500)), F),
            m.const(np.float32(highest), F),
        ],
    )
    m.op("MatMul", [m.x((2, points // 2 + 1)), matrix])


@case("Det")
def determinant(m, name):
    m.version = max(m.version, 13)
    n = int(m.rng.integers(1, 5))
    m.op(name, [m.x((*m.shape(int(m.rng.integers(0, 3)), 1, 3), n, n))])


def computed_indices(m, extent, count):
    """Distinct indices, as ONNX asks of a scatter without a reduction, of numbers from the input:
    the places of their greatest."""
    x = m.x((extent,))
    return m.op("TopK", [x, m.const([count])], outputs=2).replace("_0", "_1")


@case("ScatterElements", "ScatterElements")
def scatter_computed(m, name):
    m.version = max(m.version, 18)
    rows, axis = int(m.rng.integers(3, 7)), m.one_of(0, -2)
    if m.flag():
        index = m.op("Unsqueeze", [computed_indices(m, rows, 3), m.const([1])])
        m.op(name, [m.x((rows, 4)), index, m.x((3, 1))], axis=axis)
    else:
        index = m.x((5, 2), L, -rows, rows - 1)
        m.op(name, [m.x((rows, 4)), index, m.x((5, 2))], axis=axis, reduction="add")


@case("ScatterND", "ScatterND")
def scatter_rows_computed(m, name):
    m.version = max(m.version, 18)
    rows = int(m.rng.integers(3, 7))
    if m.flag():
        index = m.op("Unsqueeze", [computed_indices(m, rows, 2), m.const([1])])
        m.op(name, [m.x((rows, 4)), index, m.x((2, 4))])
    else:
        index = m.x((5, 2), L, -3, 2)
        m.op(name, [m.x((rows, 3, 2)), index, m.x((5, 2))], reduction="add")


@case("TopK")
def order_of_integers(m, name):
    shape, axis = (3, 6), m.one_of(0, 1)
    count = m.const([int(m.rng.integers(1, shape[axis] + 1))])
    x = m.x(shape, m.one_of(L, I), -3, 3)
    m.op(name, [x, count], outputs=2, axis=axis, largest=int(m.flag()))


@case("SplitToSequence")
def split_wide(m, name):
    """Few parts of many elements."""
    wide = m.op("Expand", [m.x((2, 1)), m.const([2, 9000])])
    parts = m.op(name, [wide, m.const([4000, 5000])], axis=1)
    m.op("ReduceMax", [m.op("SequenceAt", [parts, m.const(int(m.flag()))])], keepdims=0)


@case("AveragePool")
def pool_with_gaps_beyond(m, name):
    """The last window of a row reaches beyond the input and its padding, that of a column does not."""
    m.version = max(m.version, 19)
    x = m.x((1, 2, 5, 8))
    pads = m.one_of([0, 0, 0, 0], [0, 1, 0, 0])
    m.op(
        name,
        [x],
        kernel_shape=[2, 2],
        dilations=[2, 2],
        strides=[2, 3],
        pads=pads,
        ceil_mode=1,
        count_include_pad=int(m.flag()),
    )


@case("QGemm")
def qgemm_of_channels(m, name):
    """A scale a channel of the result: of square weights, which either dimension would fit."""
    (a, _), (y, _) = (coded_cases.scale_of(m, dtype=U) for _ in range(2))
    b = [m.const(m.rng.uniform(0.01, 0.05, 4), F), m.const(np.zeros(4), Q)]
    x, weights = m.x((3, 4), U, 0, 255), m.const(m.numbers((4, 4), Q, -63, 63), Q)
    bias = m.const(m.numbers((4,), I, -999, 999), I)
    m.op(name, [x, *a, weights, *b, bias, *y], domain=MICROSOFT, transB=int(m.flag()))


@case("DynamicQuantizeLinear", "DynamicQuantizeLinear")
def dynamic_of_one_sign(m, name):
    """Zero has a code also where all numbers are on one side of it."""
    low = m.one_of(2, -5)
    m.op(name, [m.x(m.shape(), low=low, high=low + 3)], outputs=3)


@case("ScatterND")
def scatter_computed_places(m, name):
    """Both numbers of a place are computed, and counted from the end of their own dimension."""
    m.version = max(m.version, 18)
    rows, columns = int(m.rng.integers(2, 4)), int(m.rng.integers(5, 8))
    x = m.x((rows, columns, 2))
    m.op(name, [x, m.x((9, 2), L, -rows, rows - 1), m.x((9, 2))], reduction="add")


@case("Where")
def where_wide_number(m, name):
    """Of equal numbers, which have more dimensions than what they replace."""
    m.version = max(m.version, 16)
    number, x = m.const(np.full((2, 1, 3), 0.5), F), m.x((4, 1))
    operands = [number, x] if m.flag() else [x, number]
    m.op(name, [m.x(m.one_of((3,), (4, 3)), T), *operands])


@case("ScatterElements", "ScatterElements")
def scatter_combined(m, name):
    """Some places have several updates."""
    m.version = max(m.version, 18)
    axis, dtype = m.one_of(0, -1), m.one_of(F, L)
    index = m.x((5, 2), L, -3, 2)
    how = m.one_of("mul", "max", "min")
    m.op(
        name,
        [m.x((5, 3) if axis else (3, 4), dtype), index, m.x((5, 2), dtype)],
        axis=axis,
        reduction=how,
    )


@case("ScatterND", "ScatterND")
def scatter_rows_combined(m, name):
    m.version = max(m.version, 18)
    depth, dtype = m.one_of(1, 2), m.one_of(F, L)
    index = m.x((7, depth), L, -3, 2)
    rest = (3, 2)[depth - 1 :]
    how = m.one_of("mul", "max", "min")
    m.op(name, [m.x((3, 3, 2), dtype), index, m.x((7, *rest), dtype)], reduction=how)


@case("Pow", "Pow")
def power_of_integers(m, name):
    """Results that float32 has no number of."""
    base, exponent = m.one_of(L, I), m.one_of(L, I)
    if m.flag():
        m.op(name, [m.x((3, 5), base, 3000, 40000), m.const(m.one_of(0, 1, 2), exponent)])
    else:
        m.op(name, [m.x((3, 5), base, -20, 20), m.x((5,), exponent, 0, 6)])
