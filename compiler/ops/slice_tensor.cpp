// aten.slice.Tensor: the elements start, start + step, … before `end` along `dim`. Bounds are
// inside the extent (frontends clip them as PyTorch does); negative ones count from the end.
#include "compiler/ir/reorder.h"
#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  DTR_TRY(check_moves(view));
  const int64_t wanted = view.attribute<int64_t>("dim");
  const auto dim = normalize_dim(wanted, x.rank());
  if (!dim)
    return broken(view, fmt::format("`dim` {} is out of range for {}", wanted, to_string(x.shape)));
  const int64_t extent = x.shape[*dim];
  for (const std::string_view bound : {"start", "end"})
    if (const int64_t value = view.attribute<int64_t>(bound); value < -extent || value > extent)
      return broken(view, fmt::format("`{}` {} is outside of the extent {}", bound, value, extent));
  if (const int64_t step = view.attribute<int64_t>("step"); step < 1)
    return broken(view, fmt::format("`step` is {}, expected at least 1", step));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  const Slice slice = slice_of(view);
  std::vector<Type> types = infer_like_first(view);
  types[0].shape[slice.dim] = slice.count;
  return types;
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Slice slice = slice_of(view);
  std::vector<int64_t> from = strides(operands[0].shape, Layout::kContiguous);
  const size_t element = byte_size(operands[0].dtype);
  const std::byte* first =
      operands[0].data + static_cast<size_t>(slice.start * from[slice.dim]) * element;
  from[slice.dim] *= slice.step;
  reorder(results[0].shape, element, first, from, results[0].data,
          strides(results[0].shape, Layout::kContiguous));
}

}  // namespace

Slice slice_of(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  Slice slice{.dim = *normalize_dim(view.attribute<int64_t>("dim"), shape.size()),
              .step = view.attribute<int64_t>("step")};
  const int64_t extent = shape[slice.dim];
  const auto bound = [&](std::string_view name) {
    const int64_t value = view.attribute<int64_t>(name);
    return value < 0 ? value + extent : value;
  };
  slice.start = bound("start");
  const int64_t room = bound("end") - slice.start;
  slice.count = room <= 0 ? 0 : (room - 1) / slice.step + 1;
  return slice;
}

constinit const OpDef kSliceTensor = moving_op(
    evaluate, {.name = "aten.slice.Tensor",
               .summary = "every `step`-th element from `start` to before `end` along `dim`",
               .schema = "(Tensor self, int dim, int start, int end, int step)",
               .kernel = "aten::slice_copy.Tensor_out",
               .verify = verify,
               .infer = infer});

}  // namespace dtr::ops
