// Operators on complex numbers whose parts the rows of real numbers compute: those that move
// elements or add them up (each part by itself), those that make real numbers, and products.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/compositions/attention.h"
#include "compiler/frontends/pt2/complex_operators.h"

namespace dtr::pt2 {
namespace {

// The row of the node's operator on real numbers.
const Operator& real_row(const NodeImport& node) {
  std::string_view target = node.node().target;
  target.remove_prefix(std::string_view("torch.ops.").size());
  const Operator* row = find_operator(target).row;
  DTR_CHECK(row != nullptr);
  return *row;
}

// Arguments that say which elements are meant, or when: the same for both parts.
bool selects(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "condition", "index", "indices", "mask", "offsets", "repeats", "tensor_indices_or_sections"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

Result<ValueId> part_or_zero(NodeImport& node, ValueId x, bool complex, int64_t which) {
  if (!x.valid()) return x;
  if (complex) return part_of(node, x, which);
  return which == 0 ? Result<ValueId>(x) : zeros_like(node, x);
}

// The node's tensors, of complex ones that part; the imaginary part of real ones is 0.
Result<NodeImport::Replacements> replacements(NodeImport& node, int64_t which) {
  NodeImport::Replacements all;
  for (const std::string_view name : node.tensor_arguments()) {
    if (selects(name)) continue;
    Values values;
    std::vector<bool> complex = node.are_complex(name);
    if (complex.empty()) {
      complex = {node.is_complex(name)};
      DTR_ASSIGN(values.emplace_back(), node.optional_tensor(name));
    } else {
      DTR_ASSIGN(values, node.optional_tensors(name));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      DTR_ASSIGN(values[i], part_or_zero(node, values[i], complex[i], which));
    }
    all.emplace_back(name, std::move(values));
  }
  return all;
}

Result<Values> compute_part(NodeImport& node, int64_t which) {
  DTR_ASSIGN(NodeImport::Replacements arguments, replacements(node, which));
  const NodeImport::Replaced replaced(node, std::move(arguments), which == 1);
  return import_operator(node, real_row(node));
}

bool is_any_complex(const NodeImport& node, const Values& results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (node.gives_complex(i)) return true;
  return false;
}

Result<Values> part_by_part(NodeImport& node) {
  DTR_ASSIGN(Values results, compute_part(node, 0));
  if (!is_any_complex(node, results)) return results;
  DTR_ASSIGN(const Values imaginary, compute_part(node, 1));
  for (size_t i = 0; i < results.size(); ++i)
    if (node.gives_complex(i)) {
      DTR_ASSIGN(results[i], with_parts(node, results[i], imaginary[i]));
    }
  return results;
}

// ones, eye: numbers without an imaginary part.
Result<Values> without_imaginary(NodeImport& node) {
  DTR_ASSIGN(const Values real, compute_part(node, 0));
  DTR_ASSIGN(const ValueId zero, zeros_like(node, real.at(0)));
  return one(with_parts(node, real[0], zero));
}

// ---- products

struct Product {
  std::string_view name;  // of the operator, without "aten." and overload
  std::string_view first = "self", second = "other";
  std::string_view addend = {};  // is added to the product
  bool turns_first = false;      // takes the conjugate of the first
};
constexpr Product kProducts[] = {
    {.name = "addbmm", .first = "batch1", .second = "batch2", .addend = "self"},
    {.name = "addmm", .first = "mat1", .second = "mat2", .addend = "self"},
    {.name = "addmv", .first = "mat", .second = "vec", .addend = "self"},
    {.name = "addr", .first = "vec1", .second = "vec2", .addend = "self"},
    {.name = "baddbmm", .first = "batch1", .second = "batch2", .addend = "self"},
    {.name = "bmm", .second = "mat2"},
    {.name = "conv1d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "conv2d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "conv3d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "conv_transpose1d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "conv_transpose2d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "conv_transpose3d", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "convolution", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "cross"},
    {.name = "dot", .second = "tensor"},
    {.name = "ger", .second = "vec2"},
    {.name = "inner"},
    {.name = "kron"},
    {.name = "linalg_cross"},
    {.name = "linalg_vecdot", .first = "x", .second = "y", .turns_first = true},
    {.name = "linear", .first = "input", .second = "weight", .addend = "bias"},
    {.name = "matmul"},
    {.name = "mm", .second = "mat2"},
    {.name = "mv", .second = "vec"},
    {.name = "outer", .second = "vec2"},
    {.name = "tensordot"},
    {.name = "vdot", .turns_first = true},
};

std::string_view name_of(std::string_view target) {
  constexpr std::string_view kPrefix = "aten.";
  if (!target.starts_with(kPrefix)) return {};
  target.remove_prefix(kPrefix.size());
  return target.substr(0, target.find('.'));
}

const Product* find_product(std::string_view name) {
  const auto* at = std::ranges::find(kProducts, name, &Product::name);
  return at == std::end(kProducts) ? nullptr : at;
}

// (a + bi)(c + di) + e + fi: of each product of parts the row of real numbers makes one, the first
// ones with the addend.
Result<Values> multiply(NodeImport& node, const Product& of) {
  DTR_ASSIGN(const Parts a, parts_of(node, of.first));
  DTR_ASSIGN(const Parts b, parts_of(node, of.second));
  Parts addend;
  if (!of.addend.empty() && node.has(of.addend)) {
    DTR_ASSIGN(addend, both_parts_of(node, of.addend));
  }
  const auto times = [&](ValueId x, ValueId y, ValueId plus) -> Result<ValueId> {
    NodeImport::Replacements arguments{{of.first, {x}}, {of.second, {y}}};
    if (!of.addend.empty()) {
      if (!plus.valid() && of.addend == "self") {
        DTR_ASSIGN(plus, number_like(node, x, 0));
      }
      arguments.emplace_back(of.addend, Values{plus});
    }
    const NodeImport::Replaced replaced(node, std::move(arguments), false);
    DTR_ASSIGN(const Values results, import_operator(node, real_row(node)));
    return results.at(0);
  };
  DTR_ASSIGN(ValueId real, times(a.real, b.real, addend.real));
  ValueId imaginary;
  const bool both = a.imaginary.valid() && b.imaginary.valid();
  if (b.imaginary.valid()) {
    DTR_ASSIGN(imaginary, times(a.real, b.imaginary, addend.imaginary));
  }
  if (a.imaginary.valid()) {
    DTR_ASSIGN(ValueId other, times(a.imaginary, b.real, both ? ValueId{} : addend.imaginary));
    if (of.turns_first) {
      DTR_ASSIGN(other, node.emit("aten.neg", {other}));
    }
    if (both) {
      DTR_ASSIGN(imaginary, node.emit("aten.add.Tensor", {imaginary, other}));
    } else {
      imaginary = other;
    }
  }
  if (both) {
    DTR_ASSIGN(const ValueId other, times(a.imaginary, b.imaginary, {}));
    DTR_ASSIGN(real,
               node.emit(of.turns_first ? "aten.add.Tensor" : "aten.sub.Tensor", {real, other}));
  }
  if (!imaginary.valid()) {
    DTR_ASSIGN(imaginary, addend.imaginary.valid() ? times(a.real, b.real, addend.imaginary)
                                                   : zeros_like(node, real));
  }
  return one(with_parts(node, real, imaginary));
}
Result<Values> product_of_parts(NodeImport& node) {
  std::string_view target = node.node().target;
  target.remove_prefix(std::string_view("torch.ops.").size());
  std::string_view name = name_of(target);
  if (name.ends_with('_')) name.remove_suffix(1);
  const Product* of = find_product(name);
  DTR_CHECK(of != nullptr);
  return multiply(node, *of);
}

// By their names, without "aten.": each part of the result is that of the operands' parts.
constexpr std::string_view kPartByPart[] = {"_to_copy",
                                            "as_strided",
                                            "as_strided_scatter",
                                            "block_diag",
                                            "broadcast_tensors",
                                            "broadcast_to",
                                            "cat",
                                            "chunk",
                                            "column_stack",
                                            "constant_pad_nd",
                                            "copy",
                                            "cumsum",
                                            "diag",
                                            "diag_embed",
                                            "diagflat",
                                            "diagonal",
                                            "diagonal_scatter",
                                            "diff",
                                            "dropout",
                                            "dsplit",
                                            "dstack",
                                            "embedding",
                                            "empty",
                                            "empty_like",
                                            "expand_as",
                                            "fill",
                                            "fliplr",
                                            "flipud",
                                            "full",
                                            "full_like",
                                            "gather",
                                            "hsplit",
                                            "hstack",
                                            "index",
                                            "index_add",
                                            "index_copy",
                                            "index_fill",
                                            "index_put",
                                            "index_select",
                                            "lift_fresh",
                                            "lift_fresh_copy",
                                            "mT",
                                            "masked_fill",
                                            "masked_scatter",
                                            "mean",
                                            "meshgrid",
                                            "moveaxis",
                                            "movedim",
                                            "narrow",
                                            "new_empty",
                                            "new_full",
                                            "new_zeros",
                                            "numpy_T",
                                            "pad",
                                            "positive",
                                            "ravel",
                                            "repeat",
                                            "repeat_interleave",
                                            "reshape_as",
                                            "rot90",
                                            "row_stack",
                                            "scatter",
                                            "scatter_add",
                                            "select_scatter",
                                            "slice_scatter",
                                            "split",
                                            "split_with_sizes",
                                            "stack",
                                            "sum",
                                            "sum_to_size",
                                            "swapaxes",
                                            "swapdims",
                                            "t",
                                            "take",
                                            "take_along_dim",
                                            "tensor_split",
                                            "tile",
                                            "to",
                                            "trace",
                                            "tril",
                                            "triu",
                                            "type_as",
                                            "unbind",
                                            "unfold",
                                            "view_as",
                                            "vsplit",
                                            "vstack",
                                            "where",
                                            "zero",
                                            "zeros",
                                            "zeros_like"};
constexpr std::string_view kWithoutImaginary[] = {"eye", "new_ones", "ones", "ones_like"};

template <size_t kCount>
bool is_in(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

std::optional<Operator> complex_row_by_parts(const Operator& real) {
  const std::string_view name = name_of(real.target);
  const auto row = [&](Result<Values> (*build)(NodeImport&)) {
    return Operator{.target = real.target, .op = {}, .build = build, .aliases = real.aliases};
  };
  if (real.target.ends_with("reduce") || name.empty()) return std::nullopt;  // of scatter
  if (is_in(kPartByPart, name)) return row(part_by_part);
  if (is_in(kWithoutImaginary, name)) return row(without_imaginary);
  if (find_product(name) != nullptr) return row(product_of_parts);
  return std::nullopt;
}

}  // namespace dtr::pt2
