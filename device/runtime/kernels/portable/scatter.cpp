// Elements along a dimension at the places that a tensor of indices names, any dtype:
// aten::gather.out(self, dim, index, sparse_grad, out), aten::scatter.src_out(self, dim, index,
// src, out) and .value_out(self, dim, index, value, out); aten::scatter_add.out(self, dim, index,
// src, out), of float, integers and bools. Of several elements for one place the last remains. As
// in PyTorch an index outside of the dimension is refused, and a negative one is outside.
#include <cstring>

#include "device/runtime/kernels/portable/convert.h"
#include "device/runtime/kernels/portable/indices.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// Calls visit(offset in `whole` of the named element, offset in `part`) for each
// index; `part` has at least the extents of `index`.
template <class Visit>
Error for_each_named(const Tensor& whole, int64_t dim, const Tensor& index, const Tensor& part,
                     Visit visit) {
  if (!is_index(index.dtype)) return Error::kKernelDtype;
  // A tensor without dimensions is one with one element.
  const int axis = whole.rank == 0 ? -1 : wrap_dim(dim, whole.rank);
  const bool is_scalar = whole.rank == 0 && (dim == 0 || dim == -1);
  if ((axis < 0 && !is_scalar) || index.rank != whole.rank || part.rank != whole.rank)
    return Error::kKernelArguments;
  for (int d = 0; d < whole.rank; ++d) {
    if ((d != axis && index.sizes[d] > whole.sizes[d]) || index.sizes[d] > part.sizes[d])
      return Error::kKernelArguments;
  }
  Strides strides = strides_of(whole);
  const int32_t extent = is_scalar ? 1 : whole.sizes[axis];
  const int32_t step = is_scalar ? 0 : strides.of[axis];
  if (!is_scalar) strides.of[axis] = 0;
  Error error = Error::kOk;
  for_each_offset(
      index.shape(),
      [&](int32_t at, int32_t base, int32_t in_part) {
        const int64_t named = load_integer(index, at);
        if (named < 0 || named >= extent) {
          error = Error::kKernelIndex;
        } else if (error == Error::kOk) {
          visit(static_cast<int32_t>(base + named * step), in_part);
        }
      },
      strides_of(index), strides, strides_of(part));
  return error;
}

void copy_element(const Tensor& in, int32_t from, const Tensor& out, int32_t to) {
  const size_t element = byte_size(in.dtype);
  std::memcpy(out.data + static_cast<size_t>(to) * element,
              in.data + static_cast<size_t>(from) * element, element);
}

}  // namespace

Error gather_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& index = arguments.tensor(2);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !same_shape(index, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  return for_each_named(in, dim, index, out,
                        [&](int32_t named, int32_t place) { copy_element(in, named, out, place); });
}

Error scatter_src_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& index = arguments.tensor(2);
  const Tensor& src = arguments.tensor(3);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype || src.dtype != out.dtype) return Error::kKernelDtype;
  if (const Error error = copy_elements(in, out); error != Error::kOk) return error;
  return for_each_named(out, dim, index, src, [&](int32_t named, int32_t place) {
    copy_element(src, place, out, named);
  });
}

Error scatter_value_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& index = arguments.tensor(2);
  const double value = arguments.number(3);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (const Error error = copy_elements(in, out); error != Error::kOk) return error;
  return for_element_type(out.dtype, [&]<class T>(T*) {
    const T element =
        out.dtype == ScalarType::kBool ? static_cast<T>(value != 0) : convert<T>(value);
    return for_each_named(out, dim, index, index,
                          [&](int32_t named, int32_t) { out.values<T>()[named] = element; });
  });
}

Error scatter_add_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& index = arguments.tensor(2);
  const Tensor& src = arguments.tensor(3);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype || src.dtype != out.dtype || !is_number(out.dtype))
    return Error::kKernelDtype;
  if (const Error error = copy_elements(in, out); error != Error::kOk) return error;
  return for_each_named(out, dim, index, src,
                        [&](int32_t named, int32_t place) { add_element(src, place, out, named); });
}

}  // namespace dtr::runtime::portable
