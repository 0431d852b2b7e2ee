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


def case(*inputs, strict=True, dynamic=None):
    def register(cls):
        CASES[cls.__name__] = (cls, inputs, strict, dynamic)
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


@case(rand(4))
class mutated_buffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        self.state.add_(x)
        return self.state + x


@case(rand(4), strict=False)
class control_flow(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,))


@case(rand(4, 3), dynamic=({0: torch.export.Dim("batch")},))
class symbolic(nn.Module):
    def forward(self, x):
        return x + 1


@case(rand(4).to(torch.float16))
class half(nn.Module):
    def forward(self, x):
        return x + 1


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


@case(rand(1, 2, 4, 5, 6))
class volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(2, 3, 3)

    def forward(self, x):
        return self.conv(x)


@case(rand(4))
class unsupported(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(torch.erfinv(x)).real + torch.erfinv(x).cumsum(0)[:3]


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
                    r'File \\"[^"]*/((?:site-packages/torch/|make_\w+)[^"]*)\\"',
                    r'File \\"\1\\"',
                    text,
                )
                text = re.sub(r', "from_node": "(?:[^"\\]|\\.)*"', "", text)
                data = text.encode()
            new.writestr(zipfile.ZipInfo(name), data)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, (cls, inputs, strict, dynamic) in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        model = cls().eval()
        program = torch.export.export(model, inputs, strict=strict, dynamic_shapes=dynamic)
        torch.export.save(program, HERE / f"{name}.pt2")
        portable(HERE / f"{name}.pt2")
        with torch.no_grad():
            outputs = cls().eval()(*[i.clone() for i in inputs])
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if name in (
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
        ):
            np.savez(
                HERE / f"{name}.npz",
                **{f"input_{i}": v.contiguous().numpy() for i, v in enumerate(inputs)},
                **{f"output_{i}": v.detach().contiguous().numpy() for i, v in enumerate(outputs)},
            )
