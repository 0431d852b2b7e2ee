"""Eight networks as IR text with random weights, whose tensors make different demands on SRAM:
branches of three resolutions, skips, a tensor of 1.2 MB, concatenations, wide inner tensors,
sequences, attention, and a gate over a whole image. Standard library only.
"""
import math

CODES = "quant<0.05:-3>"


class Net:
    """Writes IR text: each method adds an operator and returns the value's name."""

    def __init__(self, shape):
        self.lines, self.shapes, self.count = [], {"x": list(shape)}, 0

    def name(self, shape):
        self.count += 1
        self.shapes[f"v{self.count}"] = list(shape)
        return f"v{self.count}"

    def constant(self, shape, inputs, axis=None):
        """Weights that keep the spread of codes: `inputs` products make an element."""
        self.count += 1
        scale = 1 / (73 * math.sqrt(inputs))
        scales = ", ".join(f"{scale * (1 + i % 3 / 8):.6g}" for i in range(shape[axis or 0]))
        quantization = f"axis={axis}, {scales}" if axis is not None else f"{scale:.6g}"
        extents = ",".join(map(str, shape))
        self.lines.append(
            f"%w{self.count}: i8[{extents}] quant<{quantization}> = constant seeded<{self.count}>"
        )
        return f"w{self.count}"

    def op(self, text, shape, codes=CODES):
        value = self.name(shape)
        self.lines.append(f"%{value}: i8[{','.join(map(str, shape))}] {codes} = aten.{text}")
        return value

    def conv(self, x, channels, kernel=3, stride=1, groups=1, dilation=1, transposed=False):
        """Of images or sequences; `same` padding."""
        batch, inputs, *sizes = self.shapes[x]
        axes = len(sizes)
        pad = dilation * (kernel - 1) // 2
        weights = [channels, inputs // groups] if not transposed else [inputs, channels]
        w = self.constant(
            weights + [kernel] * axes,
            inputs // groups * kernel**axes,
            axis=None if transposed else 0,
        )
        self.lines.append(f"%b{self.count}: i32[{channels}] quant<bias> = constant splat<90>")
        out = [
            s * stride if transposed else (s + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for s in sizes
        ]
        same = lambda value: str([value] * axes)
        return self.op(
            f"convolution(%{x}, %{w}, %b{self.count}) {{dilation = {same(dilation)}, groups ="
            f" {groups}, output_padding = {same(stride - 1 if transposed and kernel > 2 else 0)},"
            f" padding = {same(pad if kernel > 2 else 0)}, stride = {same(stride)}, transposed ="
            f" {str(transposed).lower()}}}",
            [batch, channels, *out],
        )

    def unary(self, kind, x):
        return self.op(f"{kind}(%{x})", self.shapes[x])

    def relu(self, x):
        return self.unary("relu", x)

    def block(self, x, channels, **options):
        return self.relu(self.conv(x, channels, **options))

    def depthwise(self, x, **options):
        return self.block(x, self.shapes[x][1], groups=self.shapes[x][1], **options)

    def add(self, a, b):
        return self.op(f"add.Tensor(%{a}, %{b})", self.shapes[a])

    def mul(self, a, b):
        return self.op(f"mul.Tensor(%{a}, %{b})", self.shapes[a])

    def cat(self, *parts):
        first = self.shapes[parts[0]]
        channels = sum(self.shapes[p][1] for p in parts)
        names = ", ".join(f"%{p}" for p in parts)
        return self.op(f"cat({names}) {{dim = 1}}", [first[0], channels, *first[2:]])

    def pool(self, x, kind="max_pool2d"):
        n, c, h, w = self.shapes[x]
        more = ", count_include_pad = true" if kind == "avg_pool2d" else ", dilation = [1, 1]"
        return self.op(
            f"{kind}(%{x}) {{ceil_mode = false, kernel_size = [2, 2], padding = [0, 0], stride ="
            f" [2, 2]{more}}}",
            [n, c, h // 2, w // 2],
        )

    def upsample(self, x, factor=2, kind="nearest"):
        n, c, h, w = self.shapes[x]
        size = [h * factor, w * factor]
        align = ", align_corners = false" if kind == "bilinear" else ""
        return self.op(f"upsample_{kind}2d(%{x}) {{output_size = {size}{align}}}", [n, c, *size])

    def mean(self, x, keepdim=False):
        n, c, *sizes = self.shapes[x]
        dims = list(range(2, 2 + len(sizes)))
        return self.op(
            f"mean.dim(%{x}) {{dim = {dims}, keepdim = {str(keepdim).lower()}}}",
            [n, c, *([1] * len(sizes) if keepdim else [])],
        )

    def linear(self, x, features):
        *rows, inputs = self.shapes[x]
        w = self.constant([features, inputs], inputs, axis=0)
        return self.op(f"linear(%{x}, %{w}, _)", [*rows, features])

    def view(self, x, shape):
        return self.op(f"view(%{x}) {{size = {shape}}}", shape)

    def permute(self, x, dims):
        return self.op(f"permute(%{x}) {{dims = {dims}}}", [self.shapes[x][d] for d in dims])

    def matmul(self, a, b):
        return self.op(f"matmul(%{a}, %{b})", [*self.shapes[a][:-1], self.shapes[b][-1]])

    def softmax(self, x):
        return self.op(
            f"softmax(%{x}) {{dim = {len(self.shapes[x]) - 1}}}",
            self.shapes[x],
            "quant<0.00390625:-128>",
        )

    def norm(self, x):
        return self.op(
            f"layer_norm(%{x}, _, _) {{eps = 1e-05, normalized_shape = [{self.shapes[x][-1]}]}}",
            self.shapes[x],
            "quant<0.03:2>",
        )

    def text(self, result):
        shape = ",".join(map(str, self.shapes["x"]))
        head = f"graph @forward(%x: i8[{shape}] {CODES}) {{"
        return "\n".join(
            [head, *(f"  {line}" for line in self.lines), f"  return %{result}", "}", ""]
        )


def three_resolutions():
    """Residual branches of three resolutions that exchange what they found, twice."""
    net = Net([1, 3, 96, 96])
    stem = net.block("x", 24, stride=2)
    high, middle, low = stem, net.block(stem, 40, stride=2), None
    low = net.block(middle, 72, stride=2)
    for _ in range(2):
        high, middle, low = (
            net.relu(net.add(net.conv(net.block(b, net.shapes[b][1]), net.shapes[b][1]), b))
            for b in (high, middle, low)
        )
        up_middle = net.upsample(net.conv(middle, 24, kernel=1))
        up_low = net.upsample(net.conv(low, 24, kernel=1), 4)
        down_high = net.conv(high, 40, stride=2)
        up_low_2 = net.upsample(net.conv(low, 40, kernel=1))
        down = net.conv(net.block(high, 24, stride=2), 72, stride=2)
        down_middle = net.conv(middle, 72, stride=2)
        high, middle, low = (
            net.relu(net.add(net.add(high, up_middle), up_low)),
            net.relu(net.add(net.add(middle, down_high), up_low_2)),
            net.relu(net.add(net.add(low, down), down_middle)),
        )
    parts = net.cat(high, net.upsample(middle), net.upsample(low, 4, "bilinear"))
    return net.text(net.conv(parts, 6, kernel=1))


def u_net():
    net = Net([1, 3, 64, 80])
    skips, x = [], "x"
    for channels in (16, 24, 40):
        x = net.block(net.block(x, channels), channels)
        skips.append(x)
        x = net.pool(x)
    x = net.block(net.block(x, 56), 56)
    for skip in reversed(skips):
        channels = net.shapes[skip][1]
        up = net.conv(x, channels, kernel=2, stride=2, transposed=True)
        x = net.block(net.block(net.cat(up, skip), channels), channels)
    return net.text(net.conv(x, 2, kernel=1))


def large_tensor():
    """48 x 160 x 160 bytes between two layers: 1,228,800."""
    net = Net([1, 3, 320, 320])
    x = net.block("x", 16, stride=2)
    x = net.block(x, 48, kernel=1)
    x = net.depthwise(x, stride=2)
    x = net.conv(x, 20, kernel=1)
    for channels in (20, 32, 56):
        y = net.conv(net.depthwise(net.block(x, 96, kernel=1)), net.shapes[x][1], kernel=1)
        x = net.block(net.add(x, y), channels, stride=2)
    return net.text(net.linear(net.mean(x), 12))


def dense_net():
    net = Net([1, 3, 64, 64])
    x = net.block("x", 16)
    for _ in range(3):
        for _ in range(4):
            x = net.cat(x, net.block(net.block(x, 32, kernel=1), 12))
        x = net.pool(net.block(x, net.shapes[x][1] // 2, kernel=1), "avg_pool2d")
    return net.text(net.linear(net.mean(x), 10))


def inverted_residuals():
    net = Net([1, 3, 128, 128])
    x = net.unary("hardswish", net.conv("x", 16, stride=2))
    for channels, stride, kernel in (
        (16, 1, 3),
        (24, 2, 3),
        (24, 1, 3),
        (40, 2, 5),
        (40, 1, 5),
        (64, 2, 3),
    ):
        wide = net.unary("hardswish", net.conv(x, 6 * net.shapes[x][1], kernel=1))
        wide = net.depthwise(wide, kernel=kernel, stride=stride)
        y = net.conv(wide, channels, kernel=1)
        x = net.add(x, y) if net.shapes[x] == net.shapes[y] else y
    return net.text(net.softmax(net.linear(net.mean(x), 20)))


def sequence():
    """Dilated convolutions over a sequence of 1,500 steps."""
    net = Net([1, 12, 1500])
    x = net.block("x", 40, kernel=5)
    for dilation in (1, 2, 4, 8):
        y = net.conv(net.block(x, 40, dilation=dilation), 40, dilation=dilation)
        x = net.relu(net.add(x, y))
    return net.text(net.conv(x, 4, kernel=1))


def attention():
    net = Net([1, 3, 64, 64])
    tokens, width, heads = 256, 48, 3
    x = net.conv("x", width, kernel=4, stride=4)
    x = net.permute(net.view(x, [1, width, tokens]), [0, 2, 1])
    for _ in range(2):
        y = net.norm(x)
        q, k, v = (
            net.permute(
                net.view(net.linear(y, width), [1, tokens, heads, width // heads]), [0, 2, 1, 3]
            )
            for _ in range(3)
        )
        scores = net.softmax(net.matmul(q, net.permute(k, [0, 1, 3, 2])))
        y = net.permute(net.matmul(scores, v), [0, 2, 1, 3])
        x = net.add(x, net.linear(net.view(y, [1, tokens, width]), width))
        y = net.linear(net.unary("gelu", net.linear(net.norm(x), 4 * width)), width)
        x = net.add(x, y)
    x = net.mean(net.permute(x, [0, 2, 1]))
    return net.text(net.linear(x, 10))


def gates():
    """Each block multiplies its channels by a function of the whole image."""
    net = Net([1, 3, 112, 96])
    x = net.block("x", 24, stride=2)
    for channels in (24, 48, 80):
        y = net.block(net.depthwise(net.block(x, channels, kernel=1), kernel=5), channels, kernel=1)
        gate = net.mean(y, keepdim=True)
        gate = net.block(gate, channels // 4, kernel=1)
        gate = net.unary("sigmoid", net.conv(gate, channels, kernel=1))
        x = net.pool(net.mul(y, gate))
    return net.text(net.linear(net.mean(x), 5))


NETWORKS = {
    network.__name__: network
    for network in (
        three_resolutions,
        u_net,
        large_tensor,
        dense_net,
        inverted_residuals,
        sequence,
        attention,
        gates,
    )
}
