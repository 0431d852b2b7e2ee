"""Makes the small .pt2 files of this folder with PyTorch 2.13: exports that the example models do
not contain.

    python make_pt2_cases.py [NAME...]

NAME.pt2 is the program; NAME.npz holds input_I and output_I as PyTorch computes them, for programs
that are to be accepted.
"""
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
CASES = {}


OTHER_SIZES = {}  # inputs of other sizes than the export's, for cases with open dimensions


def case(*inputs, strict=True, dynamic=None, other=None):
    def register(cls):
        CASES[cls.__name__] = (cls, inputs, strict, dynamic)
        if other is not None:
            OTHER_SIZES[cls.__name__] = other
        return cls

    return register


def rand(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(len(shape))) * 2 - 1


@case(rand(2, 3, 5, 7))
class leftovers(nn.Module):
    """Dropout, detach, clone, contiguous, to of the same dtype, a counter of batches, a constant
    made on the fly."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        self.norm.num_batches_tracked.add_(1)
        x = F.dropout(self.norm(x), 0.5, training=self.training)
        x = x.detach().clone().contiguous().to(torch.float32)
        return x + torch.tensor(0.25)


@case(rand(3, 6))
class tied(nn.Module):
    """Two layers share one weight; a third reads a transposed and a fourth an offset view of one
    storage."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.b.weight = self.a.weight
        storage = torch.randn(2, 6, 6)
        self.register_buffer("turned", storage[0].t())
        self.register_buffer("second", storage[1])

    def forward(self, x):
        return F.linear(F.linear(self.b(self.a(x)), self.turned), self.second)


@case(rand(1, 5, 6, 7).to(memory_format=torch.channels_last))
class channels_last(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.conv = nn.Conv2d(5, 4, 3, padding="same", dilation=(1, 2)).to(
            memory_format=torch.channels_last
        )

    def forward(self, x):
        return F.relu6(self.conv(x))


@case(rand(2, 4, 6))
class in_place(nn.Module):
    """The name of an overwritten tensor means the new value, through an identity too."""

    def forward(self, x):
        y = x + x
        z = y.detach()
        F.relu_(y)
        y.add_(1.0)
        return y + z


@case(rand(2, 4))
class written_input(nn.Module):
    """Writes to its input, and to a tensor of which a copy in another dtype is read afterwards."""

    def forward(self, x):
        x.mul_(3.0)
        y = x + 0.5
        z = y.to(torch.int32)
        y.add_(1.0)
        return x[:, :2] + 1, y, z.float()


@case(rand(2, 4))
class written_input_core(written_input):
    """After run_decompositions() the new value of the input is an output of the program."""


@case(rand(2, 4, 6))
class overwritten_view(nn.Module):
    """A view of the overwritten tensor is read afterwards: refused."""

    def forward(self, x):
        y = x + x
        z = y.view(8, 6)
        F.relu_(y)
        return z + 1


@case(rand(4, 6), rand(6, 5), rand(5))
class matrices(nn.Module):
    def forward(self, a, b, c):
        return torch.addmm(c, a, b), a @ b, torch.mm(a, b).t()


@case(rand(2, 3, 8))
class one_dimension(nn.Module):
    """Convolution and pooling in one dimension, adaptive pooling."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv1d(3, 5, 3, padding=1)

    def forward(self, x):
        y = F.max_pool1d(self.conv(x), 2)
        z = F.avg_pool1d(self.conv(x), 2)
        return y, z, F.adaptive_avg_pool1d(y, 2), F.adaptive_avg_pool1d(y, 1)


@case(rand(2, 3))
class reshapes(nn.Module):
    def forward(self, x):
        y = (
            x.unsqueeze(0)
            .flatten(1, -1)
            .reshape(3, -1)
            .squeeze()
            .transpose(0, 1)
            .unsqueeze(-1)
            .squeeze(-1)
        )
        return (
            F.pad(y, (1, 0, 2, 1), value=-1.0),
            F.pad(y, (1, 0), mode="reflect", value=0.0),
            torch.clamp(y, min=0),
            F.hardtanh(y),
            F.softmax(y, -1),
            y.mean(),
        )


@case(rand(2, 3))
class training_norm(nn.Module):
    """Batch normalization in training mode: refused."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return F.batch_norm(
            x, self.norm.running_mean.clone(), self.norm.running_var.clone(), training=True
        )


@case(rand(4, 3), dynamic=({0: torch.export.Dim("batch")},))
class symbolic(nn.Module):
    def forward(self, x):
        return x + 1


@case(rand(3, 4))
class decomposed(nn.Module):
    """What run_decompositions() leaves, with numbers in front of tensors."""

    def forward(self, x):
        return 1 - x, 2 / (x + 3), torch.logit(x.abs().clamp(0.1, 0.9)), torch.rsub(x, 3, alpha=2)


@case(rand(3, 3), rand(3, 2))
class ordered_checks(nn.Module):
    """Solutions, decomposed: checks of matrices that tokens order, from input to output."""

    def forward(self, x, y):
        x = x @ x.mT + 2 * torch.eye(3)
        return torch.linalg.solve(x, y), torch.linalg.inv(x) @ y, torch.linalg.cholesky(x)


@case(rand(4))
class sampling(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


@case(rand(4, 6).as_strided((2, 3), (12, 2)))
class odd_strides(nn.Module):
    def forward(self, x):
        return x + 1


@case(rand(2, 6, 9, 7), rand(4, 13))
class convolutions(nn.Module):
    """String paddings, inputs without a batch, groups, dilation and output padding, forward and
    transposed."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.same = nn.Conv2d(6, 4, (4, 3), padding="same", dilation=(1, 2))
        self.valid = nn.Conv2d(6, 3, 3, padding="valid", groups=3, stride=2)
        self.up = nn.ConvTranspose2d(
            6, 8, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 2), groups=2, dilation=(2, 1)
        )
        self.row = nn.Conv1d(4, 5, 4, padding="same", bias=False)
        self.up_row = nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2)

    def forward(self, x, row):
        return (
            self.same(x),
            self.same(x[0]),
            self.valid(x),
            self.up(x),
            self.up(x[1]),
            self.row(row),
            self.up_row(row),
        )


@case(rand(4))
class unsupported(nn.Module):
    def forward(self, x):
        return (
            torch.fft.rfft(torch.special.bessel_y0(x)).real
            + torch.special.bessel_y0(x).cumsum(0)[:3]
        )


@case(rand(2, 5, 7), rand(2, 7, 4), rand(4, 7), rand(7), rand(2, 5, 4))
class products(nn.Module):
    """Matrix products of computed tensors: vectors, matrices, batches, sums with factors,
    einsum."""

    def forward(self, a, b, w, v, c):
        return (
            a @ b,
            a @ v,
            v @ b,
            torch.mv(a[0], v),
            torch.dot(v, v),
            torch.mm(a[1], b[0]),
            torch.baddbmm(c, a, b, beta=0.5, alpha=2),
            torch.addmm(c[0], a[0], b[1], alpha=3),
            F.linear(a, w, v[:4]),
            torch.einsum("bik,bkj->jbi", a, b),
            torch.einsum("bik,jk -> bij", a, w),
            torch.einsum("bij->jib", a),
            torch.matmul(a.unsqueeze(1), b),
        )


@case(rand(2, 3, 5, 4), rand(2, 3, 6, 4), rand(2, 3, 6, 4), rand(5, 6))
class attention(nn.Module):
    def forward(self, q, k, v, mask):
        plain = F.scaled_dot_product_attention(q, k, v)
        return (
            plain,
            F.scaled_dot_product_attention(q, k, v, mask, scale=0.75),
            F.log_softmax(plain, 1),
        )


@case(rand(1, 3, 6), strict=False)
class causal(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@case(rand(2, 4, 5, 7))
class norms(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.rms, self.group = nn.LayerNorm((5, 7)), nn.RMSNorm(7), nn.GroupNorm(2, 4)
        self.instance, self.stored = nn.InstanceNorm2d(4), nn.InstanceNorm2d(
            4, affine=True, track_running_stats=True
        )
        for parameter in self.parameters():
            nn.init.normal_(parameter)

    def forward(self, x):
        native = (
            torch.ops.aten.native_group_norm(x, None, None, 2, 4, 35, 4, 1e-3)[0]
            + torch.ops.aten.native_layer_norm(x, [7], None, None, 1e-3)[0]
        )
        return self.layer(x), self.rms(x), self.group(x), self.instance(x), self.stored(x), native


@case(rand(2, 4, 5, 7), torch.tensor([[3, 0, 2], [1, 1, 3]]))
class indices(nn.Module):
    """Indices of extremes, elements by index, known and computed; moments."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(6, 5, padding_idx=1)
        self.register_buffer("order", torch.tensor([4, 0, -1, 2]))

    def forward(self, x, i):
        rows = torch.arange(3)
        least = torch.min(x, -1, keepdim=True)
        spread = torch.var_mean(x, (1, 3), correction=0)
        return (
            x.argmax(),
            x.argmin(2, keepdim=True),
            *torch.max(x, 1),
            *least,
            self.table(i),
            self.table(rows),
            x[:, :, self.order],
            x[:, i],
            x.index_select(1, i[0]),
            x.max(),
            x.min(),
            *spread,
            x.std(),
            x.std(1),
            x.var(2, unbiased=False, keepdim=True),
        )


@case(
    rand(2, 3, 5),
    torch.tensor([[[3, -2, 0, 7, -5]], [[1, 1, -4, 2, 9]]]),
    torch.tensor([[True], [False], [True]]),
    torch.tensor([7, 200, 3, 255, 0], dtype=torch.uint8),
)
class numbers(nn.Module):
    """Integers, bools and bytes as inputs and as outputs, and what promotes them to floats."""

    def forward(self, x, i, m, u):
        picked = torch.where(x > 0.25, x, i)
        return (
            x < i,
            x >= 0.5,
            i == 1,
            i != u,
            (x > 0) & m,
            (x > 0) | m,
            (i > 0) ^ m,
            ~m,
            ~i,
            i & 6,
            i | u,
            torch.logical_and(x, i),
            torch.logical_not(i),
            picked,
            torch.where(i > 0, i, -i),
            torch.where(m, x, x * 2),
            x.masked_fill(m, float("-inf")),
            i.masked_fill(m, 4),
            i + i * 3 - 1,
            i + 0.5,
            x * m,
            u.float() / 255,
            u.to(torch.int32) - 9,
            i.abs(),
            i.clamp(-3, 4),
            torch.sqrt(i.abs()),
            i**2,
            i / 2,
            i // 2,
            i % 3,
            torch.div(i, 3, rounding_mode="trunc"),
            torch.div(x, 0.3, rounding_mode="floor"),
            torch.remainder(x, 0.4),
            torch.fmod(x, -0.4),
            torch.maximum(i, u.to(torch.int64)),
            torch.max(x, i.float()),
            torch.min(i, i.flip(2)),
            i.sum(),
            i.sum(2, dtype=torch.float32),
            (x > 0).sum((0, 2)),
            i.cumsum(2),
            i.amax(2),
            i.argmin(2),
            (x > 0.9).any(),
            (x > -0.9).all(2),
            i.prod(2),
            x.prod(1, keepdim=True),
            torch.cat([x, i.expand(2, 1, 5)], 1),
            torch.diff(i, dim=2),
            torch.isnan(x / (x > 0)),
            torch.isinf(x / (x > 0)),
            x.tril(-1),
            i.expand(2, 3, 5).triu(),
        )


@case(rand(3, 6), torch.tensor([[2, 0, 5, 1], [4, 4, 3, 0], [1, 2, 3, 4]]))
class constants(nn.Module):
    """What depends on no input, of every dtype and larger than what it is made of."""

    def __init__(self):
        super().__init__()
        self.register_buffer("positions", torch.arange(64)[None])
        self.register_buffer("types", torch.tensor([[1, 0, 2, 2, 1, 0]]))
        self.register_buffer("table", torch.linspace(-1, 1, 128 * 6).view(128, 6))

    def forward(self, x, i):
        n = i.shape[1]
        places = self.positions[:, 2 : 2 + n] + 0
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        wide = torch.arange(48)[:, None] >= torch.arange(48)[None] - 3
        bias = torch.where(wide, 0.0, -1.0).sum(0)[:6] / 48
        ids = (torch.cumsum(x.new_ones(1, 6).long(), 1) * 2 + 1).gather(1, self.types)
        steps = torch.diff(torch.arange(0, 14, 2)).float()
        eye = torch.eye(6).bool() | torch.zeros(6, 6, dtype=torch.bool)
        powers = 10000 ** -(torch.arange(0, 6, 2).float() / 6)
        angles = torch.cat([torch.sin(powers), torch.cos(powers)])
        full = torch.full((6,), 3) % torch.tensor([4, 2, 5, 3, 1, 2])
        return (
            self.table[places],
            i * causal[3].long(),
            x + bias,
            x + self.table[ids][0, :3],
            x * steps,
            x.masked_fill(eye[:3], 0.5),
            x * angles + full,
            x + torch.zeros_like(x).to(torch.int32),
            i + i.new_zeros(4) + i.new_full((4,), 3),
            x * F.batch_norm(self.table.t()[None], None, None, training=True)[0, :, 5],
        )


@case(rand(4, 3, 5), rand(3, 4, 5), rand(3, 5), rand(2, 3, 6))
class recurrent(nn.Module):
    """LSTM, GRU and RNN of several layers and directions, with projections, and their cells."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.lstm = nn.LSTM(5, 6, num_layers=2, bidirectional=True)
        self.projected = nn.LSTM(5, 7, proj_size=3, batch_first=True)
        self.gru = nn.GRU(5, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.plain = nn.GRU(5, 4, bias=False)
        self.rnn = nn.RNN(5, 6, num_layers=2, nonlinearity="relu")
        self.tanh = nn.RNN(5, 6, batch_first=True)
        self.cells = nn.ModuleList([nn.LSTMCell(5, 6), nn.GRUCell(5, 6), nn.RNNCell(5, 6)])

    def forward(self, x, y, z, state):
        a, (h, c) = self.lstm(x)
        b, (hp, cp) = self.projected(y)
        d, hg = self.gru(y)
        e, _ = self.plain(x)
        f, hr = self.rnn(x, state)
        g, _ = self.tanh(y)
        hc, cc = self.cells[0](z)
        hc, cc = self.cells[0](z, (hc, cc))
        return a, h, c, b, hp, cp, d, hg, e, f, hr, g, hc, cc, self.cells[1](z), self.cells[2](z)


@case(rand(2, 3, 4), rand(2, 4, 5), rand(5, 3), rand(4, 4))
class equations(nn.Module):
    """einsum of any equation, products of vectors, distances."""

    def forward(self, a, b, c, d):
        return (
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bij,bjk,ki->b", a, b, c),
            torch.einsum("bij,bjk,kl->lbi", a, b, c),
            torch.einsum("ii->i", d),
            torch.einsum("ii", d),
            torch.einsum("ij->j", d),
            torch.einsum("...ij,...jk->...ik", a, b),
            torch.einsum("bij,jj->ib", a, d),
            torch.einsum("i,j->ij", d[0], c[:, 1]),
            torch.einsum("bij,bij->", a, a),
            torch.vdot(d[0], d[1]),
            F.pairwise_distance(d, d.flip(0)),
            F.pairwise_distance(d, d.flip(0), p=1, keepdim=True),
            a.reshape_as(a.permute(2, 0, 1)),
            a.view_as(b[:, :3, :4]),
        )


@case(rand(2, 4, 6, 7), rand(1, 4, 5, 6, 7))
class windows(nn.Module):
    """Windows as dimensions, layers over three dimensions, resizing by matrices."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.deep = nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 1), (1, 0, 2), dilation=(1, 2, 1), groups=2)
        self.same = nn.Conv3d(4, 3, 3, padding="same")

    def forward(self, x, v):
        columns = F.unfold(x, (2, 3), padding=1, stride=(2, 1), dilation=(1, 2))
        return (
            x.unfold(2, 3, 2),
            columns,
            F.fold(columns, (6, 7), (2, 3), padding=1, stride=(2, 1), dilation=(1, 2)) / 4,
            F.local_response_norm(x, 3),
            F.max_pool3d(v, (2, 3, 2), padding=(1, 1, 0)),
            F.avg_pool3d(v, 2, 2, 1),
            F.avg_pool3d(v, (2, 3, 2), padding=(1, 0, 1), count_include_pad=False),
            F.avg_pool3d(v, 2, ceil_mode=True, divisor_override=5),
            F.adaptive_avg_pool3d(v, (5, 2, 1)),
            self.deep(v),
            self.same(v[0]),
            F.interpolate(x, size=(9, 5), mode="bicubic"),
            F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True),
            F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True),
            F.interpolate(x, size=(3, 11), mode="bicubic", antialias=True),
        )


@case(rand(3, 5, 4), torch.tensor([[[1, 0, 3, 2]], [[4, 4, 0, 1]], [[2, 3, 1, 0]]]))
class picked(nn.Module):
    """Elements that several tensors of indices name, and those that stand first in order."""

    def forward(self, x, i):
        rows, columns = torch.tensor([0, -1, 2]), torch.tensor([3, 1, -2])
        return (
            x.gather(1, i),
            x.gather(2, i.clamp(max=3)),
            x[rows, :, columns],
            x[:, rows, columns],
            x[i[:, 0] - 2, columns[:, None].expand(3, 4)],
            *x.topk(2, 1),
            *x.topk(3, -1, largest=False),
            *x.sort(2),
            x.argsort(0, descending=True),
        )


@case(
    rand(3, 5, 4),
    torch.tensor([[1, 0, 4], [2, 2, 1]]),
    torch.tensor([0.1, -0.4, 0.9, float("nan"), float("inf"), -float("inf")]),
)
class searched(nn.Module):
    """Elements that are looked up, counted or reduced by index, and running extremes and
    products."""

    def forward(self, x, i, odd):
        edges = torch.tensor([-0.5, 0.0, 0.25, 0.7])
        at = torch.tensor([2, 0])
        each = torch.arange(60).view(3, 5, 4) % 3
        rows = torch.sort(x, 2).values
        return (
            torch.take_along_dim(x, i.view(1, 2, 3)[..., :1] - 1, 1),
            torch.take_along_dim(x, i.view(-1)),
            *x.kthvalue(2, 1),
            *x.median(0, keepdim=True),
            x.median(),
            F.one_hot(i, 5),
            torch.bucketize(x, edges),
            torch.bucketize(x, edges, right=True, out_int32=True),
            torch.searchsorted(edges, x[0]),
            torch.searchsorted(rows, x[:, :, :2], side="right"),
            torch.searchsorted(edges, 0.3),
            torch.isin(i, torch.tensor([1, 4])),
            torch.isin(i, 2, invert=True),
            torch.nan_to_num(odd),
            torch.nan_to_num(odd, 0.5, 2.0, -3.0),
            x.index_add(1, at, x[:, :2], alpha=0.5),
            x.index_copy(-1, at, x[..., 2:]),
            x.index_fill(0, torch.tensor([-1]), 0.75),
            x.scatter_reduce(1, each, x, "sum"),
            x.scatter_reduce(1, each, x, "mean", include_self=False),
            x.scatter_reduce(1, each, x * 2, "amax"),
            x.scatter_reduce(1, each, x - 2, "amin", include_self=False),
            *x.cummax(1),
            *x.cummin(-1),
            *i.cummax(1),
            x.cumprod(1),
            i.cumprod(0),
            x.logcumsumexp(2),
        )


@case(rand(2, 3, 3), rand(2, 3), rand(2, 4))
class small_matrices(nn.Module):
    """Products and inverses of small matrices and vectors, windows of signals, pools over parts
    of different sizes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.both = nn.Bilinear(3, 4, 5)

    def forward(self, m, v, w):
        m = m + 2 * torch.eye(3)
        space = F.pad(m.view(1, 2, 3, 3, 1), (0, 6)).flatten(3).view(1, 2, 3, 7, 3) * 1.0
        return (
            torch.kron(v, w),
            torch.kron(m, v),
            torch.linalg.cross(v, m[:, 0]),
            torch.cross(m, m.flip(1), dim=1),
            self.both(v, w),
            torch.det(m),
            torch.linalg.inv(m),
            torch.linalg.inv(m[:, :2, :2]),
            torch.linalg.solve(m, v[..., None]),
            torch.linalg.solve(m[0], v[0]),
            torch.hann_window(6) + torch.hamming_window(6, periodic=False),
            torch.blackman_window(5),
            F.adaptive_avg_pool3d(space, (2, 3, 2)),
            F.adaptive_max_pool3d(space, (2, 5, 3)),
        )


@case(rand(2, 3, 24), rand(2, 6, 8))
class spectra(nn.Module):
    """Fourier transforms of real and complex numbers, and arithmetic on these."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.weight = nn.Parameter(torch.randn(6, 5, dtype=torch.complex64))
        self.parts = nn.Parameter(torch.randn(6, 5, 2))
        self.mix = nn.Parameter(torch.randn(2, 3, 13, dtype=torch.complex64))
        self.window = nn.Buffer(torch.hann_window(8))

    def forward(self, x, y):
        plane = torch.fft.rfft2(y, norm="ortho")
        line = torch.fft.rfft(x)
        both = torch.complex(y, y.flip(1)) / (2 + y)
        frames = torch.stft(
            x.reshape(-1, 24), 8, 3, window=self.window, center=True, return_complex=True
        )
        return (
            line.abs(),
            line.real,
            torch.view_as_real(torch.fft.fft(x, 20, dim=1)),
            torch.fft.irfft(line * self.mix[0], n=24),
            torch.fft.irfft2(plane * self.weight, s=(6, 8), norm="ortho"),
            torch.fft.irfft(plane * torch.view_as_complex(self.parts), dim=-1),
            torch.fft.fftn(both).imag,
            torch.fft.ifft2(both * both.conj() + 1.5).real,
            torch.view_as_real(torch.einsum("bcf,bof->bcof", line, self.mix)),
            torch.view_as_real(both[:, 1:3].transpose(1, 2) @ both[:, :2]),
            (both.reshape(2, 48)[:, ::3] / both.flatten(1)[:, :16]).abs(),
            torch.view_as_real(torch.cat([both.sum(1), both.mean(1)], -1).unsqueeze(0)),
            frames.abs() ** 2,
            torch.view_as_real(torch.polar(y.abs(), y)),
        )


@case(rand(2, 6).half(), rand(3, 6).bfloat16(), rand(2, 6).double())
class narrowed(nn.Module):
    """Floats of 16 and 64 bits, which are computed in 32: the outputs are those of the model
    after double()."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.half_layer = nn.Linear(6, 4).half()
        self.bfloat_layer = nn.Linear(6, 4).bfloat16()
        self.double_layer = nn.Linear(6, 4).double()
        self.table = nn.Buffer(torch.linspace(-1, 1, 6, dtype=torch.float64))

    def forward(self, h, b, d):
        steps = torch.arange(6, dtype=torch.float64) / 3
        return (
            self.half_layer(h),
            torch.softmax(self.bfloat_layer(b), -1),
            self.double_layer(d * self.table + steps),
            (h.to(torch.float64) + d).sum(-1, dtype=torch.float64),
            (d > 0).to(torch.float64).mean(),
            torch.where(d > 0, 0.25, 0.5).to(torch.bfloat16).to(h.dtype),
        )


def portable(path):
    """Cuts folders out of the stack traces, and sample inputs and the history of the graph, which
    nothing reads, out of the file."""
    with zipfile.ZipFile(path) as old:
        members = [
            (m.filename, old.read(m)) for m in old.infolist() if "sample_inputs" not in m.filename
        ]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members:
            if name.endswith("models/model.json"):
                text = data.decode()
                text = re.sub(
                    r'File \\"(?:[^"]*/(?=site-packages/torch/)|[^"]*/)', r'File \\"', text
                )
                text = re.sub(r', "from_node": "(?:[^"\\]|\\.)*"', "", text)
                data = text.encode()
            new.writestr(zipfile.ZipInfo(name), data)


def array(value):
    """Of complex numbers both parts, as programs take and give them."""
    value = value.detach().resolve_conj().resolve_neg()
    value = torch.view_as_real(value) if value.is_complex() else value
    return (
        (value.float() if value.dtype in (torch.float64, torch.bfloat16) else value)
        .contiguous()
        .numpy()
    )


def make(cases, with_outputs):
    """Writes NAME.pt2, and NAME.npz for the cases that have outputs."""
    torch.set_num_threads(1)
    for name, (cls, inputs, strict, dynamic) in cases.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        model = cls().eval()
        program = torch.export.export(model, inputs, strict=strict, dynamic_shapes=dynamic)
        if name in ("decomposed", "ordered_checks", "written_input_core"):
            program = program.run_decompositions()
        torch.export.save(program, HERE / f"{name}.pt2")
        portable(HERE / f"{name}.pt2")
        inputs = OTHER_SIZES.get(name, inputs)
        with torch.no_grad():
            if name == "narrowed":
                outputs = cls().eval().double()(*[i.double() for i in inputs])
                inputs, outputs = [i.float() for i in inputs], [o.float() for o in outputs]
            else:
                outputs = cls().eval()(*[i.clone() for i in inputs])
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        if name in with_outputs:
            np.savez(
                HERE / f"{name}.npz",
                **{f"input_{i}": array(v) for i, v in enumerate(inputs)},
                **{f"output_{i}": array(v) for i, v in enumerate(outputs)},
            )


WITH_OUTPUTS = (
    "leftovers",
    "tied",
    "channels_last",
    "in_place",
    "matrices",
    "one_dimension",
    "reshapes",
    "convolutions",
    "products",
    "attention",
    "norms",
    "indices",
    "causal",
    "numbers",
    "constants",
    "recurrent",
    "equations",
    "windows",
    "picked",
    "searched",
    "small_matrices",
    "spectra",
    "narrowed",
    "decomposed",
    "ordered_checks",
    "written_input",
    "written_input_core",
)

if __name__ == "__main__":
    make(CASES, WITH_OUTPUTS)
