"""Makes the small .pt2 files of this folder with PyTorch 2.13: keywords that change what an
operator means, and unusual shapes and dtypes.

    python make_edge_cases.py [NAME...]

NAME.pt2 is the program; NAME.npz holds input_I and output_I as PyTorch computes them.
test/e2e/edge_cases.py says which are computed and with which words the others are refused. Where a
case says what the operator would be `without` its keyword, the results must differ, or the case
could not tell whether the keyword was read.
"""
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402

CASES = {}


def rand(*shape):
    return (
        torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))) * 2 - 1
    )


def case(name, function, *inputs, without=None):
    CASES[name] = (function, inputs, without)


X = rand(2, 3, 7, 9)
MATRIX = rand(3, 5)
RANKED = (torch.randperm(120, generator=torch.Generator().manual_seed(5)) / 60 - 1).reshape(
    2, 3, 4, 5
)  # further apart than int8 steps
# Keywords.
case(
    "avg_pool_ceil_mode",
    lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    X,
    without=lambda x: F.avg_pool2d(x, 2, 2),
)
case(
    "avg_pool_count_include_pad",
    lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
    X,
    without=lambda x: F.avg_pool2d(x, 3, 2, padding=1),
)
case(
    "avg_pool_divisor_override",
    lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    X,
    without=lambda x: F.avg_pool2d(x, 2),
)
case(
    "avg_pool_all_keywords",
    lambda x: F.avg_pool2d(x, 3, 2, 1, True, False, 5),
    X,
    without=lambda x: F.avg_pool2d(x, 3, 2, 1),
)
case(
    "max_pool_ceil_mode",
    lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
    X,
    without=lambda x: F.max_pool2d(x, 2, 2),
)
case(
    "max_pool_dilation",
    lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    X,
    without=lambda x: F.max_pool2d(x, 2, 1),
)
case("max_pool_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[1], X)
case("mean_keepdim", lambda x: x.mean((1, 3), keepdim=True), X, without=lambda x: x.mean((1, 3)))
case("sum_keepdim", lambda x: x.sum(-1, keepdim=True), X, without=lambda x: x.sum(-1))
case("mean_dtype", lambda x: x.mean((2, 3), dtype=torch.float64), X)
case(
    "amax_keepdim", lambda x: torch.amax(x, 2, keepdim=True), X, without=lambda x: torch.amax(x, 2)
)
case(
    "upsample_align_corners",
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    X,
    without=lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
)
case(
    "upsample_half_pixel",
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
    X,
)
case(
    "upsample_antialias",
    lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    X,
)
case("upsample_bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), X)
case("gelu_tanh", lambda x: F.gelu(4 * x, approximate="tanh"), X, without=lambda x: F.gelu(4 * x))
case("gelu_none", lambda x: F.gelu(4 * x), X)
case("add_alpha", lambda x, y: torch.add(x, y, alpha=2), X, X.flip(3), without=lambda x, y: x + y)
case("sub_alpha", lambda x, y: torch.sub(x, y, alpha=0.5), X, X.flip(3), without=lambda x, y: x - y)
case("rsub_alpha", lambda x: torch.rsub(x, 3, alpha=2), X, without=lambda x: torch.rsub(x, 3))
case(
    "addmm_beta_alpha",
    lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
    rand(5),
    rand(4, 3),
    MATRIX,
    without=torch.addmm,
)
case("softmax_dtype", lambda x: torch.softmax(x, 1, dtype=torch.float32), X)
case("softmax_float64", lambda x: torch.softmax(x, 1, dtype=torch.float64), X)
case("elu_alpha", lambda x: F.elu(x, 0.25), X, without=F.elu)
case("selu", lambda x: F.selu(x), X, without=F.elu)
case("celu", lambda x: F.celu(x, 0.5), X, without=F.celu)
case("leaky_relu_slope", lambda x: F.leaky_relu(x, 0.5), X, without=F.leaky_relu)
case("softplus_beta", lambda x: F.softplus(x, beta=2), X, without=F.softplus)
case("clamp_integers", lambda x: torch.clamp(4 * x, -1, 2), X)
case("clamp_tensor_bounds", lambda x, y: torch.clamp(x, min=y), X, X.flip(3))
case(
    "div_floor",
    lambda x: torch.div(8 * x, 3, rounding_mode="floor"),
    X,
    without=lambda x: 8 * x / 3,
)
case(
    "layer_norm_eps",
    lambda x: F.layer_norm(x, (9,), eps=0.5),
    X,
    without=lambda x: F.layer_norm(x, (9,)),
)
case(
    "pad_replicate",
    lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"),
    X,
    without=lambda x: F.pad(x, (1, 2, 0, 1)),
)
case(
    "pad_negative",
    lambda x: F.pad(x, (-1, 2), value=0.5),
    X,
    without=lambda x: F.pad(x, (0, 2), value=0.5)[..., 1:] * 0,
)
case(
    "argmax_keepdim",
    lambda x: torch.argmax(x, 1, keepdim=True),
    X,
    without=lambda x: torch.argmax(x, 1),
)
case("argmin_flat", lambda x: torch.argmin(x), RANKED, without=torch.argmax)
case("max_dim", lambda x: tuple(torch.max(x, 2)), RANKED)
case("min_dim_keepdim", lambda x: tuple(torch.min(x, -1, keepdim=True)), RANKED)
case("embedding", lambda i: 2 * F.embedding(i, MATRIX), torch.tensor([[2, 0], [1, 1]]))
case("index_constant", lambda x: x[:, :, [4, 0, -1, 6, 1, 1]], X)
case("index_pairs", lambda x: x[[0, 1], [2, 0]], rand(4, 3))
case("std_population", lambda x: x.std(1, correction=0), X, without=lambda x: x.std(1))
case("var_mean_keepdim", lambda x: torch.var_mean(x, (0, 3), keepdim=True), X)
case("var_of_one", lambda x: x.var(0), rand(1, 3))
case("dropout_in_place", lambda x: F.dropout(x * 2, 0.5, training=False, inplace=True), X)
case("cumsum", lambda x: torch.cumsum(x, 1), X)
case("dropout_training", lambda x: F.dropout(x, 0.5, training=True), X)
case(
    "div_trunc",
    lambda x: torch.div(8 * x, 3, rounding_mode="trunc"),
    X,
    without=lambda x: 8 * x / 3,
)
case("clamp_crossed", lambda x: torch.clamp(x, 0.5, -0.25), X)
case("mean_all", lambda x: x.mean(), X)
case("mean_no_dims", lambda x: x.mean(()), X)
case("sum_keepdim_all", lambda x: x.sum((0, 1, 2, 3), keepdim=True), X)
case(
    "avg_pool1d_keywords",
    lambda x: F.avg_pool1d(x, 4, 3, 2, True, False),
    rand(2, 3, 10),
    without=lambda x: F.avg_pool1d(x, 4, 3, 2),
)
case(
    "max_pool1d_ceil_mode",
    lambda x: F.max_pool1d(x, 2, 2, ceil_mode=True),
    rand(2, 3, 9),
    without=lambda x: F.max_pool1d(x, 2, 2),
)
case(
    "upsample_nearest_exact",
    lambda x: F.interpolate(x, size=(5, 13), mode="nearest-exact"),
    X,
    without=lambda x: F.interpolate(x, size=(5, 13)),
)
case(
    "conv_transpose_keywords",
    lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 1, 2),
    rand(1, 3, 4, 5),
    rand(3, 2, 3, 3),
)
case(
    "conv_circular",
    lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w),
    X,
    rand(2, 3, 3, 3),
    without=lambda x, w: F.conv2d(x, w, padding=1),
)
case(
    "softmax_negative_dim",
    lambda x: torch.softmax(4 * x, -3),
    X,
    without=lambda x: torch.softmax(4 * x, -1),
)
case("cat_negative_dim", lambda x, y: torch.cat((x, y), -2), X, X.flip(3))
case("slice_negative_step_end", lambda x: x[:, :, -6:-1:2], X)
case(
    "embedding_padding_index",
    lambda i, w: F.embedding(i, w, padding_idx=0),
    torch.tensor([1, 0, 2]),
    rand(5, 3),
)
case("bool_result", lambda x: x > 0.25, X)
case(
    "round_decimals",
    lambda x: torch.round(4 * x, decimals=1),
    X,
    without=lambda x: torch.round(4 * x),
)
case(
    "var_correction", lambda x: torch.var(x, 1, correction=0), X, without=lambda x: torch.var(x, 1)
)
case("logsumexp", lambda x: torch.logsumexp(x, 1), X)
case("threshold", lambda x: F.threshold(x, 0.25, 2.0), X)
case("linear_rank_1", lambda x, w: F.linear(x, w), rand(5), rand(3, 5))
case("matmul_vectors", lambda x, y: torch.matmul(x, y), rand(7), rand(7).flip(0) + 0.5)
case("glu", lambda x: F.glu(4 * x, 3), rand(2, 3, 5, 8), without=lambda x: (4 * x)[..., :4])
case("softshrink", lambda x: F.softshrink(x, 0.25), X, without=F.softshrink)
case("hardshrink", lambda x: F.hardshrink(x, 0.25), X, without=F.hardshrink)
# Numbers that no code of int8 is near to, and an input that comes as codes.
case(
    "pad_lowest",
    lambda x: F.max_pool2d(F.pad(x - 2, (1, 0, 0, 1), value=-1e20), 2, 1),
    X,
    without=lambda x: F.max_pool2d(F.pad(x - 2, (1, 0, 0, 1)), 2, 1),
)
case(
    "pad_minus_infinity",
    lambda x: torch.amax(F.pad(x - 2, (1, 2), value=-float("inf")), 3),
    X,
    without=lambda x: torch.amax(F.pad(x - 2, (1, 2)), 3),
)
case("threshold_infinite", lambda x: x + F.threshold(x, float("inf"), 0.5), X, without=lambda x: x)
case(
    "dequantized_input",
    lambda x, w: F.linear(
        torch.ops.quantized_decomposed.dequantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8), w
    ),
    (100 * rand(3, 5)).round().to(torch.int8),
    rand(4, 5),
)
# Attention.
QKV = rand(1, 4, 5, 8), rand(1, 4, 6, 8), rand(1, 4, 6, 7)
BANDED = (torch.arange(5)[:, None] - torch.arange(6)).abs() < 3
attend = F.scaled_dot_product_attention
case(
    "attention_causal",
    lambda q, k, v: attend(8 * q, k, v, is_causal=True),
    *QKV,
    without=lambda q, k, v: attend(8 * q, k, v),
)
case(
    "attention_bool",
    lambda q, k, v: attend(8 * q, k, v, BANDED),
    *QKV,
    without=lambda q, k, v: attend(8 * q, k, v),
)
case(
    "attention_float",
    lambda q, k, v: attend(8 * q, k, v, torch.where(BANDED, 0.5, -torch.inf)),
    *QKV,
    without=lambda q, k, v: attend(8 * q, k, v),
)
case(
    "attention_empty_row",
    lambda q, k, v: attend(8 * q, k, v, BANDED & (torch.arange(5) != 2)[:, None]),
    *QKV,
    without=lambda q, k, v: attend(8 * q, k, v, BANDED),
)
case(
    "attention_computed",
    lambda q, k, v, m: attend(8 * q, k, v, m),
    *QKV,
    BANDED,
    without=lambda q, k, v, m: attend(8 * q, k, v),
)
case(
    "attention_gqa",
    lambda q, k, v: attend(8 * q, k, v, enable_gqa=True),
    QKV[0],
    QKV[1][:, :2].clone(),
    QKV[2][:, :2].clone(),
)
case(
    "attention_gqa_causal",
    lambda q, k, v: attend(8 * q, k, v, is_causal=True, enable_gqa=True),
    QKV[0],
    QKV[1][:, :2].clone(),
    QKV[2][:, :2].clone(),
    without=lambda q, k, v: attend(8 * q, k, v, enable_gqa=True),
)
case(
    "masked_fill_softmax",
    lambda x: torch.softmax((4 * x).masked_fill(torch.ones(7, 9).triu(1) != 0, -torch.inf), -1),
    X,
    without=lambda x: torch.softmax(4 * x, -1),
)
case("masked_fill_value", lambda x: x.masked_fill(torch.arange(9) > 5, 0.5), X, without=lambda x: x)
case(
    "where_constant",
    lambda x, y: torch.where(torch.arange(9) % 2 == 0, x, y),
    X,
    X.flip(3),
    without=lambda x, y: x,
)
case("where_computed", lambda x: torch.where(x > 0, x, 0.1 * x), X)
TOKENS = rand(2, 7, 16)


class SelfAttention(nn.Module):
    def __init__(self, masked, **keywords):
        super().__init__()
        torch.manual_seed(1)
        self.attention, self.keywords = nn.MultiheadAttention(16, 4, batch_first=True), keywords
        self.register_buffer("mask", torch.ones(7, 7, dtype=torch.bool).triu(1) if masked else None)

    def forward(self, x):
        return tuple(
            y
            for y in self.attention(x, x, x, attn_mask=self.mask, **self.keywords)
            if y is not None
        )


class Encoder(nn.Module):
    def __init__(self, masked, **keywords):
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **keywords)
        self.register_buffer(
            "mask", nn.Transformer.generate_square_subsequent_mask(7) if masked else None
        )

    def forward(self, x):
        return self.layer(x, src_mask=self.mask, is_causal=self.mask is not None)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x, memory):
        return self.layer(x, memory)


class Language(nn.Module):
    """As small language models are written by hand."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(8, 16)
        self.qkv, self.out, self.norm, self.head = (
            nn.Linear(16, 48),
            nn.Linear(16, 16),
            nn.LayerNorm(16),
            nn.Linear(16, 50, bias=False),
        )
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, i):
        batch, length = i.shape
        x = self.tokens(i) + self.positions(torch.arange(length))
        q, k, v = (
            t.view(batch, length, 2, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).split(16, 2)
        )
        scores = (q @ k.transpose(-2, -1)) * 8**-0.5
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(batch, length, 16)
        return self.head(x + self.out(y))


case("transformer_attention", SelfAttention(False).eval(), TOKENS)
case(
    "transformer_attention_masked",
    SelfAttention(True, need_weights=False).eval(),
    TOKENS,
    without=SelfAttention(False, need_weights=False).eval(),
)
case("transformer_encoder", Encoder(False).eval(), TOKENS)
case(
    "transformer_encoder_causal",
    Encoder(True, norm_first=True, activation="gelu").eval(),
    TOKENS,
    without=Encoder(False, norm_first=True, activation="gelu").eval(),
)
case("transformer_decoder", Decoder().eval(), TOKENS, rand(2, 5, 16))
case(
    "transformer_language",
    Language().eval(),
    torch.randint(0, 50, (1, 6), generator=torch.Generator().manual_seed(1)),
)
# Shapes.
case("one_element", lambda x: torch.relu(x) + x, rand(1))
case("one_element_convolution", lambda x, w: F.conv2d(x, w), rand(1, 1, 1, 1), rand(1, 1, 1, 1) + 2)
case(
    "one_element_pool_mean",
    lambda x: F.avg_pool2d(x, 1) + x.mean((2, 3), keepdim=True),
    rand(1, 1, 1, 1) + 2,
)
case("rank_0_reduced", lambda x: x.sum() + x.mean() + torch.amax(x), torch.tensor(0.75))
case("rank_0_views", lambda x: x.reshape(1).unsqueeze(0).squeeze().flatten(), torch.tensor(0.75))
case("rank_8_reduced", lambda x: x.mean((1, 6)), rand(1, 2, 1, 3, 1, 2, 2, 1))
case("no_batch_convolution", lambda x, w: F.conv2d(x, w), torch.zeros(0, 2, 4, 4), rand(3, 2, 3, 3))
case("no_elements_reduced", lambda x: x.sum(0), torch.zeros(0, 3))
case("rank_0", lambda x: torch.relu(x) + x, torch.tensor(0.5))
case("rank_7", lambda x: torch.relu(x) + x, rand(1, 2, 1, 3, 1, 2, 2))
case("rank_7_permute", lambda x: x.permute(6, 1, 0, 3, 5, 4, 2), rand(2, 2, 1, 3, 1, 2, 2))
case("rank_17", lambda x: torch.relu(x) + x, rand(*[1] * 15, 2, 3))
case("no_elements", lambda x: torch.relu(x) + x, torch.zeros(0, 3))
case("no_elements_inside", lambda x: torch.cat((x[:, 1:1], x), 1), rand(2, 3))
# Dtypes.
case("float64", lambda x: torch.relu(x) + x, X.double())
case("float16", lambda x: torch.relu(x) + x, X.half())
case("bfloat16", lambda x: torch.relu(x) + x, X.bfloat16())
case(
    "int32_passes",
    lambda x, y: (torch.relu(x), y.reshape(6)),
    X,
    torch.arange(6, dtype=torch.int32).reshape(2, 3),
)
case("int32_added", lambda x: x + 1, torch.arange(6, dtype=torch.int32))
case("int64_index", lambda x, i: x[i], X, torch.tensor([1, 0]))
case("int64_times_float", lambda x, y: x * y, rand(2, 3), torch.arange(6).reshape(2, 3))
case(
    "bool_passes",
    lambda x, y: (torch.relu(x), y.reshape(6)),
    X,
    torch.arange(6).reshape(2, 3) % 2 == 0,
)
case(
    "bool_mask",
    lambda x, y: torch.where(y, x, torch.zeros_like(x)),
    rand(2, 3),
    torch.arange(6).reshape(2, 3) % 2 == 0,
)
case("int8_input", lambda x: x.reshape(6), torch.arange(6, dtype=torch.int8))
case("complex64", lambda x: x * 2, torch.complex(rand(3), rand(3)))


# Operators that are others by definition.
POSITIVE = rand(3, 5, 4).abs() + 0.25
case(
    "vector_norms",
    lambda x: (
        x.norm(dim=-1),
        x.norm(p=1, dim=1, keepdim=True),
        torch.linalg.vector_norm(x, float("inf"), dim=2),
        torch.linalg.vector_norm(x, -float("inf"), dim=(0, 1)),
        torch.linalg.vector_norm(x, 3),
        x.norm(),
    ),
    X,
)
case(
    "cosine_similarity",
    lambda x, y: (F.cosine_similarity(x, y), F.cosine_similarity(x[:, :1], y, dim=-1)),
    X,
    X.flip(3).roll(1, 0),
)
case(
    "logarithms",
    lambda x: (
        torch.log2(x),
        torch.log10(x),
        torch.log1p(x),
        torch.exp2(x),
        torch.expm1(x),
        3**x,
        torch.erfc(x),
    ),
    POSITIVE,
)
case(
    "weighted_sums",
    lambda x, y: (
        torch.addcmul(x, x, y, value=0.5),
        torch.addcdiv(x, x, y.abs() + 1, value=-2),
        torch.lerp(x, y, 0.25),
        torch.lerp(x, y, y.abs()),
    ),
    X,
    X.flip(3),
)
case(
    "losses",
    lambda x, y: (
        F.mse_loss(x, y),
        F.l1_loss(x, y),
        F.mse_loss(x, y, reduction="none"),
        F.l1_loss(x, y, reduction="sum"),
    ),
    X,
    X.flip(3) * 0.5,
)
case("rrelu", lambda x: F.rrelu(x, 0.25, 0.5), X, without=F.relu)
case("outer", torch.outer, rand(7), rand(4))
case(
    "tensordot",
    lambda x, y: (torch.tensordot(x, y, dims=([1, 3], [2, 0])), torch.tensordot(x, y, dims=1)),
    X,
    rand(9, 2, 3),
)
case("matrix_transposes", lambda x, y: (x.mT, x.mT @ y, y[0, 0].T, x.adjoint()), X, X.flip(3))
case("tensor_split", lambda x: (*x.tensor_split(4, 3), *x.tensor_split((1, -2), 2)), X)
case(
    "rot90",
    lambda x: (torch.rot90(x, 1, (2, 3)), torch.rot90(x, -1, (1, -1)), torch.rot90(x, 2, (0, 2))),
    X,
)
case(
    "meshgrid",
    lambda x: x
    + torch.stack(
        torch.meshgrid(torch.linspace(-1, 1, 9), torch.linspace(0, 1, 7), indexing="xy")
    ).sum(0),
    X,
)
case("eye", lambda x: (x + torch.eye(7, 9), x[0, 0, :, :7] @ torch.eye(7, 5)), X)
case(
    "integer_constants",
    lambda x: (x * torch.arange(9), torch.arange(7)[:, None] - x, x + (torch.arange(9) > 4)),
    X,
)
case(
    "scattered_parts",
    lambda x, y: (
        torch.slice_scatter(x, y[:, :, 2:4], 2, 1, 3),
        torch.slice_scatter(x, y[..., :4], 3, 1, 8, 2),
        torch.select_scatter(x, y[:, 0], 1, -1),
    ),
    X,
    X.flip(3),
)


WEIGHT, LENGTHS, COLUMNS = rand(4, 9), rand(4, 1), rand(1, 9)


def weight_norm(x):
    return F.linear(x, torch._weight_norm(WEIGHT, LENGTHS, 0)), F.linear(
        x, torch._weight_norm(WEIGHT, COLUMNS, 1)
    )


case("weight_norm", weight_norm, X)


TOKEN = rand(1, 1, 9)
case("class_token", lambda x: torch.cat([TOKEN.expand(2, -1, -1), x[:, 0]], 1) * 2, X)


# Parts that are overwritten: the tensor behind the view has the new elements, too.
def overwritten_parts(x, y):
    whole = x.clone()
    whole[:, :, 0] = y[:, :, 0]
    whole[..., 1:8:3] = 0.5
    whole[0, 1].mul_(2)
    part = whole[:, 2]
    part.zero_()
    return whole, part + 1


SQUARE = rand(5, 5) + torch.eye(5)[[2, 0, 1, 4, 3]]
case(
    "factorizations",
    lambda x: (
        torch.linalg.inv(x),
        *torch.linalg.qr(x[:, :3]),
        torch.linalg.det(x),
        torch.linalg.solve(x + 0.1, x[:, 0]),
        torch.linalg.cholesky((3 * x).abs().tril() + (3 * x).abs().tril().T + 9 * torch.eye(5)),
        torch.linalg.solve_triangular(x.triu() + 2 * torch.eye(5), x, upper=True),
        torch.matrix_exp(x),
        torch.lgamma(x + 3),
    ),
    SQUARE,
)
case("overwritten_parts", overwritten_parts, X, X.flip(3))


def filled_parts(x):
    joined = torch.zeros(2, 6, 7, 9)
    joined[:, 1:4].copy_(x)
    joined[:, 5].fill_(0.5)
    return joined


case("filled_parts", filled_parts, X)


def unknown_in_place(x):
    whole = x.clone()
    whole[0].trunc_()
    return whole


case("unknown_in_place", unknown_in_place, X)


def sibling_views(x):
    whole = x.clone()
    before = whole[:, 1]
    whole[:, 1:].neg_()
    return whole + 1, before + 1


case("sibling_views", sibling_views, X)


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def outputs_of(function, inputs):
    with torch.no_grad():
        outputs = function(*[i.clone() for i in inputs])
    return outputs if isinstance(outputs, tuple) else (outputs,)


def sqnr(expected, actual):
    return 10 * torch.log10(expected.square().sum() / (expected - actual).square().sum())


def deflate(path):
    """The graph's JSON, which is most of such a file, compressed."""
    with zipfile.ZipFile(path) as old:
        members = [(m.filename, old.read(m)) for m in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members:
            new.writestr(
                zipfile.ZipInfo(name),
                data,
                zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    only = sys.argv[1:]  # names; none: all
    for name, (function, inputs, without) in CASES.items():
        if only and name not in only:
            continue
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.export.save(
            torch.export.export(Module(function), inputs, strict=False), HERE / f"{name}.pt2"
        )
        portable(HERE / f"{name}.pt2")
        deflate(HERE / f"{name}.pt2")
        outputs = outputs_of(function, inputs)
        if without is not None:
            for a, b in zip(outputs, outputs_of(without, inputs)):
                assert a.shape != b.shape or sqnr(a, b) < (80 if name == "gelu_tanh" else 20), name
        arrays = {f"input_{i}": v for i, v in enumerate(inputs)} | {
            f"output_{i}": v for i, v in enumerate(outputs)
        }
        if name in ("float16", "bfloat16", "float64"):  # programs take and give float32
            arrays = {key: v.float() for key, v in arrays.items()}
        np.savez_compressed(
            HERE / f"{name}.npz", **{key: v.contiguous().numpy() for key, v in arrays.items()}
        )
