#!/usr/bin/env python3
"""Writes moving.npz and moving.json: as make_cases.py, for operators that copy, convert, compare
and choose elements.

    make_moving_cases.py            (PyTorch 2.13; one thread)
"""
import torch
import torch.nn.functional as F

from recorder import Recorder

recorder = Recorder("m", seed=3)
case = recorder.case
ROUND = 2e-6  # products summed in another order

x, y = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7)
codes = torch.randint(-128, 128, (2, 3, 5, 7), dtype=torch.int8)
wide = torch.tensor([0, -1, 2**40, -(2**40), 300], dtype=torch.int64)

for name in ("alias", "detach", "lift_fresh"):
    case(name, f"aten::{name}_copy.out", [x], x)
case("clone", "aten::clone.out", [codes, None], codes)
case("clone_dim_order", "dim_order_ops::_clone_dim_order.out", [x, False, [0, 1, 2, 3]], x)
case(
    "to_dim_order_int8",
    "dim_order_ops::_to_dim_order_copy.out",
    [codes, False, [0, 1, 2, 3]],
    codes.float(),
)
for dtype in (torch.int8, torch.int32, torch.int64, torch.bool):
    case(f"float_to_{dtype}", "aten::_to_copy.out", [x * 40, False, None], (x * 40).to(dtype))
far = torch.tensor(
    [2.0**30, -(2.0**30), 2.0**31, -(2.0**31), 3e9, -5e9, 1e12, -1e18, 0.9, -0.9]
)
case("far_float_to_long", "aten::_to_copy.out", [far, False, None], far.to(torch.int64))
case("long_to_float", "aten::_to_copy.out", [wide, False, None], wide.float())
case("long_to_bool", "aten::_to_copy.out", [wide, False, None], wide.bool())
case("bool_to_float", "aten::_to_copy.out", [x > 0, False, None], (x > 0).float())

case("squeeze_dim", "aten::squeeze_copy.dim_out", [x[:, :1].contiguous(), 1], x[:, 0])
case("squeeze_dims", "aten::squeeze_copy.dims_out", [x[:1, :, :1].contiguous(), [0, 2]], x[0, :, 0])
case("unsqueeze", "aten::unsqueeze_copy.out", [codes, -1], codes[..., None])
case("t", "aten::t_copy.out", [x[0, 0].contiguous()], x[0, 0].t())
case("t_vector", "aten::t_copy.out", [x[0, 0, 0].contiguous()], x[0, 0, 0])
case("transpose", "aten::transpose_copy.int_out", [x, -1, 1], x.transpose(-1, 1))
case("select", "aten::select_copy.int_out", [x, 1, 2], x[:, 2])
case("select_last", "aten::select_copy.int_out", [codes, -2, -1], codes[:, :, -1])
case("stack", "aten::stack.out", [[x, y, x], 1], torch.stack([x, y, x], 1))
case("stack_last", "aten::stack.out", [[x[0, 0], y[0, 0]], -1], torch.stack([x[0, 0], y[0, 0]], -1))
case("repeat", "aten::repeat.out", [x[0], [2, 1, 3, 2]], x[0].repeat(2, 1, 3, 2))
case("repeat_none", "aten::repeat.out", [codes, [1, 0, 1, 1]], codes.repeat(1, 0, 1, 1))

near = torch.where(x > 0.3, x, y)
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    function = getattr(torch, name)
    case(name, f"aten::{name}.Tensor_out", [near, y], function(near, y))
    case(
        f"{name}_channel",
        f"aten::{name}.Tensor_out",
        [codes, codes[0, :, :1, :1].contiguous()],
        function(codes, codes[0, :, :1, :1]),
    )
    case(
        f"{name}_number",
        f"aten::{name}.Scalar_out",
        [torch.cat([x, torch.full_like(x, 0.1)]), 0.1],
        function(torch.cat([x, torch.full_like(x, 0.1)]), 0.1),
    )
    case(f"{name}_fraction", f"aten::{name}.Scalar_out", [codes, 2.5], function(codes, 2.5))
    case(f"{name}_long", f"aten::{name}.Scalar_out", [wide, -1], function(wide, -1))
    case(f"{name}_far", f"aten::{name}.Scalar_out", [wide, 2**40], function(wide, 2**40))
a, b = x > 0, y[:, :1].contiguous() > 0
for name in ("and", "or", "xor"):
    case(name, f"aten::logical_{name}.out", [a, b], getattr(torch, f"logical_{name}")(a, b))
case("not", "aten::logical_not.out", [a], ~a)
case("where", "aten::where.self_out", [a, x, y[:1].contiguous()], torch.where(a, x, y[:1]))
case(
    "where_int8",
    "aten::where.self_out",
    [b, codes, codes[:, :, :1].contiguous()],
    torch.where(b, codes, codes[:, :, :1]),
)
case("masked_fill", "aten::masked_fill.Scalar_out", [x, b, -0.5], x.masked_fill(b, -0.5))
case("masked_fill_infinite", "aten::masked_fill.Scalar_out", [x, a, 3], x.masked_fill(a, 3))

case("add_number", "aten::add.Scalar_out", [x, 1.5, 2], x + 3.0)
case("sub_number", "aten::sub.Scalar_out", [x, 1.5, 1], x - 1.5)
case("rsub_number", "aten::rsub.Scalar_out", [x, 1.5, 2], torch.rsub(x, 1.5, alpha=2))
case("mul_number", "aten::mul.Scalar_out", [x, -2], x * -2)
case("div_number", "aten::div.Scalar_out", [x, 3.0], x / torch.full_like(x, 3.0))

case("full", "aten::full.out", [[2, 3, 4], 1.5], torch.full((2, 3, 4), 1.5))
case("full_bool", "aten::full.out", [[5], 2], torch.full((5,), True))
case("full_like", "aten::full_like.out", [codes, -7, None], torch.full_like(codes, -7))
case("scalar_tensor", "aten::scalar_tensor.out", [0.1], torch.tensor(0.1))
case("arange", "aten::arange.start_out", [-1, 9, 3], torch.arange(-1, 9, 3))
case("arange_float", "aten::arange.start_out", [2.0, 0.0, -0.5], torch.arange(2.0, 0.0, -0.5))

case(
    "nearest_size",
    "aten::upsample_nearest2d.vec_out",
    [x, [10, 9], None],
    F.interpolate(x, (10, 9)),
)
case(
    "nearest_factors",
    "aten::upsample_nearest2d.vec_out",
    [x, None, [1.5, 2.0]],
    F.interpolate(x, scale_factor=(1.5, 2.0)),
)
case(
    "bilinear_size",
    "aten::upsample_bilinear2d.vec_out",
    [x, [10, 9], True, None],
    F.interpolate(x, (10, 9), mode="bilinear", align_corners=True),
    tolerance=ROUND,
)
case(
    "bilinear_factors",
    "aten::upsample_bilinear2d.vec_out",
    [x, None, False, [1.5, 2.0]],
    F.interpolate(x, scale_factor=(1.5, 2.0), mode="bilinear"),
    tolerance=ROUND,
)

table = torch.randint(-128, 128, (256,), dtype=torch.int8)
pixels = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8)
for name, of, least in (("int8", codes, -128), ("uint8", pixels, 0), ("bool", pixels > 99, 0)):
    case(f"lookup_{name}", "deuteron::lookup.out", [of, table], table[of.long() - least])

recorder.write("moving")
