// In-place operators write to the tensor that a view shows a part of: the tensor with that part
// replaced, by the operator that makes the view.
#include <algorithm>
#include <numeric>

#include "compiler/frontends/pt2/complex_operators.h"

namespace dtr::pt2 {
namespace {

using Found = Result<std::optional<ValueId>>;

// The same elements in another order of the dimensions.
Found permuted_back(NodeImport& node, ValueId part, std::string_view name, size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (name == "permute.default") {
    DTR_ASSIGN(const Ints dims, node.ints("dims"));
    if (dims.size() != rank) return std::optional<ValueId>();
    for (size_t i = 0; i < rank; ++i) {
      const int64_t dim = dims[i] < 0 ? dims[i] + static_cast<int64_t>(rank) : dims[i];
      order[static_cast<size_t>(dim)] = static_cast<int64_t>(i);
    }
  } else if (rank > 1) {
    int64_t a = 0, b = 1;
    if (name == "transpose.int") {
      DTR_ASSIGN(a, node.dim("dim0", rank));
      DTR_ASSIGN(b, node.dim("dim1", rank));
    } else {  // of matrices
      a = static_cast<int64_t>(rank) - 2;
      b = a + 1;
    }
    std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  }
  DTR_ASSIGN(const ValueId whole, node.permute(part, order));
  return std::optional(whole);
}

// Of real numbers.
Found scatter_into(NodeImport& node, ValueId part, std::string_view name) {
  // Not reshape, flatten, ravel and contiguous, which may have copied.
  constexpr std::string_view kSameOrder[] = {
      "alias.default", "detach.default",    "squeeze.default", "squeeze.dim",    "squeeze.dims",
      "unflatten.int", "unsqueeze.default", "view.default",    "view_as.default"};
  constexpr std::string_view kPermuted[] = {"mT.default", "numpy_T.default", "permute.default",
                                            "t.default", "transpose.int"};
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  const Shape shape = node.type(self).shape;
  if (std::ranges::find(kSameOrder, name) != std::end(kSameOrder)) {
    DTR_ASSIGN(const ValueId whole, node.view(part, shape));
    return std::optional(whole);
  }
  const bool turns = name != "numpy_T.default" || shape.size() <= 2;
  if (turns && std::ranges::find(kPermuted, name) != std::end(kPermuted))
    return permuted_back(node, part, name, shape.size());
  if (name == "diagonal.default") {
    DTR_ASSIGN(const ValueId whole, with_diagonal(node, part));
    return std::optional(whole);
  }
  if (name != "slice.Tensor" && name != "select.int") return std::optional<ValueId>();
  if (node.has_tensor("index")) return std::optional<ValueId>();  // known only at run time
  DTR_ASSIGN(const ValueId whole,
             name == "slice.Tensor" ? with_slice(node, part) : with_selection(node, part));
  return std::optional(whole);
}

}  // namespace

Found scatter_into_view_source(NodeImport& node, ValueId part) {
  std::string_view name = node.node().target;
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  if (!name.starts_with(kPrefix)) return std::optional<ValueId>();
  name.remove_prefix(kPrefix.size());
  if (!node.has("self")) return std::optional<ValueId>();  // no view
  if (!node.is_complex("self")) {
    // The part of complex numbers of which this is a view is the same value.
    if (name == "view_as_complex.default") return std::optional(part);
    return scatter_into(node, part, name);
  }
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(Parts whole, parts_of_value(node, self));
  if (name == "view_as_real.default") return std::optional(part);
  if (name == "real.default" || name == "imag.default") {
    (name == "real.default" ? whole.real : whole.imaginary) = part;
  } else {
    DTR_ASSIGN(const Parts parts, parts_of_value(node, part));
    for (const auto& [of_whole, of_part, is_imaginary] :
         {std::tuple{&whole.real, parts.real, false}, {&whole.imaginary, parts.imaginary, true}}) {
      const NodeImport::Replaced replaced(node, {{"self", {*of_whole}}}, is_imaginary);
      DTR_ASSIGN(const std::optional<ValueId> found, scatter_into(node, of_part, name));
      if (!found) return found;
      *of_whole = *found;
    }
  }
  DTR_ASSIGN(const ValueId result, joined(node, whole));
  return std::optional(result);
}

}  // namespace dtr::pt2
