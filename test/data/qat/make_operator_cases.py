"""Makes operators.pt2, attention, prelu, constants and divisions; one_dimension.pt2, layers and
pools over one dimension and without a batch; unlike.pt2, values of unlike ranges that are joined;
gates.pt2, a GLU, recurrences and cells; norms.pt2, normalizations before layers;
more_norms.pt2, normalizations before recurrences, convolutions over one dimension and of groups;
small.pt2, layers of small weights; pruned.pt2, a batch norm with a factor of 0; regions.pt2, regions without autocast and gradients;
batch_norms.pt2, batch norms behind permutes, views and transposed convolutions; masks.pt2, attention with masks;
padded.pt2, attention with a mask of the input's, in the steps of run_decompositions;
steps.pt2, normalizations and a softmax by hand, products with parameters; norm_conv1d.pt2, a normalization before conv1d;
products.pt2, products and convolutions over three dimensions whose node computes the weight; results.pt2, nodes of several results, a softsign and a mask; equalized.pt2, channels decades apart, prepared with --equalize;
learned_eps.pt2, a normalization that no operator of PyTorch is; and beside each an .npz: samples, what PyTorch computes for them of the model that qat-prepare makes
with the ranges of these samples, and of the float model.

    python make_operator_cases.py [DEUTERON [NAME ...]]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402


class Operators(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(6, 6) for _ in range(4))
        self.prelu = nn.PReLU(5)
        self.classify = nn.Linear(6, 3)
        self.register_buffer("divisor", torch.rand(5, 1) + 0.5)
        self.register_buffer("row", torch.randn(2, 6))

    def forward(self, x):
        heads = lambda t: t.view(1, 5, 2, 3).transpose(1, 2)  # noqa: E731
        y = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        )
        y = self.out(y.transpose(1, 2).reshape(1, 5, 6))
        y = self.prelu(y) / self.divisor
        y = 1.0 - torch.sigmoid(y) * 2.5 / 3.0
        return self.classify(torch.cat([y, self.row[None]], 1))


class OneDimension(nn.Module):
    """Nodes that are several operators, of which the last ones only move the result."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm1d(6)
        self.up = nn.ConvTranspose1d(6, 5, 4, stride=2)
        self.flat = nn.Conv2d(5, 4, (1, 3))
        self.weight = nn.Parameter(torch.randn(5, 3))
        self.matrix = nn.Parameter(torch.randn(4, 3))
        nn.init.uniform_(self.norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(self.norm.running_var, 0.2, 0.8)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        y = F.avg_pool1d(self.up(y), 2)
        y = F.max_pool1d(y, 2, stride=1)
        y = self.flat(y[0].unsqueeze(1))  # without a batch
        y = F.adaptive_avg_pool1d(y[:, 0].unsqueeze(0), 5)[0]
        return torch.addmm(self.matrix, y, self.weight)


class Unlike(nn.Module):
    """Joins what is 400 times smaller and has another reader, and returns boxes beside scores."""

    def __init__(self):
        super().__init__()
        self.large, self.small = nn.Conv2d(5, 4, 1), nn.Conv2d(5, 7, 1)
        self.boxes, self.scores = nn.Conv2d(11, 4, 1), nn.Conv2d(7, 3, 1)

    def forward(self, x):
        small = self.small(x) * 0.02
        boxes = self.boxes(torch.cat([self.large(x) * 8, small], 1))
        return torch.cat([boxes, 0.01 * self.scores(small * 50)], 1)


class Gates(nn.Module):
    """Nodes that are many operators. The first state is a parameter, which training must reach."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(5, 12)
        self.gru = nn.GRU(6, 4, batch_first=True)
        self.first = nn.Parameter(torch.randn(1, 1, 4))
        self.lstm = nn.LSTM(4, 3, bidirectional=True)
        self.cell = nn.RNNCell(6, 4)
        self.classify = nn.Linear(4, 3)

    def forward(self, x):
        y, last = self.gru(F.glu(self.wide(x), -1), self.first)
        y, (hidden, _) = self.lstm(y.transpose(0, 1))
        state = self.cell(y[-1], last[0])
        return self.classify(state) + hidden[0]


class Norms(nn.Module):
    """Normalizations with one channel far beyond the others, read by layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.LayerNorm(6), nn.RMSNorm(6), nn.LayerNorm(4)
        self.up, self.gate = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.down, self.conv = nn.Linear(6, 4), nn.Conv2d(4, 3, 2, stride=2, bias=False)
        for norm in (self.first, self.second, self.third):
            nn.init.uniform_(norm.weight, 0.2, 1)
            norm.weight.data[1] = 40
        for norm in (self.first, self.third):
            nn.init.uniform_(norm.bias, -1, 1)
        for layer in (self.up, self.gate, self.down, self.conv):
            layer.weight.data[:, 1] /= 40

    def forward(self, x):
        y = self.first(x)
        y = self.down(self.second(self.up(y) * torch.sigmoid(self.gate(y))))
        return self.conv(self.third(y).permute(0, 3, 1, 2))


class MoreNorms(nn.Module):
    """Normalizations with one channel far beyond the others, read by other layers than linear ones.
    Batch norms have their layer behind them."""

    def __init__(self):
        super().__init__()
        self.first, self.gru = nn.LayerNorm(6), nn.GRU(6, 6, batch_first=True)
        self.second, self.groups = nn.LayerNorm(6), nn.Conv1d(6, 8, 1, groups=2)
        self.third, self.depthwise = nn.RMSNorm(8), nn.Conv1d(8, 8, 3, padding=1, groups=8)
        self.fourth, self.spread = nn.BatchNorm1d(8), nn.Conv1d(8, 6, 2, groups=2, bias=False)
        self.fifth, self.lstm = nn.BatchNorm1d(6), nn.LSTM(6, 4, batch_first=True)
        self.classify = nn.Linear(4, 3)
        readers = self.gru.weight_ih_l0, self.groups.weight, self.depthwise.weight
        readers += self.spread.weight, self.lstm.weight_ih_l0
        norms = self.first, self.second, self.third, self.fourth, self.fifth
        for norm, weight in zip(norms, readers):
            nn.init.uniform_(norm.weight, 0.2, 1)
            norm.weight.data[1] = 20
            weight.data[:, min(1, weight.shape[1] - 1)] /= 20
            if not isinstance(norm, nn.RMSNorm):
                nn.init.uniform_(norm.bias, -1, 1)
        for norm in (self.fourth, self.fifth):
            nn.init.uniform_(norm.running_mean, -0.2, 0.2)
            nn.init.uniform_(norm.running_var, 0.2, 0.8)

    def forward(self, x):
        y = self.gru(self.first(x))[0]
        y = torch.relu(self.groups(self.second(y).transpose(1, 2)))
        y = self.depthwise(self.third(y.transpose(1, 2)).transpose(1, 2))
        y = torch.relu(self.spread(self.fourth(torch.relu(y))))
        y = self.lstm(self.fifth(y).transpose(1, 2))[0]
        return self.classify(y)


class Small(nn.Module):
    """Layers with weights that 127 steps of 2^-23 would not tell apart."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(5, 6, 3, bias=False), nn.Linear(6, 4, bias=False)
        self.matrix = nn.Parameter(torch.randn(4, 3) * 1e-6)
        for layer in (self.first, self.second):
            layer.weight.data.mul_(1e-5)

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)).permute(0, 2, 3, 1) * 1e5)
        return torch.matmul(y * 1e5, self.matrix)


class Regions(nn.Module):
    """Regions in one another, one that gives what it takes, and a batch norm outside of the region
    of its layer."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(6), nn.Linear(6, 5)
        self.conv, self.batch_norm = nn.Conv1d(5, 4, 2), nn.BatchNorm1d(4)
        nn.init.uniform_(self.batch_norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(self.batch_norm.running_var, 0.2, 0.8)

    def forward(self, x):
        with torch.no_grad():
            scale = torch.sigmoid(x)
        with torch.autocast("cpu", enabled=False):
            y = self.up(self.norm(x * scale))
            with torch.no_grad():
                z = torch.relu(self.up(x))
            y = y + z
        with torch.autocast("cpu", enabled=False):
            y = self.conv(y.transpose(1, 2))
        return torch.relu(self.batch_norm(y))


class BatchNorms(nn.Module):
    """Batch norms behind a permute, a view and a transposed convolution of groups, before and behind
    one layer; a mask of nn.MultiheadAttention, whose views have names of the importer's."""

    def __init__(self):
        super().__init__()
        self.linear, self.first = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv, self.second = nn.Conv2d(8, 6, (1, 2)), nn.BatchNorm1d(6)
        self.up, self.third = nn.ConvTranspose1d(6, 4, 3, groups=2), nn.BatchNorm1d(4)
        self.before, self.last, self.behind = (
            nn.BatchNorm1d(4),
            nn.Conv1d(4, 3, 2),
            nn.BatchNorm1d(3),
        )
        self.register_buffer("mask", torch.ones(5, 5).triu(1).bool())
        for norm in (self.first, self.second, self.third, self.before, self.behind):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.3, 0.3)
            nn.init.uniform_(norm.running_mean, -0.2, 0.2)
            nn.init.uniform_(norm.running_var, 0.2, 0.8)

    def forward(self, x):
        y = torch.relu(self.first(self.linear(x).transpose(1, 2)).transpose(1, 2))
        y = y + self.attention(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        y = self.second(self.conv(y.transpose(1, 2).unsqueeze(2)).squeeze(2))
        y = torch.relu(self.third(self.up(torch.relu(y))))
        return self.behind(self.last(self.before(y)))


class Masks(nn.Module):
    """Two causal attentions, and masks of -inf and -1e9 by hand."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(6, 18), nn.Linear(6, 6)
        self.register_buffer("far", torch.full((5, 5), float("-inf")).triu(2))
        self.register_buffer("late", torch.ones(5, 5).triu(1).bool())

    def forward(self, x):
        q, k, v = [t.view(1, 5, 2, 3).transpose(1, 2) for t in self.query(x).chunk(3, -1)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = F.scaled_dot_product_attention(y, k, v, attn_mask=~self.late)
        y = torch.softmax(y @ k.transpose(-1, -2) * 2 + self.far, -1) @ v
        y = torch.softmax((y @ k.transpose(-1, -2)).masked_fill(self.late, -1e9), -1) @ v
        return self.out(y.transpose(1, 2).reshape(1, 5, 6))


class Decomposed(nn.Module):
    """Attention in the steps of run_decompositions: rows without a score become zeros behind it."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(6, 18), nn.Linear(6, 6)
        self.register_buffer("late", torch.ones(5, 5).triu(1).bool())

    def forward(self, x):
        q, k, v = [t.view(1, 5, 2, 3).transpose(1, 2) for t in self.query(x).chunk(3, -1)]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=~self.late)
        return self.out(y.transpose(1, 2).reshape(1, 5, 6))


class Padded(nn.Module):
    """The same with a mask of the input's, which leaves a row of some samples without a score."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = [t.view(1, 5, 2, 3).transpose(1, 2) for t in self.query(x).chunk(3, -1)]
        padding = (x[..., 0] > 0.5).view(1, 1, 1, 5).expand(1, 1, 5, 5)
        mask = torch.zeros(1, 1, 5, 5).masked_fill(padding, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(1, 5, 6))


class Pruned(nn.Module):
    """A batch norm of which one channel has the factor 0: its weights cannot be divided by it."""

    def __init__(self):
        super().__init__()
        self.conv, self.batch_norm = nn.Conv1d(5, 4, 2), nn.BatchNorm1d(4)
        nn.init.uniform_(self.batch_norm.running_var, 0.2, 0.8)
        nn.init.uniform_(self.batch_norm.bias, 0.2, 0.8)
        self.batch_norm.weight.data[1] = 0

    def forward(self, x):
        return torch.relu(self.batch_norm(self.conv(x)))


class Factors(nn.Module):
    """Nodes of several operators, of which PyTorch gives one a factor by name only and one makes
    numbers of a mask."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 18), nn.Linear(6, 4)

    def forward(self, x):
        a, b, c = self.first(x).chunk(3, -1)
        return self.second(torch.addcmul(a, b, c, value=3) * (b > c))


class Steps(nn.Module):
    """Functions that are written step by step, and products with parameters, before which one
    channel is far beyond the others."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(5, 8, 1), nn.Conv2d(8, 8, 1)
        self.gain, self.shift = nn.Parameter(torch.rand(8)), nn.Parameter(torch.randn(8))
        self.weight, self.more = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))
        self.matrix, self.last = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 4))
        self.bias, self.query = nn.Parameter(torch.randn(4)), nn.Linear(8, 8)
        self.norm, self.batch_norm = nn.LayerNorm(8), nn.BatchNorm1d(4)
        self.down = nn.Linear(8, 8)
        self.behind = nn.Parameter(torch.randn(4, 3))
        nn.init.uniform_(self.batch_norm.running_var, 0.2, 0.8)
        for gain in (self.gain, self.weight, self.more, self.norm.weight):
            gain.data[1] = 40
        for weight in (self.up.weight, self.query.weight, self.matrix.T, self.last.T):
            weight.data[:, 1] /= 40

    def forward(self, x):
        y = self.conv(x)
        mean = y.mean(1, keepdim=True)
        y = (y - mean) / torch.sqrt((y - mean).pow(2).mean(1, keepdim=True) + 1e-6)
        y = torch.relu(self.up(self.gain[:, None, None] * y + self.shift[:, None, None]))
        y = y.flatten(2).transpose(1, 2)
        z = y.float() / torch.sqrt((y.float() * y.float()).mean(-1, keepdim=True) + 1e-5)
        scores = self.query(z.to(y.dtype) * (1 + self.weight)) @ y.transpose(1, 2)
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        y = (powers / powers.sum(-1, keepdim=True)) @ self.down(y)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.more
        y = self.norm(y @ self.matrix)
        y = torch.addmm(self.bias, y[0], self.last, beta=0.5, alpha=2)
        return torch.mm(torch.tanh(self.batch_norm(y)), self.behind)


class LearnedEps(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 6), nn.Linear(6, 4)
        self.eps = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y = self.up(x)
        return self.down(y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps))


class NormConv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.conv = (
            nn.Linear(6, 6),
            nn.LayerNorm(6),
            nn.Conv1d(6, 4, 1, groups=2),
        )
        self.norm.weight.data[1] = 40
        self.conv.weight.data[:2, 1] /= 40

    def forward(self, x):
        return self.conv(self.norm(self.up(x)).transpose(1, 2))


class Products(nn.Module):
    """Parameters that the node of a product or of a convolution puts in another order."""

    def __init__(self):
        super().__init__()
        self.heads, self.joined = nn.Parameter(torch.randn(6, 2, 3)), nn.Parameter(
            torch.rand(2, 3, 6)
        )
        self.each, self.left = nn.Parameter(torch.randn(2, 3, 3)), nn.Parameter(torch.randn(5, 5))
        self.inner, self.column = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(4))
        self.conv, self.norm = nn.Conv3d(1, 3, 2), nn.BatchNorm3d(3)
        self.up = nn.ConvTranspose3d(3, 2, (2, 1, 2))
        for scaled in (self.heads, self.joined, self.inner):
            scaled.data[..., 1] *= 0.02
        nn.init.uniform_(self.norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(self.norm.running_var, 0.2, 0.8)

    def forward(self, x):
        y = torch.einsum("bti,ihd->bhtd", x, self.heads)
        y = torch.einsum("bhtd,hde->bhte", y, self.each)
        y = torch.relu(torch.einsum("bhtd,hdo->bto", y, self.joined))
        y = torch.inner(torch.einsum("st,bto->bso", self.left, y), self.inner)
        z = self.up(torch.relu(self.norm(self.conv(y[:, None, None].expand(1, 1, 3, 5, 4)))))
        return torch.mv(z.flatten(0, 3)[:8], self.column)


class Results(nn.Module):
    """Two results of one node in quantizations of their own; a softsign, which PyTorch has in steps
    only; a mask that a node computes."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        y = self.up(x)
        var, mean = torch.var_mean(y * 7 + 9, -1, keepdim=True)
        return self.down(F.softsign(y).tril() + mean + 0.1 * var)


class Equalized(nn.Module):
    """Channels decades apart in every place that a factor goes through, or an input with them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.groups, self.up = nn.Conv2d(8, 8, 3, groups=4), nn.ConvTranspose2d(8, 6, 2, groups=2)
        self.same, self.narrow = nn.Conv2d(6, 6, 1), nn.Conv1d(6, 4, 3)
        self.last = nn.Linear(4, 3)
        factors = torch.tensor([1.0, 300, 0.02, 1, 40, 0.3, 1, 5])
        nn.init.uniform_(self.norm.running_var, 0.2, 0.8)
        nn.init.uniform_(self.norm.bias, 0.1, 0.5)
        with torch.no_grad():
            self.first.weight.mul_(torch.tensor([1.0, 0.02, 1]).view(1, -1, 1, 1))
            for each in (self.norm.weight, self.norm.bias):
                each.mul_(factors)
            self.groups.weight.div_(
                factors.view(4, 1, 2, 1, 1).repeat_interleave(2, 1).reshape(8, 2, 1, 1)
            )
            for each in (self.groups.weight, self.groups.bias):
                each.mul_(factors.view(8, *[1] * (each.dim() - 1)))
            self.up.weight.div_(factors.view(8, 1, 1, 1))
            self.up.weight.mul_(factors[:6].view(2, 1, 3).repeat(1, 4, 1).view(8, 3, 1, 1))
            self.up.bias.mul_(factors[:6])
            self.same.weight.mul_(factors[:6].view(6, 1, 1, 1)).div_(factors[:6].view(1, 6, 1, 1))
            self.same.bias.mul_(factors[:6])
            self.narrow.weight.div_(factors[:6].view(1, 6, 1))

    def forward(self, x):
        y = F.relu6(self.norm(self.first(x)))
        y = torch.relu(self.groups(y))
        y = torch.relu(self.up(y))
        y = torch.relu(y + self.same(y))
        y = torch.relu(self.narrow(y.mean(2)))
        return self.last(torch.cat([y * 40, 0.02 * torch.sigmoid(y)], 2).transpose(1, 2))


def check_gradients(model, sample):
    """Every parameter learns, although nodes were written as other ones."""
    model(sample).square().sum().backward()
    lost = [name for name, each in model.named_parameters() if each.grad is None]
    assert not lost, lost


def make(name, deuteron, model, samples, decomposes=False, *options):
    export, arrays = HERE / f"{name}.pt2", HERE / f"{name}.npz"
    program = torch.export.export(model.eval(), (samples[0],))
    torch.export.save(program.run_decompositions() if decomposes else program, str(export))
    np.savez_compressed(arrays, input=samples.numpy())
    with torch.no_grad():
        floats = torch.stack([model(sample) for sample in samples])
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.pt2"
        subprocess.run(
            [deuteron, "qat-prepare", export, "--calibrate", arrays, "-o", prepared, *options],
            check=True,
        )
        model = torch.export.load(str(prepared)).module()
    model.quantization.observer_on.zero_()
    check_gradients(model, samples[0])
    with torch.no_grad():
        outputs = torch.stack([model(sample) for sample in samples])
    np.savez_compressed(
        arrays, input=samples.numpy(), output=outputs.numpy(), float_output=floats.numpy()
    )
    portable(export)


# name: (seed, network, shape of a sample); numbers are drawn for the network first.
CASES = {
    "operators": (0, Operators, (1, 5, 6)),
    "one_dimension": (1, OneDimension, (1, 3, 14)),
    "unlike": (2, Unlike, (1, 5, 4, 3)),
    "gates": (3, Gates, (1, 3, 5)),
    "norms": (4, Norms, (1, 4, 6, 6)),
    "masks": (5, Masks, (1, 5, 6)),
    "more_norms": (6, MoreNorms, (1, 5, 6)),
    "regions": (8, Regions, (1, 5, 6)),
    "batch_norms": (9, BatchNorms, (1, 5, 6)),
    "steps": (10, Steps, (1, 5, 3, 4)),
    "learned_eps": (12, LearnedEps, (1, 5, 6)),
    "norm_conv1d": (11, NormConv1d, (1, 5, 6)),
    "small": (7, Small, (1, 5, 6, 5)),
    "decomposed": (10, Decomposed, (1, 5, 6)),
    "padded": (13, Padded, (1, 5, 6)),
    "pruned": (14, Pruned, (1, 5, 6)),
    "factors": (11, Factors, (1, 5, 6)),
    "products": (13, Products, (1, 5, 6)),
    "results": (14, Results, (1, 5, 6)),
    "equalized": (15, Equalized, (1, 3, 7, 9)),
}


def main():
    deuteron = sys.argv[1] if len(sys.argv) > 1 else str(HERE.parents[2] / "build/release/deuteron")
    for name in sys.argv[2:] or CASES:
        seed, network, shape = CASES[name]
        torch.manual_seed(seed)
        # The first case was made when samples were drawn first.
        early = torch.randn(16, *shape) if name == "operators" else None
        model = network()
        samples = torch.randn(16, *shape) if early is None else early
        if name == "padded":
            samples[3, ..., 0] = 1
        if name == "equalized":
            samples[:, :, 1] *= 50
        options = ["--equalize"] if name == "equalized" else []
        make(name, deuteron, model, samples, name in ("decomposed", "padded"), *options)


if __name__ == "__main__":
    main()
