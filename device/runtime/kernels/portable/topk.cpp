// aten::topk.values(self, k, dim, largest, sorted, values, indices): the k most extreme elements
// along a dimension and their int64 indices, most extreme first whether sorted or not; NaN is the
// greatest. Of equal elements the first index comes first. Float, integers and bools.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// A row of the results as a heap whose root is the element that is to leave it first.
template <class T>
class Heap {
 public:
  Heap(const Tensor& values, int32_t first, int32_t step, const Tensor& indices,
       int32_t first_index, int32_t index_step, bool largest)
      : values_(values),
        indices_(indices),
        first_(first),
        step_(step),
        first_index_(first_index),
        index_step_(index_step),
        largest_(largest) {}

  struct Entry {
    T value;
    int64_t index;
  };
  Entry at(int32_t i) const {
    return {load_number<T>(values_, first_ + i * step_),
            indices_.values<int64_t>()[first_index_ + i * index_step_]};
  }
  void set(int32_t i, const Entry& entry) {
    store_number<T>(values_, first_ + i * step_, entry.value);
    indices_.values<int64_t>()[first_index_ + i * index_step_] = entry.index;
  }
  bool leaves_first(const Entry& a, const Entry& b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return largest_ ? b_nan : a_nan;
    if (a_nan || a.value == b.value) return a.index > b.index;
    return largest_ ? a.value < b.value : a.value > b.value;
  }

  // Puts an entry in the place of the root of a heap of `count` entries.
  void sink(int32_t root, const Entry& entry, int32_t count) {
    for (int32_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
      if (child + 1 < count && leaves_first(at(child + 1), at(child))) ++child;
      if (!leaves_first(at(child), entry)) break;
      set(root, at(child));
      root = child;
    }
    set(root, entry);
  }
  void raise(int32_t leaf, const Entry& entry) {
    while (leaf > 0 && leaves_first(entry, at((leaf - 1) / 2))) {
      set(leaf, at((leaf - 1) / 2));
      leaf = (leaf - 1) / 2;
    }
    set(leaf, entry);
  }

 private:
  const Tensor &values_, &indices_;
  int32_t first_, step_, first_index_, index_step_;
  bool largest_;
};

template <class T>
void select(const Tensor& in, int axis, int32_t k, bool largest, const Tensor& values,
            const Tensor& indices) {
  const Strides from = strides_of(in), to = strides_of(values), to_index = strides_of(indices);
  int32_t outer[kMaxRank];
  for (int d = 0; d < in.rank; ++d) outer[d] = d == axis ? 1 : in.sizes[d];
  const int32_t count = in.rank == 0 ? 1 : in.sizes[axis];
  const int at = in.rank == 0 ? 0 : axis;
  for_each_offset(
      {outer, in.rank},
      [&](int32_t i, int32_t v, int32_t n) {
        Heap<T> heap(values, v, to.of[at], indices, n, to_index.of[at], largest);
        for (int32_t e = 0; e < count; ++e) {
          const typename Heap<T>::Entry entry{load_number<T>(in, i + e * from.of[at]), e};
          if (e < k) {
            heap.raise(e, entry);
          } else if (heap.leaves_first(heap.at(0), entry)) {
            heap.sink(0, entry, k);
          }
        }
        for (int32_t left = k - 1; left > 0; --left) {
          const typename Heap<T>::Entry last = heap.at(left);
          heap.set(left, heap.at(0));
          heap.sink(0, last, left);
        }
      },
      from, to, to_index);
}

}  // namespace

Error topk_values(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t k = arguments.integer(1);
  const int64_t dim = arguments.integer(2);
  const bool largest = arguments.flag(3);
  const Tensor& out = arguments.output(5);
  const Tensor& indices = arguments.output(6);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || (in.rank > 0 ? axis < 0 : dim != 0 && dim != -1) ||
      !same_shape(out, indices) || out.rank != in.rank || k < 0 ||
      k > (in.rank == 0 ? 1 : in.sizes[axis]))
    return Error::kKernelArguments;
  for (int d = 0; d < in.rank; ++d) {
    if (out.sizes[d] != (d == axis ? k : in.sizes[d])) return Error::kKernelArguments;
  }
  if (in.dtype != out.dtype || indices.dtype != ScalarType::kLong) return Error::kKernelDtype;
  if (k == 0 || is_empty(in)) return Error::kOk;
  if (in.dtype == ScalarType::kFloat) {
    select<float>(in, axis, static_cast<int32_t>(k), largest, out, indices);
  } else if (is_integer(in.dtype)) {
    select<int64_t>(in, axis, static_cast<int32_t>(k), largest, out, indices);
  } else {
    return Error::kKernelDtype;
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
