"""Makes the small .pt2 files of this folder that have functions of PyTorch outside of networks'
layers, with PyTorch 2.13: as make_pt2_cases.py.

    python make_function_cases.py [NAME...]
"""
import torch
from make_pt2_cases import CASES, case, make, rand
from torch import nn

CASES.clear()


@case(rand(3, 5, 2), rand(3, 5))
class complex_functions(nn.Module):
    """Functions of complex numbers, and complex numbers beside tensors."""

    def forward(self, x, y):
        z = torch.view_as_complex(x)
        return [
            torch.view_as_real(each)
            for each in (
                torch.exp(z),
                torch.exp(1j * y),
                torch.log(z + 2),
                torch.sqrt(z),
                torch.reciprocal(z),
                -z,
                z * 1j,
                1j * z.conj(),
                z + (2 - 1j),
                (0.5 - 2j) - z,
                z / (1 + 2j),
                (1 + 2j) / z,
                y + 1j,
                z.flip(0).flip(-1),
                z.roll(2),
                z.roll((1, -2), (0, 1)),
                torch.fft.fftshift(z),
                torch.fft.ifftshift(z, 1),
            )
        ] + [z.angle(), (z - 1).abs(), torch.fft.fftshift(y), torch.fft.ifftshift(x, (1, 0))]


@case(rand(4, 9), torch.tensor([[3, 1, 3, 2, 1], [0, 0, 5, 5, 5]]), rand(3, 70), strict=False)
class statistics(nn.Module):
    """Orders of many elements and of integers, and what follows from them; histograms
    and areas."""

    def forward(self, x, i, many):
        ties = torch.round(many * 4) / 4
        return (
            *many.sort(1),
            *ties.sort(dim=-1, descending=True, stable=True),
            *many.topk(66, 1, largest=False),
            *i.sort(dim=1, stable=True),
            *many[0].sort(),
            many.median(1).values,
            x.quantile(0.3),
            x.quantile(0.7, dim=-1, interpolation="nearest"),
            x.quantile(0.7, dim=-1, interpolation="lower"),
            x.quantile(0.7, dim=-1, interpolation="higher"),
            x.quantile(0.7, dim=0, interpolation="midpoint"),
            x.quantile(0.95, dim=1, keepdim=True),
            x.quantile(1.0, dim=0, keepdim=True),
            x.quantile(0.3, keepdim=True),
            i.mode(1).values,
            *i.mode(0, keepdim=True),
            ties.mode(1).values,
            x.histc(7, -0.8, 0.9),
            x.histc(5),
            torch.trapezoid(x, dim=0),
            torch.trapezoid(x, x.cumsum(1)),
            torch.trapezoid(x, torch.tensor([0.0, 1, 3, 4, 8, 9, 9.5, 10, 12])),
            torch.cumulative_trapezoid(x, dx=0.5, dim=1),
        )


@case(rand(4), rand(3, 4), rand(2, 3, 4), torch.tensor([[3, -1], [0, 5]]), strict=False)
class stacks(nn.Module):
    """Functions after NumPy's: dimensions that are added, joins, parts, diagonals, products of
    several matrices, and other names and copies of operators."""

    def forward(self, v, m, t, i):
        aten = torch.ops.aten
        return (
            torch.atleast_1d(v.sum()),
            torch.atleast_2d(v),
            torch.atleast_3d(v),
            torch.atleast_3d(m),
            *torch.atleast_2d([v.sum(), v, t]),
            torch.hstack([v, v[1:]]),
            torch.hstack([m, m[:, 2:]]),
            torch.vstack([v, m]),
            torch.dstack([m, m * 2]),
            torch.dstack([v, v]),
            torch.column_stack([m[:, 0], m, m[:, 1]]),
            torch.cartesian_prod(v, v[:3]),
            torch.cartesian_prod(v),
            *torch.hsplit(t, 3),
            *torch.hsplit(v, [1, 3]),
            *torch.vsplit(m, [1]),
            *torch.dsplit(t, 2),
            t.fliplr(),
            t.flipud(),
            t.ravel(),
            m.msort(),
            t.take(i.abs()),
            t.take(torch.tensor([-1, 4])),
            m.diag(),
            m.diag(-1),
            v.diag(2),
            v[:2].diag(-1),
            torch.diagflat(m[:2, :2], 1),
            m.trace(),
            torch.addbmm(m[:, :3], t, t.transpose(1, 2), beta=0.5, alpha=2),
            torch.addr(m.T[:, :3], v, v[:3], beta=2),
            torch.inner(m, t),
            torch.inner(v, v),
            torch.linalg.vecdot(t, m, dim=1),
            torch.linalg.multi_dot([v, m.T, m, m.T]),
            torch.linalg.matrix_power(m[:, :3], 5),
            torch.linalg.matrix_norm(m),
            torch.linalg.matrix_norm(t, 1, (0, 2), keepdim=True),
            torch.linalg.matrix_norm(t, -torch.inf),
            t.sum_to_size(3, 1),
            aten.true_divide.Tensor(m, v + 2),
            aten.subtract.Tensor(m, v, alpha=2),
            aten.multiply.Tensor(m, v),
            aten.view_copy.default(m, [2, 6]),
            aten.squeeze_copy.default(m[None]),
            aten.transpose_copy.int(t, 0, 1),
            aten.unsqueeze_copy.default(m, 1),
            *aten.unbind_copy.int(m, 0),
            *aten.split_with_sizes_copy.default(m, [1, 3], 1),
            *aten.unsafe_split.Tensor(m, 2, 1),
            t[:, :1].squeeze((0, 1)),
            v.sum().sum(0),
            v.sum().amax(-1),
            m.std(1).logsumexp(0).logsumexp(0),
        )


@case(
    rand(3, 5) * 3,
    torch.tensor([[0.0, 1.5, -2.0, torch.inf, torch.nan], [-torch.inf, 3.0, 0.0, 0.25, 7.0]]),
    torch.tensor([[0, 2, -3], [4, 0, 0]]),
    strict=False,
)
class definitions(nn.Module):
    """Functions that PyTorch defines by others, on zeros, infinities and NaN too."""

    def forward(self, x, odd, i):
        other = odd.flip(1)
        return (
            torch.deg2rad(x),
            torch.rad2deg(i),
            torch.isfinite(odd),
            torch.isfinite(i),
            torch.isposinf(odd),
            torch.isneginf(odd),
            torch.isreal(x),
            torch.sinc(x),
            torch.sinc(odd[:, :1].nan_to_num(0, 0, 0)),
            torch.special.entr(x.abs()),
            torch.special.ndtr(x),
            +x,
            torch.ops.aten.clamp_max.Tensor(x, x[0]),
            torch.ops.aten.clamp_min.Tensor(x, x[:, :1]),
            torch.dist(x, x[0], 3),
            torch.fmax(odd, other),
            torch.fmin(odd, other),
            torch.fmax(i, i[:1]),
            torch.isclose(odd, other),
            torch.isclose(odd, odd + 1e-7, equal_nan=True),
            torch.isclose(x, x.round(), rtol=0.1, atol=0.05),
            torch.isclose(i, i[0]),
            torch.ldexp(x[:2, :3], i),
            torch.logaddexp(x, x[0] * 4),
            torch.logaddexp2(x, x[0] * 4),
            torch.special.xlog1py(x.abs(), x.abs()),
            torch.xlogy(odd.clamp(0, 3).nan_to_num(), other.abs().nan_to_num(1, 2)),
            torch.xlogy(i, 3.0),
            torch.count_nonzero(i),
            torch.count_nonzero(i, 1),
            torch.count_nonzero(odd, (0, 1)),
            odd.nansum(1),
            odd.nan_to_num(torch.nan, 1, 1).nanmean(0),
            odd.nan_to_num(torch.nan, 1, 1).nanmean(),
            *torch.std_mean(x),
            *torch.var_mean(x, 1, unbiased=False),
            *torch.std_mean(x, (0, 1), keepdim=True),
            torch.linalg.vector_norm(odd.nan_to_num(0, 1, 1), 0, 1),
            x.angle(),
            x.sgn(),
            x.resolve_conj().conj_physical().H,
        )


@case(
    rand(4, 5),
    rand(3, 4, 5, 2),
    torch.tensor([3, 0, 1, 4]),
    torch.tensor([[[4, 1], [0, 2], [2, 2], [1, 1], [3, 0]]] * 3),
    strict=False,
)
class losses(nn.Module):
    """Losses of distances, of probabilities and of classes, with weights, reductions, smoothing and
    ignored targets."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([0.5, 2.0, 1.0, 0.25, 1.5]))
        self.register_buffer("of_four", torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0]))

    def forward(self, x, planes, i, places):
        F, t = nn.functional, torch.roll(x, 1, 0) / 2
        p, q = torch.sigmoid(x * 3), torch.softmax(t, 1)
        sure = (x > 0).float()  # logarithms of 0
        scores = planes.transpose(1, 2)
        return (
            F.mse_loss(x, t),
            F.l1_loss(x, t, reduction="sum"),
            F.smooth_l1_loss(x, t, beta=0.3),
            F.smooth_l1_loss(x, t, reduction="none", beta=0.0),
            F.huber_loss(x, t, delta=0.4),
            F.binary_cross_entropy(p, q),
            F.binary_cross_entropy(sure, q, self.weight, reduction="none") / 128,
            F.binary_cross_entropy_with_logits(x * 200, q) / 64,
            F.binary_cross_entropy_with_logits(x, q, self.weight, "sum", pos_weight=self.of_four),
            F.kl_div(p.log(), F.relu(t), reduction="sum"),
            F.kl_div(p.log(), q.log(), log_target=True),
            F.nll_loss(torch.log_softmax(x, 1), i),
            F.nll_loss(torch.log_softmax(x, 1), i, self.weight, ignore_index=1, reduction="none"),
            F.cross_entropy(x, i, self.weight),
            F.cross_entropy(x[0], i[0]),
            F.cross_entropy(x, i, label_smoothing=0.1, ignore_index=0),
            F.cross_entropy(x, i, self.weight, label_smoothing=0.2, reduction="sum"),
            F.cross_entropy(scores, places[:, :4], ignore_index=2),
            F.cross_entropy(x, q),
        )


@case(rand(5, 6), rand(4), rand(7, 2, 3), torch.tensor([[3, -1], [12, 7]]), strict=False)
class rare_functions(nn.Module):
    """Slopes, powers, losses and windows that few networks have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("taps", torch.linspace(-1, 1, 36).sin().reshape(3, 3, 4))
        self.register_buffer("bias", torch.tensor([0.5, -0.25, 0.0, 1.0]))
        self.register_buffer("sides", torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 1.0]))

    def forward(self, x, v, sequence, i):
        F, y = nn.functional, torch.roll(x, 1, 0) / 2
        return (
            *torch.gradient(x),
            *torch.gradient(x, spacing=0.5, dim=-1, edge_order=2),
            *torch.gradient(x, spacing=(2.0, 4.0), dim=(1, 0)),
            *torch.gradient(x[:2], dim=0),
            torch.vander(v),
            torch.vander(v, 3, increasing=True),
            torch.linalg.vander(x, N=4),
            torch.float_power(x.abs() + 0.1, 1.7).float(),
            torch.float_power(i, 2).float() / 144,
            torch.float_power(2, v).float(),
            torch.special.logit(torch.sigmoid(x), 1e-4),
            x.put(i, torch.stack([v[:2], v[2:]])),
            x.put(torch.tensor([2, 2, 9, 3]), v, accumulate=True),
            x * torch.kaiser_window(6),
            x * torch.kaiser_window(6, periodic=False, beta=5.0),
            x * torch.bartlett_window(6),
            x * torch.bartlett_window(6, periodic=False),
            x * torch.logspace(-1, 0.5, 6),
            x * torch.logspace(-1, 2, 6, base=2),
            torch.conv_tbc(sequence, self.taps, self.bias, 1),
            F.margin_ranking_loss(x, y, self.sides.expand(5, 6), 0.3),
            F.hinge_embedding_loss(x, self.sides.expand(5, 6), reduction="sum"),
            F.soft_margin_loss(x, self.sides.expand(5, 6), reduction="none"),
            F.poisson_nll_loss(x, y.abs() * 4, full=True),
            F.poisson_nll_loss(x.abs(), y.abs(), log_input=False, reduction="none"),
        )


@case(rand(2, 3, 8, 6), rand(1, 2, 3, 4, 5), rand(2, 2, 3), rand(2, 70), strict=False)
class places(nn.Module):
    """Pools that give places, and what reads them; volumes and signals that are made larger."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.register_buffer("short", torch.hamming_window(12))

    def forward(self, x, volume, matrix, signal):
        F = nn.functional
        ties = (x * 2).round()
        pooled, at = F.max_pool2d(x, 2, return_indices=True)
        line, of_line = F.max_pool1d(x[0], 2, return_indices=True)
        spectrum = torch.stft(signal, 16, 4, window=self.window, return_complex=True)
        other = torch.stft(
            signal, 20, 6, 12, self.short, False, onesided=False, return_complex=True
        )
        i = torch.tensor([[0, 2, 0, 1, 1, 2]]).expand(3, 6)
        return (
            pooled,
            at,
            F.max_unpool2d(pooled, at, 2),
            F.max_unpool1d(line, of_line, 2),
            *F.max_pool2d(x, 3, 2, 1, return_indices=True),
            *F.max_pool2d(ties, (3, 2), (2, 3), (1, 0), ceil_mode=True, return_indices=True),
            F.max_pool2d(x[0], 3, 1, 0, 2, return_indices=True)[1],
            F.max_pool2d(x, 3, 2, 1, 2, return_indices=True)[1],
            *F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
            *F.adaptive_max_pool2d(ties, (4, 3), return_indices=True),
            *F.adaptive_max_pool1d(x[0], 4, return_indices=True),
            *F.adaptive_max_pool3d(volume, (2, 3, 2), return_indices=True),
            *F.max_pool3d(volume, 2, (1, 2, 1), 1, return_indices=True),
            F.interpolate(volume, scale_factor=2, mode="trilinear", align_corners=True),
            F.interpolate(volume, size=(5, 3, 9), mode="trilinear"),
            F.interpolate(volume, scale_factor=(1.5, 2, 1), mode="trilinear"),
            F.interpolate(volume, scale_factor=(2, 1.5, 1)),
            F.interpolate(volume, size=(4, 7, 3), mode="nearest-exact"),
            F.affine_grid(matrix, (2, 1, 4, 5), align_corners=False),
            F.affine_grid(matrix, (2, 1, 1, 5), align_corners=True),
            torch.istft(spectrum, 16, 4, window=self.window),
            torch.istft(spectrum * 2, 16, 4, window=self.window, length=60),
            torch.istft(torch.stft(signal, 16, 4, return_complex=True), 16, 4, length=80),
            torch.istft(other, 20, 6, 12, self.short, True, onesided=False, length=40),
            x.repeat_interleave(3, dim=1, output_size=9),
            torch.scatter(x[0, 0, :3], 0, i, x[1, :, 0], reduce="add"),
            torch.scatter(x[0, 0, :3], 1, i, 0.5, reduce="add"),
            torch.ops.aten._safe_softmax(torch.where(x > 0.7, -torch.inf, x), 3),
            torch.ops.aten._safe_softmax(
                x + torch.where(x.amax(3, True) > 0.7, -torch.inf, 0.0), 3
            ),
        )


@case(
    rand(2, 12, 16),
    torch.zeros(2, 1, 1, 12).index_fill(3, torch.tensor([8, 9, 11]), -torch.inf),
    torch.ones(2, 12, dtype=torch.int64).index_fill(1, torch.tensor([0, 9]), 0),
    torch.arange(12) < torch.tensor([[12], [7]]),
    strict=False,
)
class masks(nn.Module):
    """Attention whose masks are inputs: of floats, of zeros and ones that the model turns into
    floats, of bools, each with a mask of constants or a bias of positions beside it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("into", rand(48, 16))
        self.register_buffer("bias", torch.linspace(-2, 2, 288).view(2, 12, 12).sin())
        self.register_buffer("causal", torch.full((12, 12), -torch.inf).triu(4))

    def guarded(self, scores):  # as run_decompositions() leaves attention
        weights = torch.softmax(scores, -1)
        empty = ~(~(scores == -torch.inf)).any(-1, keepdim=True)
        return torch.where(empty, torch.zeros_like(weights), weights)

    def forward(self, x, mask, ones, keep):
        def attend(x, mask):
            q, k, v = (x @ self.into.T).view(2, 12, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(q @ k.transpose(2, 3) / 8**0.5 + mask, -1)
            return (weights @ v).transpose(1, 2).reshape(2, 12, 16)

        least = torch.finfo(torch.float32).min
        of_ones = (1.0 - ones[:, None, None].to(torch.float32)) * least
        of_bools = torch.where(keep[:, None, None], 0.0, least)
        filled = torch.zeros(2, 12).masked_fill(~keep, -torch.inf)[:, None, None]
        return (
            attend(x, mask),
            attend(x, of_ones),
            attend(x, of_bools + self.bias),
            attend(x, self.causal + filled),
            self.guarded(x @ x.transpose(1, 2) + filled[:, 0]),
        )


@case(rand(2, 3), rand(2))
class repeats(nn.Module):
    """Repetitions of all elements and of rows; the grids of two vectors in either order."""

    def forward(self, x, y):
        return (
            x.repeat_interleave(2),
            x.repeat_interleave(3, dim=0),
            x.tile(2),
            *torch.meshgrid(x[0], y, indexing="xy"),
            *torch.meshgrid(x[0], y, indexing="ij"),
        )


if __name__ == "__main__":
    make(CASES, CASES)
