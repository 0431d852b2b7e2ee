"""Makes the small .pt2 files of this folder that have control flow, open dimensions or operators
that dissolve into others, with PyTorch 2.13. NAME.npz holds input_I and output_I as PyTorch
computes them, for open dimensions at another size than the export's.

    python make_control_cases.py [NAME...]
"""
import torch
from make_pt2_cases import CASES, case, make, rand
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

CASES.clear()
HALF, BATCH = torch.export.Dim("half", min=3, max=20), torch.export.Dim("batch", max=9)


@case(rand(3, 4), rand(3, 4).abs())
class branches(nn.Module):
    """torch.cond on a computed, a constant and a nested condition, with several results and
    weights that the branches do not share."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(12)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        def positive(v):
            return self.a(v), v + 1

        def negative(v):
            return self.b(v), torch.cond(v.amax() > 5, torch.sin, torch.cos, (v,))

        computed = [torch.cond(v.sum() > 0, positive, negative, (v,)) for v in (x, y)]
        known = torch.cond(torch.ones(3).sum() > 2, torch.neg, torch.abs, (x,))
        return *computed[0], *computed[1], known


@case(rand(3, 5, 4), rand(4))
class loops(nn.Module):
    """while_loop over a counter, scan backwards with state, map over two tensors, one in another."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(13)
        self.cell = nn.Linear(4, 4)

    def forward(self, x, y):
        def step(i, v):
            return i + 1, torch.tanh(self.cell(v)) + 0.1 * i

        _, counted = while_loop(lambda i, v: i < 5, step, (torch.tensor(0), x))
        state, outputs = scan(
            lambda h, v: (torch.tanh(self.cell(v) + h), h - v),
            torch.zeros(3, 4),
            x,
            dim=1,
            reverse=True,
        )
        mapped = map_over(lambda v, w: map_over(lambda u: u * w, v) + w, x, y)
        return counted, state, outputs, mapped


@case(rand(3, 4), strict=False)
class regions(nn.Module):
    """Regions of autocast and of gradients that are off."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(14)
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = self.layer(x)
        with torch.no_grad():
            y = y * 2
        return torch.relu(y)


@case(rand(4))
class open_loop(nn.Module):
    """A loop whose number of steps depends on elements."""

    def forward(self, x):
        return while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,))[0]


@case(
    rand(2, 3, 12, 10),
    rand(2, 6),
    dynamic={
        "x": {0: BATCH, 2: 2 * HALF, 3: torch.export.Dim.AUTO},
        "y": {0: BATCH},
    },
    strict=False,
    other=(rand(3, 3, 8, 7), rand(3, 6)),
)
class open_sizes(nn.Module):
    """Symbols in shapes, slices, numbers and conditions, of a batch, an even height with a range and
    a width that a convolution constrains."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(15)
        self.conv, self.last = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Linear(4, 6)

    def forward(self, x, y):
        batch, _, height, width = x.shape
        h = torch.relu(self.conv(x))
        h = F.interpolate(h, scale_factor=2.0)
        pooled = h.flatten(2).mean(2) * height**-0.5 + width // 3
        joined = torch.cat([self.last(pooled), y[:, :6]], 0).reshape(batch * 2, -1)
        rows = torch.arange(batch).to(x.dtype)[:, None] * y
        return joined, x[:, :, 1 : height // 2].sum((1, 2)), rows, x.view(batch * 3, -1)[:, -3:]


@case(rand(2, 3), rand(2, 3), dynamic=({0: BATCH}, {0: BATCH}))
class related_sizes(nn.Module):
    """strict=True gives equal dimensions symbols of their own, and a condition."""

    def forward(self, x, y):
        return torch.cat([x, y]).reshape(x.shape[0] * 2, -1)


@case(
    torch.tensor([3, 1, 4, 1, 5, 0, 2]),
    torch.tensor([[1, 2], [0, 5], [3, 3]]),
    rand(7),
    torch.tensor([0, 2, 2, 5]),
)
class bags(nn.Module):
    """Bags of embeddings: of different sizes (one is empty), of one size, weighted, padded."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(16)
        self.table = nn.Parameter(torch.randn(6, 3))
        self.register_buffer("offsets", torch.tensor([0, 2, 2, 6]))

    def forward(self, x, pairs, w, places):
        def bag(*args, **options):
            return F.embedding_bag(*args, self.table, **options)

        results = [bag(x, offsets=self.offsets, mode=mode) for mode in ("sum", "mean", "max")]
        results += [bag(pairs, mode=mode) for mode in ("sum", "mean", "max")]
        results.append(bag(x, offsets=self.offsets, per_sample_weights=w, mode="sum"))
        results.append(bag(x, offsets=self.offsets, mode="mean", padding_idx=1))
        ends = torch.tensor([0, 3, 7])
        results.append(bag(x, offsets=ends, mode="sum", include_last_offset=True))
        results.append(bag(x, offsets=places, mode="max"))
        results.append(bag(x, offsets=self.offsets, mode="max", padding_idx=1))
        for mode in ("sum", "mean", "max"):  # the last rows are in no bag
            ends = torch.tensor([0, 3, 3, 5])
            results.append(bag(x, offsets=ends, mode=mode, include_last_offset=True))
            results.append(bag(x, offsets=places, mode=mode, include_last_offset=True))
        return results


@case(rand(3, 5), rand(2, 3, 5), rand(5).round(decimals=1))
class small_functions(nn.Module):
    """Signs and fractions, diagonals and blocks, least and greatest."""

    def forward(self, x, y, z):
        zeros = torch.relu(x)
        rows, columns = torch.tril_indices(4, 5, 1)
        return (
            torch.hypot(x, z),
            torch.copysign(x, z),
            torch.copysign(x, -2.0),
            torch.heaviside(zeros, z),
            torch.frac(7 * x),
            torch.signbit(x),
            torch.round(10 * x, decimals=1),
            torch.round(1000 * x, decimals=-2),
            *torch.aminmax(x),
            *torch.aminmax(y, dim=1, keepdim=True),
            torch.renorm(y, 2, 1, 1.5),
            torch.diag_embed(y),
            torch.diag_embed(x, offset=2, dim1=0, dim2=2),
            torch.diag_embed(x, offset=-1),
            torch.block_diag(x, z, y[0, :2, :2]),
            rows * 10 + columns,
            torch.triu_indices(3, 4, -1),
        )


@case(rand(2, 4, 3, 5, 2), rand(3, 2, 2, 3))
class transposed_volumes(nn.Module):
    """Transposed convolutions over three dimensions: strides, groups, dilation, paddings."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(17)
        self.a = nn.ConvTranspose3d(
            4, 6, (3, 2, 3), stride=(2, 1, 3), padding=(1, 0, 2), output_padding=(1, 0, 2), groups=2
        )
        self.b = nn.ConvTranspose3d(3, 2, 2, dilation=(3, 1, 2), bias=False)

    def forward(self, x, y):
        return self.a(x), self.b(y)


@case(
    torch.randint(-99, 99, (3, 4), dtype=torch.int32),
    torch.randint(-9, 9, (4,), dtype=torch.int8),
    torch.tensor([0, 1, 3, 6]),
)
class shifts(nn.Module):
    """Shifts of bits by numbers, by known and by computed places."""

    def forward(self, x, narrow, places):
        return (
            x << 3,
            x >> 2,
            x << 31,
            x >> 31,
            narrow << 6,
            narrow >> 1,
            x.long() << places,
            x >> places,
            torch.bitwise_left_shift(x, torch.tensor([0, 5, 31, 2], dtype=torch.int32)),
            torch.bitwise_right_shift(narrow, torch.tensor(2, dtype=torch.int8)),
            torch.bitwise_left_shift(narrow, 1),
            torch.bitwise_right_shift(x, 4),
        )


@case(rand(3, 4, 4) + 2 * torch.eye(4), rand(5, 6), rand(4))
class norms_and_diagonals(nn.Module):
    """linalg.norm in all its forms, matrices of 4 × 4, diagonals that are replaced."""

    def forward(self, x, y, z):
        norm = torch.linalg.norm
        return (
            norm(x),
            norm(y, dim=1),
            norm(y, ord=1, dim=0, keepdim=True),
            norm(z, ord=3),
            norm(z, ord=float("inf")),
            norm(y, ord=1),
            norm(y, ord="fro"),
            norm(x, ord=float("inf"), dim=(0, 2)),
            norm(x, dim=(-1, 0)),
            norm(y, dtype=torch.float32),
            torch.det(x),
            torch.linalg.inv(x),
            torch.linalg.solve(x, y[:4, :2]),
            x.diagonal_scatter(y[:3, :3], 1, 1, 2),
            x.diagonal_scatter(y[:4, :3], 0, 0, 1),
            y.diagonal_scatter(z, 2),
            y.diagonal_scatter(z, -1),
            y.diagonal_scatter(y[0, :5]),
        )


@case(rand(6, 5), rand(6, 5), rand(6, 5))
class distances(nn.Module):
    """Losses of pairs and triples."""

    def forward(self, x, y, z):
        signs = torch.tensor([1.0, -1, 1, -1, -1, 1])
        pair, triple = F.cosine_embedding_loss, F.triplet_margin_loss
        return (
            pair(x, y, signs),
            pair(x, y, signs, margin=0.3, reduction="none"),
            pair(x, y, -signs, reduction="sum"),
            triple(x, y, z),
            triple(x, y, z, margin=0.5, p=1, reduction="none"),
            triple(x, y, z, swap=True, reduction="sum"),
        )


@case(
    rand(2, 3, 5, 7),
    torch.arange(6, dtype=torch.int64).reshape(2, 3),
    torch.tensor([[True, False, True], [False, False, True]]),
    strict=False,
)
class other_names(nn.Module):
    """In-place forms whose overloads have other names, windows larger than their operand, powers
    and padding of integers."""

    def forward(self, x, whole, mask):
        squares, halves = x.clone().abs(), 4 * x.clone()
        squares.pow_(1.5)
        squares.pow_(torch.tensor(2.0))
        halves.floor_divide_(torch.tensor(0.5))
        bits, both = whole.clone(), mask.clone()
        bits |= 9
        bits &= 13
        bits ^= 2
        both |= whole > 4
        pooled = F.avg_pool2d(x, 16, ceil_mode=True)
        tall = F.max_pool2d(x, (9, 2), ceil_mode=True)
        return (
            squares,
            halves,
            bits,
            both,
            pooled,
            tall,
            F.avg_pool2d(x, (16, 3), (16, 2), ceil_mode=True, count_include_pad=False),
            F.max_pool1d(x[0], 20, ceil_mode=True),
            2.0**whole,
            3**whole,
            F.pad(whole, (1, 2, 0, 1), value=-7),
            F.pad(mask, (2, -1), value=True),
        )


def numbers(*shape):
    return torch.complex(rand(*shape), rand(*shape))


@case(rand(2, 3, 10, 7), strict=False)
class spectral_convolution(nn.Module):
    """A Fourier neural operator's layer: the low frequencies are multiplied by complex weights and
    written to a spectrum of zeros."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(31)
        self.low, self.high = (nn.Parameter(numbers(3, 2, 3, 2)) for _ in range(2))

    def forward(self, x):
        spectrum = torch.fft.rfft2(x)
        out = torch.zeros(2, 2, 10, 4, dtype=torch.cfloat)
        out[:, :, :3, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :3, :2], self.low)
        out[:, :, -3:, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -3:, :2], self.high)
        return torch.fft.irfft2(out, s=(10, 7))


@case(numbers(2, 3, 5), numbers(5, 4), rand(3, 5), rand(3, 5) > 0, torch.tensor([2, 0, 2]))
class complex_moves(nn.Module):
    """Elements of complex tensors moved, replaced, added up and written in place, beside real ones."""

    def forward(self, x, y, real, mask, index):
        made = torch.zeros_like(x) + torch.ones(5, dtype=torch.cfloat) + torch.full((5,), 1 - 2j)
        written = x.clone()
        written[:, 1] = 0
        written[0] *= 2j
        written.mT[1, 0] = real[0, :3].to(torch.cfloat)
        written[1].real.add_(1)
        torch.view_as_real(written)[..., 1].mul_(3)
        return (
            made,
            written,
            torch.where(mask, x, real),
            torch.where(mask, x[0], 2j),
            x.masked_fill(mask, 1.5),
            torch.cat([x, real[None]]),
            torch.stack([x, x.conj()], 1).mH,
            F.pad(x, (1, 2, 0, 1), value=-1),
            torch.zeros_like(y).index_put((index,), y[:3], accumulate=True),
            x.index_select(1, index),
            x.chunk(2, 2)[1].unbind(0)[1],
            x.view(torch.float32),
            x.cumsum(1),
            x == x.real,
            real.to(torch.cfloat) * torch.tensor([1 + 2j], dtype=torch.complex128),
        )


@case(numbers(2, 3, 5), numbers(2, 3, 5), rand(2, 3, 5), strict=False)
class complex_layers(nn.Module):
    """Products: layers with complex weights, of vectors and matrices, of three tensors."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(32)
        self.linear = nn.Linear(5, 4, dtype=torch.cfloat)
        self.conv = nn.Conv1d(3, 2, 3, padding=1, dtype=torch.cfloat)
        self.back = nn.ConvTranspose1d(3, 2, 2, stride=2, bias=False, dtype=torch.cfloat)

    def forward(self, x, y, real):
        matrix, vector = x[0], y[1, 2]
        return (
            self.linear(x),
            self.conv(x),
            self.back(real.to(torch.cfloat)),
            torch.addmm(y[0, :, :3], matrix, y[1].mH, beta=0.5, alpha=2),
            torch.baddbmm(x, x @ y.mT, y),
            matrix @ vector,
            torch.vdot(matrix[1], vector),
            F.linear(x, vector),
            torch.linalg.vecdot(x, y),
            torch.outer(matrix[1], real[0, 0]),
            torch.einsum("bij,bkj,bk->bi", x, y, real[..., 0].to(torch.cfloat)),
            torch.addcdiv(x, y, real + 2j, value=0.5),
            torch.linalg.solve(x[..., :3] + 2j * torch.eye(3), y),
            torch.linalg.solve(x[0, :, :3] + 2j * torch.eye(3), vector[:3]),
            torch.linalg.inv(x[..., :3] + 2j * torch.eye(3)),
        )


@case(numbers(3, 5), numbers(3, 5))
class complex_powers(nn.Module):
    """Functions of complex numbers, and reductions of them."""

    def forward(self, x, y):
        return (
            x**3,
            x**-1,
            x**0.7,
            torch.pow(x, y),
            torch.pow(1.5, y),
            torch.sin(x) + torch.cos(y),
            torch.tan(x),
            torch.tanh(20 * x),
            torch.sigmoid(x),
            torch.sgn(x),
            torch.log10(x) + torch.rsqrt(y),
            x.norm(dim=1),
            torch.linalg.vector_norm(x),
            x.var(1),
            x.std(),
            x.prod(1),
            x.cumprod(1),
            x.isfinite(),
        )


@case(rand(2, 7), torch.tensor([3, 1]))
class constant_numbers(nn.Module):
    """Elements of constants as sizes and numbers, and of inputs where only assertions need them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sizes", torch.tensor([[2, 2], [1, 3]]))
        self.register_buffer("scale", torch.tensor(0.75))

    def forward(self, x, lengths):
        sizes = [height * width for height, width in self.sizes.tolist()]
        torch._check(lengths.max().item() <= 16)
        torch._assert_async((lengths > 0).all())
        first, second = x.split(sizes, 1)
        return (
            first * self.scale.item(),
            second.sum(1) + sizes[0],
            x.repeat(1, self.sizes[1, 1].item()),
        )


@case(rand(3, 5, 5), rand(5), strict=False)
class singular(nn.Module):
    """What PyTorch says of matrices that have no inverse or root, and of columns of zeros."""

    def forward(self, x, v):
        whole = 0.2 * x + torch.eye(5)[[2, 0, 1, 4, 3]]
        drop = torch.tensor([1.0, 1, 1, 0, 1])
        flat = whole * torch.stack([torch.ones(5), drop, torch.zeros(5)])[:, None]
        positive = whole @ whole.mT + torch.eye(5)
        signs = torch.stack([torch.ones(5), 2 * drop - 1.001, -torch.ones(5)])[:, None]
        sign, size = torch.linalg.slogdet(flat)
        upper = torch.triu(whole) + 3 * torch.diag(torch.sign(v))
        return (
            sign,
            size.clamp(min=-50.0),
            torch.logdet(flat[2]).clamp(min=-50.0),
            torch.linalg.inv_ex(flat)[1],
            torch.linalg.inv_ex(flat[:, :3, :3] * drop[1:4])[1],
            torch.linalg.cholesky_ex(positive)[1],
            torch.linalg.cholesky_ex(positive * signs)[1],
            *torch.linalg.qr(upper[0]),
            *torch.linalg.qr(torch.diag(v)),
        )


@case(rand(2, 5, 5), rand(6, 4), rand(4), strict=False)
class eigen(nn.Module):
    """Eigenvalues, singular values and what is made of them, of an odd and an even number, of
    matrices with more rows than columns and fewer, equal values and values of zero. Vectors as
    projections, for their signs are free."""

    def forward(self, x, tall, vector):
        whole = 0.5 * (x + x.mT)
        values, vectors = torch.linalg.eigh(whole)
        results = [values, (vectors * values[:, None]) @ vectors.mT, vectors.mT @ vectors]
        results += [vectors[..., :2] @ vectors[..., :2].mT, torch.linalg.eigvalsh(x, UPLO="U")]
        values, vectors = torch.linalg.eigh(torch.diag(vector.sign()))
        results += [values, (vectors * values) @ vectors.mT]
        for matrix in (tall, tall.mT, torch.outer(vector, vector)):
            left, values, right = torch.linalg.svd(matrix)
            count = len(values)
            results += [values, (left[:, :count] * values) @ right[:count], left.mT @ left]
            results += [torch.linalg.pinv(matrix), torch.linalg.matrix_rank(matrix)]
        left, values, right = torch.linalg.svd(tall.mT, full_matrices=False)
        results += [(left * values) @ right, right @ right.mT]
        left, values, right = torch.svd(tall)
        results += [(left * values) @ right.mT, torch.svd(tall.mT, compute_uv=False)[1]]
        results += [torch.linalg.svdvals(x), torch.linalg.pinv(x, rtol=0.3), torch.pinverse(tall)]
        results += [torch.linalg.pinv(whole, atol=0.4, hermitian=True)]
        results += [torch.linalg.pinv(x, atol=torch.tensor([0.1, 1.0]), rtol=torch.tensor(0.2))]
        results += [torch.linalg.matrix_rank(x, atol=0.5), torch.linalg.cond(tall)]
        results += [torch.linalg.cond(tall, -2), torch.linalg.norm(tall, "nuc")]
        results += [torch.linalg.matrix_norm(x, 2, dim=(0, 2), keepdim=True)]
        results += [torch.linalg.matrix_norm(x, -2), torch.linalg.eigvalsh(vector[:1, None])]
        values, vectors = torch.linalg.eigh(whole * 1e8)
        results += [values / 1e8, vectors.mT @ vectors, torch.linalg.svd(tall * 1e9)[2] ** 2]
        steep = torch.diag(vector[:2].abs() * torch.tensor([1, 1e-9]))
        results += [torch.pinverse(steep) * torch.tensor([1, 1e-9])]
        results += [torch.linalg.pinv(steep, atol=0.0)]
        results += [torch.linalg.matrix_rank(steep, atol=0.0)]
        return tuple(results)


@case(rand(2, 5, 5), rand(2, 5, 3), rand(5), rand(7, 4), rand(2, 3, 3), strict=False)
class linear_algebra(nn.Module):
    """Determinants, inverses, systems of equations and factorizations, with pivots that are not the
    first element, of triangles, of matrices with more rows than columns and fewer."""

    def forward(self, x, y, vector, tall, small):
        order = torch.eye(5)[[2, 0, 1, 4, 3]]
        x, small = 0.2 * x + order, 0.2 * small + torch.eye(3)[[1, 2, 0]]
        vector = 1 + 0.2 * vector
        positive = x @ x.mT + torch.eye(5)
        lower, upper = torch.linalg.cholesky(positive), torch.linalg.cholesky(positive, upper=True)
        triangle = x + 3 * torch.eye(5)
        return (
            torch.linalg.det(x),
            torch.linalg.det(order * vector),
            *torch.linalg.slogdet(x),
            *torch.slogdet(small),
            torch.logdet(positive),
            torch.linalg.inv(x),
            torch.inverse(order * vector),
            torch.linalg.solve(x, y),
            torch.linalg.solve(x, y.mT, left=False),
            torch.linalg.solve(x[0], vector),
            torch.linalg.solve(small, y[:, :3], left=True),
            lower,
            upper,
            torch.cholesky_solve(y, lower),
            torch.cholesky_solve(y, upper, upper=True),
            torch.cholesky_inverse(lower[1]),
            torch.linalg.solve_triangular(triangle, y, upper=True),
            torch.linalg.solve_triangular(triangle, y, upper=False, unitriangular=True),
            torch.linalg.solve_triangular(triangle, y.mT, upper=False, left=False),
            torch.triangular_solve(y, triangle, upper=False, transpose=True)[0],
            *torch.linalg.qr(tall),
            *torch.linalg.qr(tall.mT),
            *torch.linalg.qr(tall, mode="complete"),
            torch.linalg.qr(x, mode="r")[1],
            torch.linalg.matrix_power(small, -3),
            torch.linalg.matrix_power(x, -1),
            torch.matrix_power(x, 0),
        )


@case(
    torch.arange(-7, 8).reshape(3, 5),
    torch.arange(20).reshape(5, 4) % 7 - 3,
    torch.tensor([3, -1, 4, 1, -5]),
)
class whole_products(nn.Module):
    """Products of integers, also beyond what float32 holds."""

    def forward(self, x, y, vector):
        return (
            x @ y,
            x @ vector,
            (x * 2**28) @ (y * 2**21 + 1),
            x.int() @ y.int(),
            torch.bmm(x[None].repeat(2, 1, 1), torch.stack([y, y + 1])),
            torch.addmm(y[:3], x, y, beta=2, alpha=3),
            torch.einsum("ij,jk->ki", x, y),
            F.linear(x, torch.arange(10).reshape(2, 5)),
            torch.tensordot(x, y, 1),
            vector.dot(y[:, 1]),
        )


@case(numbers(2, 2), numbers(2, 2), numbers(2, 2), rand(2, 2))
class signs(nn.Module):
    """Signs that turn: products of three complex tensors, adjoints, one part that is infinite, and
    pivots below zero beside tiny ones."""

    def forward(self, x, y, z, real):
        tiny = torch.tensor([[1e-14, 1.0], [-1.0, 1.0]])
        infinite = torch.tensor([[float("inf"), 1.0], [1.0, float("inf")], [1.0, 2.0]])
        return (
            torch.einsum("ij,kj,lj->ikl", x, y, z),
            x.mH @ y,
            torch.view_as_complex(infinite).isfinite(),
            torch.view_as_complex(infinite).isinf(),
            torch.linalg.solve(tiny, real),
        )


@case(rand(2, 3))
class changing_number(nn.Module):
    """An element of a buffer that each run changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(2.0))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count.item()


@case(rand(3, 5), rand(3, 5).flip(0), torch.tensor([4, 1]), torch.tensor(-2), strict=False)
class number_indices(nn.Module):
    """Elements of tensors as indices, which the export takes as numbers."""

    def forward(self, x, y, several, single):
        return x[:, several[0]], y[several[1]] * 2, (x + y)[..., single]


@case(rand(3, 5), rand(3, 5).flip(0))
class out_arguments(nn.Module):
    """Results that are written to a tensor, or to a part of one."""

    def forward(self, x, y):
        least = torch.full_like(x, 1)
        for each in (x, y, x - y):
            torch.minimum(least, each, out=least)
        sum_of = torch.empty_like(x)
        torch.add(x, y, alpha=2, out=sum_of)
        rows = torch.zeros(2, 3, 5)
        torch.exp(x, out=rows[1])
        power = torch.empty_like(y)
        return least, sum_of * 2, rows, torch.pow(y.abs(), 1.5, out=power) + power


@case(rand(2, 7))
class running_logarithms(nn.Module):
    """Sums that vanish beside a later one, and those of nothing."""

    def forward(self, x):
        none = F.pad(x, (3, 0), value=float("-inf"))
        return (300 * x).logcumsumexp(1), none.logcumsumexp(1), torch.logaddexp(none, 300 * none)


@case(rand(1, 2000))
class many_extremes(nn.Module):
    """More than can be ordered by comparisons of pairs."""

    def forward(self, x):
        return tuple(x.topk(70))


REFUSED = ("changing_number", "open_loop", "related_sizes")

if __name__ == "__main__":
    make(CASES, [name for name in CASES if name not in REFUSED])
