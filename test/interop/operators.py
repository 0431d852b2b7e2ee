"""Programs of one operator that no model of the sets has: name, function, inputs. ExecuTorch's
exporter writes them, both runtimes run them; its wheel has no kernel of shifts."""
import torch
import torch.nn.functional as F


def _inputs():
    generator = torch.Generator().manual_seed(5)

    def real(*shape):
        return torch.randn(*shape, generator=generator)

    def whole(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator)

    return real, whole


def operators():
    real, whole = _inputs()
    x, rows = real(2, 3, 5, 7), real(4, 6)
    index = whole(0, 5, 2, 3, 4, 7)
    once = torch.stack([torch.randperm(5)[:4] for _ in range(42)]).view(2, 3, 7, 4).mT.contiguous()
    picks, put = whole(0, 3, 4), torch.ops.aten.index_put
    return [
        ("gather", lambda x, i: x.gather(2, i), x, index),
        ("scatter", lambda x, i, s: x.scatter(2, i, s), x, once, real(2, 3, 5, 7)),
        ("scatter_value", lambda x, i: x.scatter(2, i, 2.5), x, index),
        ("scatter_add", lambda x, i, s: x.scatter_add(2, i, s), x, index, real(2, 3, 5, 7)),
        ("index", lambda x, i: x[:, i], x, picks),
        ("index_two", lambda x, i: x[:, i, :, i], x, picks),
        ("index_put", lambda x, i: x.index_put((i,), torch.ones(7)), x, torch.tensor([1])),
        ("index_put_add", lambda x, i: put(x, [None, i], torch.ones(7), True), x, picks),
        ("masked_fill_put", lambda x: x.index_put((x > 0,), torch.tensor(0.5)), x),
        ("masked_scatter", lambda x, s: x.masked_scatter(x > 0, s), x, real(210)),
        ("select_scatter", lambda x, s: x.select_scatter(s, 2, 1), x, real(2, 3, 7)),
        ("slice_scatter", lambda x, s: x.slice_scatter(s, 3, 1, 7, 2), x, real(2, 3, 5, 3)),
        ("roll", lambda x: x.roll((2, -1), (3, 1)), x),
        ("roll_all", lambda x: x.roll(11), x),
        ("tril", lambda x: x.tril(-1), x),
        ("diagonal", lambda x: x.diagonal(1, 2, 3), x),
        ("unfold", lambda x: x.unfold(3, 3, 2), x),
        ("narrow", lambda x: x.narrow(3, 2, 4), x),
        ("split", lambda x: x.split(2, 3), x),
        ("split_sizes", lambda x: x.split_with_sizes([3, 4], 3), x),
        ("chunk", lambda x: x.chunk(3, 1), x),
        ("unbind", lambda x: x.unbind(2), x),
        ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), real(1, 8, 3, 5)),
        ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 3), real(1, 2, 6, 9)),
        ("reflection_pad", lambda x: F.pad(x, (2, 1, 3, 0), "reflect"), x),
        ("replication_pad", lambda x: F.pad(x, (2, 9, 3, 0), "replicate"), x),
        ("topk", lambda x: tuple(x.topk(3, 3)), x),
        ("max_dim", lambda x: tuple(x.max(2)), x),
        ("min_dim", lambda x: tuple(x.min(3, True)), x),
        ("max_all", lambda x: x.max(), x),
        ("any", lambda x: (x > 2).any(), x),
        ("any_dim", lambda x: (x > 1).any(3), x),
        ("prod", lambda x: x.prod(3), x),
        ("prod_all", lambda x: x.prod(), rows),
        ("var", lambda x: x.var((2, 3)), x),
        ("var_mean", lambda x: torch.var_mean(x, 3), x),
        ("mean_all", lambda x: x.mean(), x),
        ("clamp_tensor", lambda x, a, b: x.clamp(a, b), x, real(5, 1) - 1, real(7) + 1),
        ("glu", lambda x: F.glu(x, 2), real(2, 3, 6, 4)),
        ("cdist", lambda a, b: torch.cdist(a, b), rows, real(3, 6)),
        ("pdist", lambda a: F.pdist(a), rows),
        ("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), x, real(2, 4, 3, 2)),
        (
            "antialias",
            lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
            x,
        ),
        ("instance_norm", lambda x: F.instance_norm(x), x),
        ("fill", lambda x: x + x.clone().fill_(2.0), x),
        ("ones", lambda x: x + torch.ones(7), x),
        ("arange", lambda x: x + torch.arange(7), x),
        ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), x),
        ("stack_split", lambda x: torch.stack(x.split(1, 1)), x),
        ("as_strided", lambda x: x.as_strided((3, 2), (6, 2), 1), rows),
    ]


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)
