// Tensors in files: NumPy's .npy (one array) and .npz (a zip of them), as np.save, np.savez and
// np.savez_compressed write them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"
#include "compiler/support/zip_archive.h"

namespace dtr {

struct NamedTensor {
  std::string name;  // of the array, without ".npy"
  Tensor tensor;     // contiguous in logical order, whatever the file's order
};

// The arrays in file order. Float16 becomes float32. Errors: kFileNotFound, kNpyInvalid (not an
// array, sizes that do not match), kNpyUnsupported (big-endian, complex, object, … elements), and
// those of ZipArchive.
Result<std::vector<NamedTensor>> read_npz(const std::string& path);
// One array, named after the file's stem.
Result<NamedTensor> read_npy(const std::string& path);
// An array as it was read, or why it was not.
struct ReadArray {
  std::string name;
  Result<Tensor> tensor;
};
// All arrays of an .npz or .npy, each with an error of its own (kNpyUnsupported for strings, for
// one): whoever needs some of the arrays, or shows them, is not stopped by the others. Errors of
// the list: kFileNotFound and those of ZipArchive.
Result<std::vector<ReadArray>> read_each_array(const std::string& path);
// Whether an array of an .npz is read. One that is not is in the list by its name, without
// elements.
using WantedArrays = std::function<bool(std::string_view name)>;
// By the first bytes of the file: .npz or .npy. Without `wanted`: all arrays.
Result<std::vector<NamedTensor>> read_tensors(const std::string& path,
                                              const WantedArrays& wanted = {});
// The same from memory; `file` names it in messages.
Result<std::vector<NamedTensor>> parse_npz(std::span<const std::byte> bytes,
                                           const std::string& file, ZipLimits limits = {},
                                           const WantedArrays& wanted = {});
Result<Tensor> parse_npy(std::span<const std::byte> bytes, const Place& place);

// Written whole or not at all. Errors: kFileNotWritable.
Result<void> write_npz(const std::string& path, std::span<const NamedTensor> tensors,
                       bool compress = false);
Result<void> write_npy(const std::string& path, const TensorView& tensor);
// A .npy file in memory.
std::vector<std::byte> format_npy(const TensorView& tensor);

// Index of the first element that is NaN or infinite; -1 if there is none or the dtype is no float.
int64_t find_non_finite(const TensorView& tensor);

}  // namespace dtr
