// Elements at the places that a list of tensors names, one for each dimension or none, as NumPy's
// indexing: aten::index.Tensor_out(self, indices, out), aten::index_put.out(self, indices, values,
// accumulate, out) and aten::index_put_(self, indices, values, accumulate). Indices are int64 or
// int32, broadcast to each other, and may count from the end; or one mask of bools, whose true
// elements are the places. Any dtype; sums are of float, integers and bools. A place outside of the
// tensor is refused.
#include "device/runtime/kernels/portable/indices.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// The elements of a tensor that a list of indices names: places, times the dimensions that are not
// indexed. Dimensions of the named part are those, with the dimensions of the places (of a mask
// one) where the indexed dimensions are if they are neighbours, else in front.
struct Named {
  const Tensor* indices[kMaxRank] = {};  // by dimension of the tensor
  const Tensor* mask = nullptr;          // in place of indices
  int mask_at = 0;                       // the first dimension that it stands for
  bool indexed[kMaxRank] = {};
  int32_t places[kMaxRank] = {};  // extents of the broadcast indices; of a mask the count
  int place_rank = 0;
  int64_t count = 1;             // of the places
  int32_t part[kMaxRank] = {};   // the shape of the named part
  int part_rank = 0, begin = 0;  // the dimension of it where those of the places begin
  int32_t rest[kMaxRank] = {};   // the tensor's extents, 1 where it is indexed

  std::span<const int32_t> part_shape() const { return {part, static_cast<size_t>(part_rank)}; }
};

bool is_mask(ScalarType dtype) { return dtype == ScalarType::kBool || dtype == ScalarType::kByte; }

bool broadcast_places(const Tensor& index, Named* named) {
  while (named->place_rank < index.rank) {
    std::copy_backward(named->places, named->places + named->place_rank,
                       named->places + named->place_rank + 1);
    named->places[0] = 1;
    ++named->place_rank;
  }
  for (int d = 0; d < index.rank; ++d) {
    int32_t& size = named->places[named->place_rank - index.rank + d];
    if (index.sizes[d] == 1) continue;
    if (size != 1 && size != index.sizes[d]) return false;
    size = index.sizes[d];
  }
  return true;
}

Error read_indices(const Tensor& tensor, std::span<Value* const> list, Named* named) {
  int dim = 0, found = 0;
  for (const Value* value : list) {
    const bool all = value == nullptr || value->kind == ValueKind::kNone;
    const int dims = all || !is_mask(value->tensor.dtype) ? 1 : value->tensor.rank;
    if (dim + dims > tensor.rank || (!all && named->mask != nullptr))
      return Error::kKernelArguments;
    if (!all && is_mask(value->tensor.dtype)) {
      if (found > 0 || dims == 0) return Error::kKernelArguments;
      named->mask = &value->tensor;
      named->mask_at = dim;
      for (int d = 0; d < dims; ++d) {
        if (value->tensor.sizes[d] != tensor.sizes[dim + d]) return Error::kKernelArguments;
      }
    } else if (!all) {
      if (!is_index(value->tensor.dtype)) return Error::kKernelDtype;
      named->indices[dim] = &value->tensor;
      if (!broadcast_places(value->tensor, named)) return Error::kKernelArguments;
    }
    if (!all) ++found;
    for (int d = 0; d < dims; ++d) named->indexed[dim + d] = !all;
    dim += dims;
  }
  return found > 0 ? Error::kOk : Error::kKernelArguments;
}

Error find_named(const Tensor& tensor, std::span<Value* const> list, Named* named) {
  if (const Error error = read_indices(tensor, list, named); error != Error::kOk) return error;
  if (named->mask != nullptr) {
    const size_t elements = named->mask->elements();
    for (size_t i = 0; i < elements; ++i)
      named->places[0] += named->mask->values<uint8_t>()[i] != 0 ? 1 : 0;
    named->place_rank = 1;
  }
  int first = -1, last = -1, indexed = 0;
  for (int d = 0; d < tensor.rank; ++d) {
    named->rest[d] = named->indexed[d] ? 1 : tensor.sizes[d];
    if (!named->indexed[d]) continue;
    if (first < 0) first = d;
    last = d;
    ++indexed;
  }
  named->begin = last - first + 1 == indexed ? first : 0;
  named->part_rank = tensor.rank - indexed + named->place_rank;
  if (named->part_rank > static_cast<int>(kMaxRank)) return Error::kKernelArguments;
  for (int d = 0; d < named->place_rank; ++d) named->part[named->begin + d] = named->places[d];
  for (int d = 0, at = 0; d < tensor.rank; ++d) {
    if (named->indexed[d]) continue;
    named->part[at < named->begin ? at : at + named->place_rank] = tensor.sizes[d];
    ++at;
  }
  // Small lists that are broadcast to each other may name more than any tensor holds.
  int64_t elements = 1;
  for (int d = 0; d < named->part_rank; ++d) {
    elements *= std::max<int32_t>(named->part[d], 1);
    if (elements > INT32_MAX) return Error::kKernelArguments;
  }
  for (int d = 0; d < named->place_rank; ++d) named->count *= named->places[d];
  return Error::kOk;
}

// Calls visit(offset in the tensor, offset in the part) for every place.
template <class Visit>
Error for_each_place(const Tensor& tensor, const Strides& own, const Named& named,
                     const Strides& part, Visit visit) {
  const int32_t* steps = part.of + named.begin;
  if (named.mask != nullptr) {
    Strides strides;
    for (int d = 0; d < named.mask->rank; ++d) strides.of[d] = own.of[named.mask_at + d];
    int64_t place = 0;
    for_each_offset(
        named.mask->shape(),
        [&](int32_t at, int32_t base) {
          if (named.mask->values<uint8_t>()[at] == 0 || place == named.count) return;
          visit(base, static_cast<int32_t>(place++ * steps[0]));
        },
        strides_of(*named.mask), strides);
    return Error::kOk;
  }
  for (int64_t place = 0; place < named.count; ++place) {
    int32_t index[kMaxRank];
    int64_t rest = place, to = 0, base = 0;
    for (int d = named.place_rank - 1; d >= 0; --d) {
      index[d] = static_cast<int32_t>(rest % named.places[d]);
      rest /= named.places[d];
      to += int64_t{index[d]} * steps[d];
    }
    for (int d = 0; d < tensor.rank; ++d) {
      if (named.indices[d] == nullptr) continue;
      const Tensor& list = *named.indices[d];
      const Strides strides = broadcast_strides(list, named.place_rank);
      int64_t at = 0;
      for (int p = 0; p < named.place_rank; ++p) at += int64_t{index[p]} * strides.of[p];
      const int64_t wanted = index_at(list, static_cast<int32_t>(at), tensor.sizes[d]);
      if (wanted < 0) return Error::kKernelIndex;
      base += wanted * own.of[d];
    }
    visit(static_cast<int32_t>(base), static_cast<int32_t>(to));
  }
  return Error::kOk;
}

// Strides of the part by dimension of the tensor, for those that are not indexed.
Strides rest_strides(const Tensor& tensor, const Named& named, const Strides& part) {
  Strides strides;
  for (int d = 0, at = 0; d < tensor.rank; ++d) {
    if (named.indexed[d]) continue;
    strides.of[d] = part.of[at < named.begin ? at : at + named.place_rank];
    ++at;
  }
  return strides;
}

Error put(const Tensor& out, std::span<Value* const> list, const Tensor& source, bool adds) {
  Named named;
  if (const Error error = find_named(out, list, &named); error != Error::kOk) return error;
  if (source.dtype != out.dtype || (adds && !is_number(out.dtype))) return Error::kKernelDtype;
  if (!broadcasts_to(source, named.part_shape())) return Error::kKernelArguments;
  if (is_empty(source)) return Error::kOk;
  const Strides own = strides_of(out), part = broadcast_strides(source, named.part_rank);
  const Strides rest = rest_strides(out, named, part);
  const size_t element = byte_size(out.dtype);
  return for_each_place(out, own, named, part, [&](int32_t base, int32_t from) {
    if (adds) {
      for_each_offset(
          {named.rest, out.rank},
          [&](int32_t i, int32_t k) { add_element(source, from + i, out, base + k); }, rest, own);
    } else {
      move_elements(source.data + static_cast<size_t>(from) * element, rest,
                    out.data + static_cast<size_t>(base) * element, own, {named.rest, out.rank},
                    element);
    }
  });
}

}  // namespace

Error index_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto list = arguments.tensors(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  Named named;
  if (const Error error = find_named(in, list, &named); error != Error::kOk) return error;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (!std::ranges::equal(out.shape(), named.part_shape())) return Error::kKernelArguments;
  if (is_empty(out)) return Error::kOk;
  const Strides own = strides_of(in), part = strides_of(out);
  const Strides rest = rest_strides(in, named, part);
  const size_t element = byte_size(in.dtype);
  return for_each_place(in, own, named, part, [&](int32_t base, int32_t to) {
    move_elements(in.data + static_cast<size_t>(base) * element, own,
                  out.data + static_cast<size_t>(to) * element, rest, {named.rest, in.rank},
                  element);
  });
}

Error index_put_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto list = arguments.tensors(1);
  const Tensor& source = arguments.tensor(2);
  const bool adds = arguments.flag(3);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (const Error error = copy_elements(in, out); error != Error::kOk) return error;
  return put(out, list, source, adds);
}

Error index_put_in_place(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& out = arguments.output(0);
  const auto list = arguments.tensors(1);
  const Tensor& source = arguments.tensor(2);
  const bool adds = arguments.flag(3);
  return arguments.good() ? put(out, list, source, adds) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
