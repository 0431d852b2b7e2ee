#!/usr/bin/env python3
"""Writes places.npz and places.json: as make_cases.py, for operators that take or put elements by
index, copy views, pad with elements of the tensor itself, and reduce to the most extreme.

    make_place_cases.py            (PyTorch 2.13; one thread)
"""
import torch
import torch.nn.functional as F

from recorder import Recorder

recorder = Recorder("p", seed=29)
case = recorder.case
ROUND = 2e-6  # sums in another order, functions of another library

x = torch.randn(2, 3, 5, 7)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ANY = [torch.randint(0, 100, (2, 3, 5, 7)).to(t) for t in INTEGERS] + [x, x > 0, x.double()]


def dtype(value):
    return str(value.dtype).removeprefix("torch.")


# ---- views
for value in ANY:
    case(f"narrow_{dtype(value)}", "narrow_copy.out", [value, -1, 2, 4], value.narrow(-1, 2, 4))
case("narrow_end", "narrow_copy.out", [x, 2, -3, 2], x.narrow(2, 2, 2))
case("narrow_nothing", "narrow_copy.out", [x, 1, 3, 0], x.narrow(1, 3, 0))
for offset in (0, 1, -2, 6, -5, 7):
    case(f"diagonal_{offset}", "diagonal_copy.out", [x, offset, 2, 3], x.diagonal(offset, 2, 3))
case("diagonal_back", "diagonal_copy.out", [x, -1, -1, 0], x.diagonal(-1, -1, 0))
case("unfold", "unfold_copy.out", [x, 3, 3, 2], x.unfold(3, 3, 2))
case("unfold_first", "unfold_copy.out", [x, -3, 3, 1], x.unfold(-3, 3, 1))
case("unfold_empty_window", "unfold_copy.out", [x, 3, 0, 2], x.unfold(3, 0, 2))
rows = torch.randn(5, 7)
case(
    "as_strided",
    "as_strided_copy.out",
    [rows, [3, 2, 4], [7, 0, 2], 5],
    rows.as_strided((3, 2, 4), (7, 0, 2), 5),
)
case(
    "as_strided_start", "as_strided_copy.out", [rows, [35], [1], None], rows.as_strided((35,), (1,))
)
case(
    "as_strided_scalar",
    "as_strided_copy.out",
    [rows, [], [], 34],
    rows.as_strided((), (), 34),
)

# ---- splits and joins
for dim in (0, 2, -1):
    case(f"split_{dim}", "split_copy.Tensor_out", [x, 2, dim], *x.split(2, dim), listed=True)
case("split_whole", "split_copy.Tensor_out", [x, 9, 1], *x.split(9, 1), listed=True)
case(
    "split_sizes",
    "split_with_sizes_copy.out",
    [x, [2, 0, 4, 1], 3],
    *x.split_with_sizes([2, 0, 4, 1], 3),
    listed=True,
)
case("unbind", "unbind_copy.int_out", [x, 1], *x.unbind(1), listed=True)
case("unbind_last", "unbind_copy.int_out", [ANY[3], -1], *ANY[3].unbind(-1), listed=True)
part = torch.randn(2, 3, 7)
case("select_scatter", "select_scatter.out", [x, part, 2, -2], x.select_scatter(part, 2, -2))
part = torch.randn(2, 3, 2, 7)
case("slice_scatter", "slice_scatter.out", [x, part, 2, 1, 5, 2], x.slice_scatter(part, 2, 1, 5, 2))
part = torch.randn(1, 3, 5, 7)
case(
    "slice_scatter_end",
    "slice_scatter.out",
    [x, part, 0, -1, None, 1],
    x.slice_scatter(part, 0, -1, None, 1),
)
case("slice_scatter_none", "slice_scatter.out", [x, x[:0], 0, 3, 9, 1], x)
row = torch.randn(5, 1)
case("copy", "copy.out", [x, row, False], x.clone().copy_(row))
for value in ANY:
    case(
        f"copy_to_{dtype(value)}", "copy.out", [value, row * 3, False], value.clone().copy_(row * 3)
    ) if value.dtype != torch.uint8 else None
    case(f"copy_from_{dtype(value)}", "copy.out", [x, value, False], x.clone().copy_(value))
case("copy_in_place", "copy_", [x, row, False], x.clone().copy_(row), written=True)

# ---- places
for shift in (0, 3, -4, 211):
    case(f"roll_{shift}", "roll.out", [x, [shift], []], x.roll(shift))
case("roll_dims", "roll.out", [x, [2, -3, 9], [1, 3, 0]], x.roll((2, -3, 9), (1, 3, 0)))
case("roll_twice", "roll.out", [x, [2, 2], [2, -2]], x.roll((2, 2), (2, -2)))
for diagonal in (0, 2, -3, 9, -9):
    case(f"tril_{diagonal}", "tril.out", [x, diagonal], x.tril(diagonal))
case("tril_int8", "tril.out", [ANY[3], -1], ANY[3].tril(-1))
deep = torch.randn(2, 12, 3, 5)
case("pixel_shuffle", "pixel_shuffle.out", [deep, 2], F.pixel_shuffle(deep, 2))
case("pixel_shuffle_3d", "pixel_shuffle.out", [deep[0, :9], 3], F.pixel_shuffle(deep[0, :9], 3))
wide = torch.randn(2, 3, 6, 9)
case("pixel_unshuffle", "pixel_unshuffle.out", [wide, 3], F.pixel_unshuffle(wide, 3))
wide = torch.randint(0, 9, (2, 1, 4, 8), dtype=torch.uint8)
case("pixel_unshuffle_uint8", "pixel_unshuffle.out", [wide, 2], F.pixel_unshuffle(wide, 2))
volume = torch.randn(1, 2, 3, 4, 5)
PADS = {1: (x[0], [4, 6]), 2: (x, [3, 2, 4, 1]), 3: (volume, [4, 1, 2, 3, 2, 1])}
for dims, (value, pad) in PADS.items():
    for mode, word in (("reflect", "reflection"), ("replicate", "replication")):
        case(f"{word}_{dims}", f"{word}_pad{dims}d.out", [value, pad], F.pad(value, pad, mode))
case(
    "replication_int8",
    "replication_pad2d.out",
    [ANY[3], [9, 0, 0, 8]],
    F.pad(ANY[3].float(), [9, 0, 0, 8], "replicate").to(torch.int8),
)
index = torch.tensor([[2, 0], [1, 1], [0, 2]])
matrix = torch.randn(3, 4)
case("gather", "gather.out", [matrix, 1, index, False], matrix.gather(1, index))
case("gather_rows", "gather.out", [matrix, 0, index, False], matrix.gather(0, index))
index4 = torch.randint(0, 5, (2, 3, 4, 6))
case("gather_4d", "gather.out", [x, 2, index4, False], x.gather(2, index4))
for value in ANY:
    case(f"gather_{dtype(value)}", "gather.out", [value, -2, index4, True], value.gather(2, index4))
case("gather_scalar", "gather.out", [x[0, 0, 0, 0], 0, torch.tensor(0), False], x[0, 0, 0, 0])
source = torch.randn(2, 3, 5, 7)
once = torch.stack([torch.randperm(5)[:4] for _ in range(2 * 3 * 6)]).view(2, 3, 6, 4).mT
case("scatter", "scatter.src_out", [x, 2, once, source], x.scatter(2, once, source))
case(
    "scatter_int8",
    "scatter.src_out",
    [ANY[3], 2, once, ANY[3] + 1],
    ANY[3].scatter(2, once, ANY[3] + 1),
)
case("scatter_value", "scatter.value_out", [x, 2, index4, 2.5], x.scatter(2, index4, 2.5))
case(
    "scatter_value_bool",
    "scatter.value_out",
    [ANY[6], 2, index4, True],
    ANY[6].scatter(2, index4, True),
)
case(
    "scatter_add",
    "scatter_add.out",
    [x, 2, index4, source],
    x.scatter_add(2, index4, source),
    tolerance=ROUND,
)
for value in ANY[:5]:
    case(
        f"scatter_add_{dtype(value)}",
        "scatter_add.out",
        [value, 3, index4, value],
        value.scatter_add(3, index4, value),
    )
i, j = torch.tensor([1, 0, -1]), torch.tensor([[4], [-5]])
LISTS = {
    "first": [i % 2],
    "second": [None, i],
    "two": [None, i, j],
    "apart": [i % 2, None, j],
    "apart_behind": [None, i, None, j],
    "all": [i % 2, i, j, torch.tensor(6)],
    "ends": [None, None, j, i],
    "int32": [None, i.int()],
}
for name, places in LISTS.items():
    taken = torch.ops.aten.index(x, [None if p is None else p.long() for p in places])
    case(f"index_{name}", "index.Tensor_out", [x, places], taken)
for value in ANY:
    case(f"index_{dtype(value)}", "index.Tensor_out", [value, [None, i, j]], value[:, i, j])
for name, mask in {"pixels": x[0, 0] > 0.2, "rows": x[:, :, 0, 0] > 0, "all": x > 1}.items():
    places = [None, None, mask] if name == "pixels" else [mask]
    picks = (slice(None), slice(None), mask) if name == "pixels" else mask
    case(f"index_mask_{name}", "index.Tensor_out", [x, places], x[picks])
    zeros = torch.zeros(())
    put = torch.ops.aten.index_put(x, places, zeros)
    case(f"index_put_mask_{name}", "index_put.out", [x, places, zeros, False], put)
unique = [None, torch.tensor([2, 0]), torch.tensor([[4], [1]])]
for name, values in {
    "whole": torch.randn(2, 2, 2, 7),
    "row": torch.randn(7),
    "one": torch.randn(()),
}.items():
    put = torch.ops.aten.index_put(x, unique, values)
    case(f"index_put_{name}", "index_put.out", [x, unique, values, False], put)
    added = torch.ops.aten.index_put(
        x,
        [None, i, j],
        values[..., :1, :].expand(2, 2, 3, 7) if values.dim() == 4 else values,
        True,
    )
    case(
        f"index_put_add_{name}",
        "index_put.out",
        [
            x,
            [None, i, j],
            values[..., :1, :].expand(2, 2, 3, 7) if values.dim() == 4 else values,
            True,
        ],
        added,
        tolerance=ROUND,
    )
counts = torch.ops.aten.index_put(ANY[0], [None, i], torch.tensor(3), True)
case("index_put_count", "index_put.out", [ANY[0], [None, i], torch.tensor(3), True], counts)
case(
    "index_put_in_place",
    "index_put_",
    [x, unique, torch.randn(7) * 0 + 4, False],
    torch.ops.aten.index_put(x, unique, torch.full((7,), 4.0)),
    written=True,
)
mask = torch.rand(3, 5, 1) > 0.4
case("masked_scatter", "masked_scatter.out", [x, mask, source], x.masked_scatter(mask, source))
case(
    "masked_scatter_row",
    "masked_scatter.out",
    [x, x > 0, torch.arange(210.0)],
    x.masked_scatter(x > 0, torch.arange(210.0)),
)
repeats = torch.tensor([2, 0, 3, 1])
case(
    "repeat_interleave",
    "repeat_interleave.Tensor_out",
    [repeats, None],
    repeats.repeat_interleave(repeats) * 0 + torch.arange(4).repeat_interleave(repeats),
)

# ---- extremes and reductions
ties = torch.tensor([[3.0, 1.0, 3.0], [float("nan"), 7.0, float("nan")], [-1.0, -1.0, -2.0]])
for word in ("max", "min"):
    function = getattr(torch, word)
    for value in (x, *ANY[:5], ANY[6]):
        case(f"{word}_all_{dtype(value)}", f"{word}.unary_out", [value], function(value))
    for value in (x, *ANY[:5]):
        distinct = value if value.is_floating_point() else torch.argsort(x, 3).to(value.dtype)
        for dim, keep in ((3, False), (-1, True)):
            case(
                f"{word}_{dim}_{dtype(value)}",
                f"{word}.dim_{word}",
                [distinct, dim, keep],
                *function(distinct, dim, keep),
            )
    finite = torch.nan_to_num(ties)
    case(
        f"{word}_ties",
        f"{word}.dim_{word}",
        [finite, 1, False],
        getattr(finite, f"a{word}")(1),
        getattr(torch, f"arg{word}")(finite, 1),
    )
    case(
        f"{word}_scalar",
        f"{word}.dim_{word}",
        [x[0, 0, 0, 0], 0, False],
        x[0, 0, 0, 0],
        torch.tensor(0),
    )
for largest in (True, False):
    for k in (0, 1, 4, 7):
        case(f"topk_{k}_{largest}", "topk.values", [x, k, 3, largest, True], *x.topk(k, 3, largest))
    distinct = torch.argsort(x, 2)
    for value in INTEGERS:
        case(
            f"topk_{str(value)[6:]}_{largest}",
            "topk.values",
            [distinct.to(value), 3, -2, largest, True],
            *distinct.to(value).topk(3, -2, largest),
        )
case(
    "topk_scalar",
    "topk.values",
    [x[0, 0, 0, 0], 1, -1, True, False],
    x[0, 0, 0, 0],
    torch.tensor(0),
)
for value in ANY:
    sparse = value * (torch.rand(2, 3, 5, 7) > 0.9) if value.dtype != torch.bool else value
    case(f"any_{dtype(value)}", "any.all_out", [sparse], sparse.any())
    case(f"any_3_{dtype(value)}", "any.out", [sparse, 3, False], sparse.any(3))
    case(
        f"any_13_{dtype(value)}", "any.dims_out", [sparse, [1, -1], True], sparse.any((1, 3), True)
    )
case("any_scalar", "any.out", [x[0, 0, 0, 0], -1, False], x[0, 0, 0, 0].any(-1))
case("prod_scalar", "prod.int_out", [x[0, 0, 0, 0], 0, False, None], x[0, 0, 0, 0].prod(0))
case("any_nothing", "any.all_out", [torch.zeros(3)], torch.tensor(False))
case("prod", "prod.out", [x[0, 0, 0], None], x[0, 0, 0].prod(), tolerance=ROUND)
case("prod_3", "prod.int_out", [x, 3, False, None], x.prod(3), tolerance=ROUND)
case("prod_1", "prod.int_out", [x, -3, True, None], x.prod(1, True), tolerance=ROUND)
for value in (*ANY[:5], ANY[6]):
    case(f"prod_{dtype(value)}", "prod.int_out", [value, 3, False, None], value.prod(3))
    case(f"prod_all_{dtype(value)}", "prod.out", [value, None], value.prod())
case("mean_all", "mean.dtype_out", [x, None], x.mean(), tolerance=ROUND)
far = x * 3 + 7
for unbiased in (True, False):
    case(
        f"var_{unbiased}",
        "var.out",
        [far, [1, 3], unbiased, False],
        far.var((1, 3), unbiased),
        tolerance=ROUND,
    )
case(
    "var_all",
    "var.correction_out",
    [far, None, 3, True],
    far.var(correction=3, keepdim=True),
    tolerance=ROUND,
)
case("var_default", "var.correction_out", [far, [-1], None, False], far.var(-1), tolerance=ROUND)
case("var_of_one", "var.out", [far[:1], [0], True, False], far[:1].var(0))
case(
    "var_beyond", "var.correction_out", [far, [0], 3, True], far.var(0, correction=3, keepdim=True)
)
case(
    "var_mean",
    "var_mean.correction_out",
    [far, [0, 2], 0.5, True],
    *torch.var_mean(far, (0, 2), correction=0.5, keepdim=True),
    tolerance=ROUND,
)
for value in ANY[:5]:
    by = torch.randint(0, 70, (5, 1)).to(value.dtype)
    signed = value - 50 if value.dtype != torch.uint8 else value
    for word, function in (
        ("left", torch.bitwise_left_shift),
        ("right", torch.bitwise_right_shift),
    ):
        case(
            f"shift_{word}_{dtype(value)}",
            f"bitwise_{word}_shift.Tensor_out",
            [signed, by],
            function(signed, by),
        )
        for number in (0, 3, 8, 31, 40) + (() if value.dtype == torch.uint8 else (-1,)):
            case(
                f"shift_{word}_{number}_{dtype(value)}",
                f"bitwise_{word}_shift.Tensor_Scalar_out",
                [signed, number],
                function(signed, number),
            )

# ---- constants
for value in ANY:
    case(f"fill_{dtype(value)}", "fill.Scalar_out", [value, 3], torch.full_like(value, 3))
    case(
        f"fill_tensor_{dtype(value)}",
        "fill.Tensor_out",
        [value, torch.tensor(1.5)],
        value.clone().fill_(torch.tensor(1.5)),
    )
    case(f"ones_{dtype(value)}", "ones.out", [[2, 3]], torch.ones(2, 3, dtype=value.dtype))
    case(f"zeros_{dtype(value)}", "zeros.out", [[2, 3]], torch.zeros(2, 3, dtype=value.dtype))
case("empty", "empty.out", [[2, 3], None], torch.zeros(2, 3))
case("empty_dim_order", "dim_order_ops::_empty_dim_order.out", [[2, 3], [0, 1]], torch.zeros(2, 3))
case("arange", "arange.out", [5], torch.arange(5))
case("arange_float", "arange.out", [4.5], torch.arange(4.5))

# ---- float
case("glu", "glu.out", [x[..., :6].contiguous(), -1], F.glu(x[..., :6], -1), tolerance=ROUND)
case("glu_0", "glu.out", [x, 0], F.glu(x, 0), tolerance=ROUND)
a, b = torch.randn(2, 1, 4, 6), torch.randn(3, 5, 6)
for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
    case(
        f"cdist_{p}",
        "_cdist_forward.out",
        [a, b, p, 2],
        torch.ops.aten._cdist_forward(
            a.expand(2, 3, 4, 6).contiguous(), b.expand(2, 3, 5, 6).contiguous(), p, 2
        ),
        tolerance=ROUND,
    )
    case(
        f"pdist_{p}",
        "_pdist_forward.out",
        [b[0], p],
        torch.ops.aten._pdist_forward(b[0], p),
        tolerance=ROUND,
    )
grid = torch.randn(2, 4, 3, 2)
for mode in range(3):
    for padding in range(3):
        for align in (True, False):
            out = torch.ops.aten.grid_sampler_2d(x, grid, mode, padding, align)
            case(
                f"grid_{mode}_{padding}_{align}",
                "grid_sampler_2d.out",
                [x, grid, mode, padding, align],
                out,
                tolerance=ROUND,
            )
# Behind every integer: the image's end, its first pixel or nothing.
beyond = torch.tensor([1e30, 1e12, -1e12, -1e30, 0.3, -0.4]).reshape(1, 3, 1, 2).expand(2, 3, 1, 2)
for mode in range(3):
    for padding in range(3):
        out = torch.ops.aten.grid_sampler_2d(x, beyond, mode, padding, False)
        case(
            f"grid_far_{mode}_{padding}",
            "grid_sampler_2d.out",
            [x, beyond.contiguous(), mode, padding, False],
            out,
            tolerance=ROUND,
        )
flat = torch.ops.aten.grid_sampler_2d(x[:, :, :1], grid, 0, 2, True)
case(
    "grid_flat",
    "grid_sampler_2d.out",
    [x[:, :, :1].contiguous(), grid, 0, 2, True],
    flat,
    tolerance=ROUND,
)
for size in ((3, 4), (5, 3), (9, 11), (1, 1)):
    for align in (True, False):
        out = torch.ops.aten._upsample_bilinear2d_aa(x, size, align)
        case(
            f"smooth_{size}_{align}",
            "_upsample_bilinear2d_aa.out",
            [x, size, align, None, None],
            out,
            tolerance=ROUND,
        )
for name, (weight, bias) in {
    "plain": (None, None),
    "scaled": (torch.rand(3), torch.randn(3)),
}.items():
    case(
        f"batch_norm_{name}",
        "_native_batch_norm_legit.no_stats_out",
        [far, weight, bias, True, 0.1, 1e-5],
        *torch.ops.aten._native_batch_norm_legit.no_stats(far, weight, bias, True, 0.1, 1e-5),
        tolerance=ROUND,
    )

recorder.write("places")
