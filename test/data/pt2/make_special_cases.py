"""Makes the small .pt2 files of this folder that have special functions, quantiles, groups of rows
and sizes of constants, with PyTorch 2.13. NAME.npz holds input_I and output_I as PyTorch computes
them.

    python make_special_cases.py [NAME...]
"""
import torch
from make_pt2_cases import CASES, case, make, rand
from torch import nn
from torch.nn import functional as F

CASES.clear()


def with_gaps(*shape):
    x = rand(*shape)
    x[x > 0.4] = torch.nan
    return x


def numbers(*shape):
    return torch.complex(rand(*shape), rand(*shape))


# The name that Hugging Face's experts have in an export.
@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped_mm_fallback(
    input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor
) -> torch.Tensor:
    output = torch.zeros(input.shape[0], weight.shape[2])
    start = 0
    for group, end in enumerate(offs.tolist()):
        output[start:end] = input[start:end] @ weight[group]
        start = end
    return output


@grouped_mm_fallback.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])


@case(rand(7, 5), rand(7, 3), strict=False)
class experts(nn.Module):
    """A mixture of experts: rows sorted by the expert that a score chooses, products with each
    one's matrix, in the middle groups without rows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(41)
        self.up = nn.Parameter(0.3 * torch.randn(6, 4, 5))
        self.down = nn.Parameter(0.3 * torch.randn(6, 4, 5))

    def forward(self, x, scores):
        expert = (2 * scores.argmax(1)).flatten()
        sorted_experts, order = torch.sort(expert)
        counts = torch.histc(sorted_experts.float(), bins=6, min=0, max=5)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        op = torch.ops.transformers.grouped_mm_fallback
        hidden = F.silu(op(x[order], self.up.transpose(-2, -1), ends))
        back = torch.empty_like(order)
        back[order] = torch.arange(7)
        return op(hidden, self.down, ends)[back], op(x[order], self.up.mT, (ends - 2).clamp(min=0))


def whole(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-3, 4, shape, generator=generator).to(torch.bfloat16)


@case(
    whole(8, 8),
    whole(3, 8, 8),
    torch.tensor([3, 3, 8], dtype=torch.int32),
    strict=False,
)
class grouped_products(nn.Module):
    """Groups of rows, of columns, and of what is summed over; whole numbers, which bfloat16 holds."""

    def forward(self, x, matrices, ends):
        return (
            torch._grouped_mm(x, matrices, ends),
            torch._grouped_mm(matrices, x, ends),
            torch._grouped_mm(x, x.clone(), ends),
        )


@case(rand(5, 7), with_gaps(5, 7), rand(3).abs(), torch.tensor([2, 0, 3]))
class ranks_and_segments(nn.Module):
    """Quantiles of tensors, also of computed ones, and medians, of elements that are numbers;
    reductions in segments that an input gives, one without rows."""

    def forward(self, x, gaps, q, lengths):
        known = torch.tensor([0.1, 0.5, 0.77])
        segments = [
            torch.segment_reduce(x, how, lengths=lengths, unsafe=True)
            for how in ("sum", "prod", "mean")
        ]
        return (
            torch.quantile(x, q, dim=1),
            torch.quantile(x, known, dim=0, keepdim=True),
            torch.quantile(x, q[0], interpolation="nearest"),
            torch.quantile(x, q, dim=1, interpolation="midpoint"),
            torch.quantile(x, q, interpolation="higher"),
            torch.quantile(x, q, dim=0, interpolation="lower"),
            torch.nanquantile(gaps, 0.3, dim=1),
            torch.nanquantile(gaps, known, dim=0).nan_to_num(7),
            torch.nanquantile(gaps, 0.66),
            gaps.nanmedian(),
            *gaps.nanmedian(1),
            gaps.nanmedian(0, keepdim=True)[0],
            torch.full_like(gaps, torch.nan).nanmedian(1)[0].nan_to_num(7),
            segments[0],
            segments[1],
            segments[2].nan_to_num(7),
            torch.segment_reduce(x, "max", lengths=lengths, initial=-2, unsafe=True),
            torch.segment_reduce(x, "mean", lengths=lengths, initial=0.5, unsafe=True),
        )


@case(rand(4, 9), 2 + 2 * rand(4, 5), rand(2, 5, 5), torch.arange(-15, 15).reshape(2, 3, 5))
class special_functions(nn.Module):
    """The gamma function's logarithm and derivatives, Bessel functions, exponentials of matrices,
    fractions and exponents, divisors, pools of integers beyond what float holds."""

    def forward(self, x, y, matrices, whole):
        big = whole * 2**40 + 1
        special = torch.special
        wide = x * torch.tensor([1e-30, 1e-3, 0, 1, 2, 8, 1e5, 1e20, 1e38])
        return (
            torch.lgamma(y),
            torch.digamma(y + 1),
            0.1 * torch.polygamma(1, y + 1),
            0.1 * torch.polygamma(3, y + 1),
            0.1 * torch.lgamma(-3.5 + 0.4 * x),
            0.1 * torch.digamma(-3.5 + 0.4 * x),
            torch.i0(x),
            special.i0e(30 * x),
            special.i1(x),
            special.i1e(30 * x),
            special.erfcx(y),
            0.01 * special.erfcx(-0.5 * y),
            torch.matrix_exp(0.5 * matrices),
            1e-3 * torch.matrix_exp(2 * matrices[0]),
            *torch.frexp(wide),
            torch.gcd(whole, whole[0, 1] * 6),
            torch.lcm(whole, torch.tensor(12)),
            torch.gcd(whole.int(), torch.tensor(0, dtype=torch.int32)),
            F.max_pool2d(big, (2, 3), 1, (1, 0)),
            F.max_pool2d(big.int(), 2, ceil_mode=True),
            torch.as_strided_scatter(x, y[:2, :3], (2, 3), (10, 2), 1),
        )


@case(numbers(2, 5, 5), rand(3, 6))
class complex_inverses(nn.Module):
    """Determinants, inverse functions and Hermitian transforms of complex numbers."""

    def forward(self, x, real):
        return (
            torch.linalg.det(x),
            torch.linalg.det(x[0, 1:3, 1:3]),
            x.asinh(),
            x.acosh(),
            x.asin(),
            x.acos(),
            x.atan(),
            (0.5 * x).atanh(),
            0.1 * torch.fft.hfft(x),
            torch.fft.hfft(x, n=7, dim=1, norm="ortho"),
            torch.fft.hfft2(x, norm="forward"),
            torch.fft.ihfft(real),
        )


@case(rand(4, 5), torch.tensor([[1, 4, 1], [0, 2, 1]]), strict=False)
class bounded_parts(nn.Module):
    """Slices up to elements of constants, and rows of tables at a bounded length, of which one is
    also a layer's weight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(42)
        self.register_buffer("counts", torch.tensor([2, 3]))
        self.table = nn.Embedding(6, 3, max_norm=0.8)
        self.tied = nn.Embedding(5, 3, max_norm=0.5, norm_type=1)

    def forward(self, x, index):
        count = self.counts[0].item()
        first = x[:, :count]
        looked_up = self.tied(index)
        return (
            first.relu() * 2,
            first.reshape(-1),
            torch.cat([first, first], 1).sum(1),
            x[self.counts[1].item() :],
            self.table(index),
            looked_up @ self.tied.weight.T,
        )


@case(
    torch.tensor([[4099, -3, 1 << 33], [7, 0, -1]]),
    torch.tensor([[4099, -46341, 3], [7, 0, -1]], dtype=torch.int32),
    torch.tensor([[100, -3, 13], [7, 0, -1]], dtype=torch.int8),
    torch.tensor([[2, 63, -1], [19, 0, -3]]),
)
class integer_powers(nn.Module):
    """Powers of integers wrap: by numbers, by tensors of the same and of another width, of a
    number; and shifts by a tensor of places."""

    def forward(self, x, y, z, exponent):
        places = exponent.abs()
        return (
            x**2,
            y**2,
            z**2,
            z**0,
            z**5,
            x**41,
            x**exponent,
            y**exponent,
            z ** exponent.to(torch.int8),
            (-3) ** places,
            2 ** places.to(torch.int32),
            x << places,
            y.clamp(-100, 100) ** 2.0,
        )


@case(torch.tensor([[3e8, 1e8, 2e8, -4e9, 5e7], [2e7, 4e7, 6e7, 3e7, 5e7]]))
class far_order(nn.Module):
    """The order of numbers of which the least minus one is itself in float32."""

    def forward(self, x):
        same = torch.zeros_like(x) - 1e20
        return (
            *torch.sort(x, stable=True),
            *torch.topk(x, 3),
            torch.sort(x + 1e10, descending=True, stable=True)[1],
            torch.sort(-1e12 - x, stable=True)[1],
            torch.sort(same, stable=True)[1],
        )


@case(rand(5, 4), torch.tensor([4, -1, -5, 2, 0]))
class counted_from_end(nn.Module):
    """Indices that are inputs, and of which some are negative."""

    def forward(self, x, index):
        return (
            x[index],
            x[:, index.clamp(max=3).clamp(min=-4)],
            torch.take(x, index * 4),
            torch.take_along_dim(x, index.view(5, 1).clamp(-4, 3), 1),
            x.index_fill(0, index, 2.5),
        )


@case(rand(3, 4), torch.tensor([[0, 3], [1, 0]]))
class added_along(nn.Module):
    """Sums at places along the last dimension, whose indices are an input."""

    def forward(self, x, index):
        return x.scatter_add(1, index, x)


@case(
    rand(2, 3, 5),
    rand(3, 2, 4),
    torch.tensor([[[1, 0, 4, 1], [0, 0, 1, 1]], [[1, 1, 4, 0], [0, 2, 1, 4]]]),
    torch.tensor([[[9, -2, 5], [-7, 4, 4], [3, 0, -1]]]),
)
class reduced_parts(nn.Module):
    """Sources that are narrower than the tensor, and indices that are narrower than both."""

    def forward(self, x, source, index, whole):
        planes, rows = index.clamp(max=1), index[:, :, :3].clamp(max=2)
        some, rest = whole[:, :2] * 3, whole[:, :, 1:] - 1
        of_whole = rest.clamp(0, 2)
        return (
            x.scatter_reduce(2, index, source, "amax"),
            x.scatter_reduce(2, index, source, "amin", include_self=False),
            x.scatter_reduce(1, rows, source, "prod"),
            x.scatter_reduce(1, rows[:1], source, "prod", include_self=False),
            x.scatter_reduce(0, planes, source, "amax", include_self=False),
            x.scatter_reduce(0, planes, source, "mean"),
            whole.scatter_reduce(1, of_whole[:, :2], some, "amax"),
            whole.scatter_reduce(1, of_whole, rest, "prod"),
            whole.scatter_reduce(2, of_whole, rest, "mean", include_self=False),
            whole.scatter_reduce(2, of_whole, rest, "amin", include_self=False),
        )


@case(
    torch.tensor([[1.0, 3, 2, -1, 4], [5, 1, 2, 2, 1]]),
    torch.tensor([[0, 1, 0, 1, 0], [1, 1, 0, 0, 1]]),
)
class masked_order(nn.Module):
    """The order of numbers of which a mask makes several infinite."""

    def forward(self, x, masked):
        low = x.masked_fill(masked == 1, -torch.inf)
        high = torch.where(masked == 1, torch.inf, x)
        return (
            *torch.sort(low, descending=True, stable=True),
            *torch.sort(high, stable=True),
            torch.topk(low, 4)[0],
        )


@case(torch.tensor([-128, 127, -7, 12345678901234567, -1]), torch.tensor([0, 3, 53, -1, 70]))
class shifted_right(nn.Module):
    """Right shifts by places that are an input, of which some are beyond the width."""

    def forward(self, x, places):
        narrow = x.clamp(-128, 127).to(torch.int8)
        return (
            x >> places,
            x.clamp(-(2**31), 2**31 - 1).to(torch.int32) >> places.to(torch.int32),
            narrow >> places.to(torch.int8),
            narrow >> 9,
        )


@case(torch.tensor([-(2**63), 2**63 - 1, -7, 0, 1]), torch.tensor([63, 62, 1, 64, 63]))
class shifted_far(nn.Module):
    """Shifts of int64 by the 63 places that leave the sign, known and computed."""

    def forward(self, x, places):
        return x >> places, x << places, x >> 63, x << 63, x >> torch.tensor([63, 62, 1, 64, 0])


@case(rand(4, 3, 2), rand(3, 3, 2), torch.tensor([2, 0, 2]), rand(5), rand(3))
class reduced_by_index(nn.Module):
    """Rows reduced to those that an index names; the first places that are not zero; boundaries in
    an order."""

    def forward(self, x, source, index, boundaries, values):
        order = torch.argsort(boundaries, stable=True)
        return (
            *(
                x.index_reduce(0, index, source, by, include_self=own)
                for by in ("prod", "mean", "amax", "amin")
                for own in (True, False)
            ),
            torch.nonzero_static(x > 0, size=5),
            torch.nonzero_static(boundaries > 0.3, size=7, fill_value=-3),
            torch.searchsorted(boundaries, values, sorter=order),
        )


@case(
    torch.tensor([-1, -0.999, -0.5, -1e-4, 0, 0.3, 0.9, 0.99999, 1, 1.5]),
    torch.tensor([0, 1e-30, 1e-9, 1e-4, 0.02, 0.5, 0.7, 0.9999, 1, 2]),
    torch.tensor([-4, -3.0, -0.5, 0, 0.7, 2, 5, 8]),
)
class inverse_functions(nn.Module):
    """Inverses of the error function and of a normal distribution, and its logarithm; Bessel
    functions; x log x below zero."""

    def forward(self, x, p, y):
        return (
            torch.erfinv(x),
            torch.special.ndtri(p),
            torch.special.log_ndtr(y),
            torch.special.bessel_j0(y),
            torch.special.bessel_j1(y),
            torch.special.bessel_j0(y * 5),
            torch.special.bessel_j1(y * 5),
            torch.special.entr(x),
        )


if __name__ == "__main__":
    make(CASES, list(CASES))
