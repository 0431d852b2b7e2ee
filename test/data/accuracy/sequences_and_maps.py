"""Hard models of longer networks: attention with outlier channels, recurrent ones, joined outputs,
images as outputs. make_models.py exports them."""
import torch
from torch import nn
from torch.nn import functional as F

from common import CALIBRATION, digits, factors, outliers_of_norm, rescale, train


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = (split(f(x)) for f in (self.query, self.key, self.value))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))

    def readers(self):
        return self.query, self.key, self.value


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Vit(nn.Module):
    """Patches of 4 × 4, a class token, positions; two channels of the residual stream are far from
    zero in every token, as the massive activations of large ones are."""

    def __init__(self, width=32, heads=2, depth=2, massive=15.0):
        super().__init__()
        self.patch = nn.Conv2d(1, width, 4, stride=4)
        self.token = nn.Parameter(0.3 * torch.randn(1, 1, width))
        positions = 0.3 * torch.randn(1, 17, width)
        positions[..., 5] += massive
        positions[..., width - 7] -= massive
        self.positions = nn.Parameter(positions)
        self.blocks = nn.ModuleList(VitBlock(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def vit(outlier=40, **sizes):
    (x, y), rest, labels = digits()
    model = train(Vit(**sizes), x, y, 400, 3e-3)
    for block in model.blocks:
        outliers_of_norm(block.norms[0], block.attention.readers(), (3, 11, 17), outlier)
        outliers_of_norm(block.norms[1], (block.up,), (2, 20), outlier)
    return model, rest, labels


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.up(self.norm(x))))


class Conformer(nn.Module):
    """A conformer block over rows of an image: half a feed-forward, attention, gated depthwise
    convolution, half a feed-forward."""

    def __init__(self, width=24, heads=2, kernel=5):
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.first, self.last = FeedForward(width), FeedForward(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads)
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.spatial = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.project = nn.Conv1d(width, width, 1)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x[:, 0])
        x = x + 0.5 * self.first(x)
        x = x + self.attention(self.norms[0](x))
        y = F.glu(self.gate(self.norms[1](x).transpose(1, 2)), 1)
        y = self.project(F.silu(self.batch_norm(self.spatial(y))))
        x = x + y.transpose(1, 2)
        x = self.norms[2](x + 0.5 * self.last(x))
        return self.head(x.mean(1))


def conformer(outlier=60, **sizes):
    (x, y), rest, labels = digits()
    model = train(Conformer(**sizes).train(), x, y)
    outliers_of_norm(model.norms[0], model.attention.readers(), (1, 9), outlier)
    outliers_of_norm(model.norms[1], (model.gate,), (4, 13, 21), outlier)
    for forward, channels in ((model.first, (0, 7)), (model.last, (5, 16))):
        outliers_of_norm(forward.norm, (forward.up,), channels, outlier)
    return model, rest, labels


class Lstm(nn.Module):
    """An LSTM over rows of an image, as torch.nn has it."""

    def __init__(self, width=24):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.lstm(x[:, 0])[0][:, -1])


def lstm(**sizes):
    (x, y), rest, labels = digits()
    return train(Lstm(**sizes), x, y), rest, labels


class Detector(nn.Module):
    """A backbone and a head: for each of 4 × 4 cells a box in pixels and scores of ten classes,
    joined into one output."""

    def __init__(self, width=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.ReLU6(),
            nn.Conv2d(width, width, 3, padding=1, groups=width),
            nn.ReLU6(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU6(),
        )
        self.boxes, self.scores = nn.Conv2d(2 * width, 4, 1), nn.Conv2d(2 * width, 10, 1)

    def forward(self, x):
        x = self.backbone(x)
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        scores = self.scores(x).flatten(2).transpose(1, 2)
        return torch.cat([16 * torch.sigmoid(boxes), torch.sigmoid(scores)], -1)


def detector(**sizes):
    """Each cell learns the digit's bounding box and its class, where the digit has ink."""
    (x, y), rest, _ = digits()

    def loss(found, target):
        return F.mse_loss(found[..., :4] / 16, target[..., :4] / 16) + F.binary_cross_entropy(
            found[..., 4:], target[..., 4:]
        )

    boxes = []
    for image in x[:, 0]:
        rows, columns = (image > 0.3).any(1).nonzero(), (image > 0.3).any(0).nonzero()
        boxes.append(
            torch.tensor([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).float()
        )
    ink = F.avg_pool2d(x, 4).flatten(1)[..., None] > 0.1
    scores = F.one_hot(y, 10)[:, None].float() * ink
    target = torch.cat([torch.stack(boxes)[:, None].expand(-1, 16, -1), scores], -1)
    return train(Detector(**sizes), x, target, loss_of=loss), rest, None


class SuperResolution(nn.Module):
    """Twice the resolution: what convolutions add to the image enlarged bilinearly."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Conv2d(1, width, 5, padding=2), nn.Conv2d(width, width, 3, padding=1)]
        )
        self.out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = F.relu(layer(y))
        enlarged = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return enlarged + F.pixel_shuffle(self.out(y), 2)


def super_resolution(**sizes):
    (x, _), rest, _ = digits()
    model = train(SuperResolution(**sizes), F.avg_pool2d(x, 2), x, loss_of=F.mse_loss)
    return model, F.avg_pool2d(rest, 2), None, rest[CALIBRATION:]


class Curved(nn.Module):
    """Depthwise and pointwise convolutions with SiLU, through which no factor passes, whose channels
    were far apart when their training began."""

    def __init__(self, width=16, decades=6):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in range(2)
        )
        self.pointwise = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.head = nn.Linear(width, 10)
        chain = [self.stem]
        for d, p in zip(self.depthwise, self.pointwise):
            chain += [d, p]
        for first, second in zip(chain, chain[1:]):
            rescale(first, second, factors(width, decades))

    def forward(self, x):
        x = F.silu(self.stem(x))
        for d, p in zip(self.depthwise, self.pointwise):
            x = F.silu(p(F.silu(d(x))))
        return self.head(x.mean((2, 3)))


def curved(**sizes):
    (x, y), rest, labels = digits()
    return train(Curved(**sizes), x, y, 600, 3e-3), rest, labels


MODELS = [curved, vit, conformer, lstm, detector, super_resolution]
