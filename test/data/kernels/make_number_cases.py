#!/usr/bin/env python3
"""Writes numbers.npz and numbers.json: as make_cases.py, for operators on integers and bools, for
rounded divisions, and for functions that few models have.

    make_number_cases.py            (PyTorch 2.13; one thread)
"""
import torch

from recorder import Recorder

recorder = Recorder("n", seed=11)
case = recorder.case
ROUND = 2e-6  # functions of another library

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def whole(*shape, dtype=torch.int64, low=-100, high=100):
    low = 0 if dtype == torch.uint8 else low
    return torch.randint(low, high, shape, dtype=dtype)


a, b, row = whole(3, 5, 7), whole(3, 5, 7), whole(5, 1)
mask, other = torch.rand(3, 5, 7) > 0.5, torch.rand(5, 1) > 0.5
for name, function in (("add", torch.add), ("sub", torch.sub)):
    case(f"{name}_int64", f"{name}.out", [a, b, 1], function(a, b))
    case(f"{name}_int64_row", f"{name}.out", [row, b, -3], function(row, b, alpha=-3))
for dtype in INTEGERS:
    text = str(dtype).removeprefix("torch.")
    x, y = whole(3, 5, 7, dtype=dtype), whole(3, 5, 7, dtype=dtype)
    case(f"add_wraps_{text}", "add.out", [x, y, 1], x + y)
    case(f"mul_wraps_{text}", "mul.out", [x, y], x * y)
    case(f"abs_{text}", "abs.out", [x], x.abs())
    case(f"neg_{text}", "neg.out", [x], -x)
    case(f"relu_{text}", "relu.out", [x], x.relu())
    case(f"sign_{text}", "sign.out", [x], x.sign())
    case(f"sum_{text}", "sum.IntList_out", [x, [1], False, None], x.sum(1))
    case(f"cumsum_{text}", "cumsum.out", [x, -2, None], x.cumsum(-2))
case("add_bool", "add.out", [mask, other, 1], mask + other)
case("mul_bool", "mul.out", [mask, other], mask * other)
case("maximum_int64", "maximum.out", [a, row], torch.maximum(a, row))
case("minimum_int64", "minimum.out", [a, b], torch.minimum(a, b))
case("clamp_int64", "clamp.out", [a, -20, 30], a.clamp(-20, 30))
case("clamp_int64_low", "clamp.out", [a, -20, None], a.clamp(min=-20))
case("amax_int64", "amax.out", [a, [0, 2], True], a.amax((0, 2), True))
case("amin_int64", "amin.out", [a, [1], False], a.amin(1))
case("amax_bool", "amax.out", [mask, [2], False], mask.any(2))
case("amin_bool", "amin.out", [mask, [0], True], mask.all(0, True))
case("argmax_int64", "argmax.out", [a, 1, False], a.argmax(1))
case("argmin_int64", "argmin.out", [a, None, False], a.argmin())
case("sum_bool", "sum.IntList_out", [mask, [], False, None], mask.sum())
case("cumsum_bool", "cumsum.out", [mask, 0, None], mask.cumsum(0))

x, y = torch.randn(3, 5, 7) * 9, torch.randn(3, 5, 7) * 3
case("cumsum", "cumsum.out", [x, 1, None], x.cumsum(1), tolerance=ROUND)
case("cumsum_scalar", "cumsum.out", [torch.tensor(2.5), 0, None], torch.tensor(2.5))
for name in ("and", "or", "xor"):
    function = getattr(torch, f"bitwise_{name}")
    case(f"bitwise_{name}", f"bitwise_{name}.Tensor_out", [a, row], function(a, row))
    case(f"bitwise_{name}_bool", f"bitwise_{name}.Tensor_out", [mask, other], function(mask, other))
    case(f"bitwise_{name}_number", f"bitwise_{name}.Scalar_out", [a, 29], function(a, 29))
case("bitwise_not", "bitwise_not.out", [a], ~a)
case("bitwise_not_bool", "bitwise_not.out", [mask], ~mask)

divisor = torch.where(b == 0, 7, b)
small = torch.where(y.abs() < 0.1, 1.5, y)
for mode in ("floor", "trunc"):
    case(f"div_{mode}", "div.out_mode", [x, small, mode], torch.div(x, small, rounding_mode=mode))
    case(
        f"div_{mode}_int64",
        "div.out_mode",
        [a, divisor, mode],
        torch.div(a, divisor, rounding_mode=mode),
    )
    case(
        f"div_{mode}_number",
        "div.Scalar_mode_out",
        [x, -2.5, mode],
        torch.div(x, -2.5, rounding_mode=mode),
    )
    case(
        f"div_{mode}_whole",
        "div.Scalar_mode_out",
        [a, -7, mode],
        torch.div(a, -7, rounding_mode=mode),
    )
case("floor_divide", "floor_divide.out", [a, divisor], a // divisor)
for name in ("fmod", "remainder"):
    function = getattr(torch, name)
    case(name, f"{name}.Tensor_out", [x, small], function(x, small), tolerance=ROUND)
    case(f"{name}_int64", f"{name}.Tensor_out", [a, divisor], function(a, divisor))
    case(f"{name}_number", f"{name}.Scalar_out", [x, 2.5], function(x, 2.5), tolerance=ROUND)
    case(f"{name}_whole", f"{name}.Scalar_out", [a, -7], function(a, -7))

unit, positive = torch.rand(3, 5, 7) * 1.9 - 0.95, torch.rand(3, 5, 7) + 0.05
for name in ("asin", "acos", "atanh"):
    case(name, f"{name}.out", [unit], getattr(torch, name)(unit), tolerance=ROUND)
for name in ("asinh", "sinh", "cosh", "tan", "expm1", "trunc"):
    case(name, f"{name}.out", [y], getattr(torch, name)(y), tolerance=ROUND)
for name in ("log1p", "log2", "log10"):
    case(name, f"{name}.out", [positive], getattr(torch, name)(positive), tolerance=ROUND)
case("acosh", "acosh.out", [positive + 1], torch.acosh(positive + 1), tolerance=ROUND)
case("atan2", "atan2.out", [x, y], torch.atan2(x, y), tolerance=ROUND)
case("pow_tensors", "pow.Tensor_Tensor_out", [positive, y], positive**y, tolerance=ROUND)
case("pow_of_number", "pow.Scalar_out", [2.5, y], 2.5**y, tolerance=ROUND)
inside = positive / 1.2
case("logit", "logit.out", [inside, None], torch.logit(inside), tolerance=ROUND)
case("logit_eps", "logit.out", [unit, 0.1], torch.logit(unit, 0.1), tolerance=ROUND)
special = torch.tensor([[1.0, float("inf"), float("nan")], [float("-inf"), 0.0, -2.0]])
case("isinf", "isinf.out", [special], special.isinf())
case("isnan", "isnan.out", [special], special.isnan())

# Bounds that are tensors.
wide = torch.randn(2, 3, 5, 7)
numbers = whole(2, 3, 5, 7, dtype=torch.int32)
low, high = torch.randn(3, 1, 7), torch.randn(2, 1, 5, 1) + 0.5
case("clamp_tensors", "clamp.Tensor_out", [wide, low, high], wide.clamp(low, high))
case("clamp_low", "clamp.Tensor_out", [wide, low, None], wide.clamp(min=low))
case("clamp_high", "clamp.Tensor_out", [wide, None, high], wide.clamp(max=high))
case(
    "clamp_int32",
    "clamp.Tensor_out",
    [numbers, numbers.flip(3), numbers.flip(2)],
    numbers.clamp(numbers.flip(3), numbers.flip(2)),
)

# Powers of integers wrap.
for dtype in INTEGERS:
    text = str(dtype).removeprefix("torch.")
    base, exponent = whole(3, 5, 7, dtype=dtype), whole(5, 1, dtype=dtype, low=-3, high=70)
    case(f"pow_{text}", "pow.Tensor_Tensor_out", [base, exponent], base**exponent)
unit = torch.tensor([[1], [-1], [0], [2]])
minus = torch.tensor([-1, -2, 0, 63, 64])
case("pow_of_unit", "pow.Tensor_Tensor_out", [unit, minus], unit**minus)

recorder.write("numbers")
