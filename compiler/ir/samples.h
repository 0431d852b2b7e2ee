// Binds arrays of a file to the inputs of a graph, sample by sample, for calibration, run, eval and
// verify.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/dimensions.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/npz.h"

namespace dtr {

class Samples {
 public:
  // Binds arrays to the user's inputs; states take none. Input k takes the array of its own name,
  // else `input_k`, else (k = 0) `input`, else the only array of a .npy file. An array with one
  // axis more than the input is a set of samples; so is [n, …] for an input [1, …], for which an
  // array […] is one sample. All inputs must have the same number of samples. Other arrays are
  // ignored. float32 values for an input that has_real_values are quantized. `file` names the data
  // in messages.
  // Errors: kDataMissingArray, kDataShape, kDataDtype, kDataCount, kDataEmpty.
  static Result<Samples> bind(const Graph& graph, std::span<const NamedTensor> arrays,
                              const std::string& file);
  // True if an input of the graph could be bound to an array of this name in an .npz, so that
  // `read_tensors` must read it.
  static bool is_input_array(const Graph& graph, std::string_view array);
  // Reads the input arrays of a .npz or .npy and binds them. Arrays that no input takes are not
  // read. Errors: those of `read_tensors` and `bind`.
  static Result<Samples> read(const Graph& graph, const std::string& file);
  // Owns `count` samples: array k has the elements of input k, and its first axis counts samples,
  // of which there may be more than `count`.
  static Samples own(const Graph& graph, std::vector<NamedTensor> arrays, size_t count,
                     std::string file);
  // `count` samples of standard normally distributed floats (other dtypes: zeros), the same on
  // every machine for a seed.
  static Samples random(const Graph& graph, size_t count, uint64_t seed = 42);

  // The shapes of the arrays of a .npz or .npy, for models with open dimensions
  // (DimensionSizes::sampled); each call reads an array.
  static decltype(DimensionSizes::sampled) shapes_of(std::string file);
  // The same for arrays in memory, which outlive the function.
  static decltype(DimensionSizes::sampled) shapes_of(std::span<const NamedTensor> arrays,
                                                     std::string file);

  size_t size() const { return count_; }
  // The inputs of sample `index` in the graph's order. They refer to the arrays given to bind
  // (after random and read, and those that were quantized: to this object).
  std::vector<TensorView> inputs(size_t index) const;
  // The samples of these indices, in this order. They refer to the arrays that this object refers
  // to or owns: it must outlive them.
  Samples choose(std::vector<size_t> indices) const;
  // Error: kDataNotFinite at the first NaN or infinite element.
  Result<void> check_finite() const;

 private:
  struct Input {
    std::string name;  // of the array
    TensorView first;  // type of one sample; data of sample 0
  };
  std::string file_;
  size_t count_ = 0;
  std::vector<Input> inputs_;
  std::vector<size_t> chosen_;  // index in the arrays of each sample; empty: all, in order
  std::vector<Tensor> owned_;   // of random and read, and what was quantized
};

}  // namespace dtr
