// Reads and writes NumPy files: .npy (one array) and .npz (a zip of them), as np.save, np.savez and
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
  Tensor tensor;     // contiguous in logical order, also if the file is in Fortran order
};

// The arrays in file order. Float16 becomes float32. Errors: kFileNotFound, kNpyInvalid (not an
// array, sizes that do not match), kNpyUnsupported (big-endian, complex, object, … elements), and
// those of ZipArchive.
Result<std::vector<NamedTensor>> read_npz(const std::string& path);
// One array, named after the file's stem. Errors: kFileNotFound, kNpyInvalid, kNpyUnsupported.
Result<NamedTensor> read_npy(const std::string& path);
// An array of a file, or the error of reading it.
struct ReadArray {
  std::string name;
  Result<Tensor> tensor;
};
// All arrays of an .npz or .npy, each with its own error (kNpyUnsupported for strings, for one), so
// that one bad array does not prevent reading the others. Errors of the list: kFileNotFound and
// those of ZipArchive.
Result<std::vector<ReadArray>> read_each_array(const std::string& path);
// Selects the arrays of an .npz to read. Others are listed by name, without elements.
using WantedArrays = std::function<bool(std::string_view name)>;
// Reads an .npz or .npy, which the first bytes of the file tell apart. Without `wanted`: all
// arrays. Errors: those of read_npz and read_npy.
Result<std::vector<NamedTensor>> read_tensors(const std::string& path,
                                              const WantedArrays& wanted = {});
// The same from memory; `file` names it in messages. Errors: those of read_npz.
Result<std::vector<NamedTensor>> parse_npz(std::span<const std::byte> bytes,
                                           const std::string& file, ZipLimits limits = {},
                                           const WantedArrays& wanted = {});
// Complex numbers are two real ones in a last dimension, float16 is float32. Errors: kNpyInvalid,
// kNpyUnsupported.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, const Place& place);

// Write a file atomically. Error: kFileNotWritable.
Result<void> write_npz(const std::string& path, std::span<const NamedTensor> tensors,
                       bool compress = false);
Result<void> write_npy(const std::string& path, const TensorView& tensor);
// A .npy file in memory.
std::vector<std::byte> format_npy(const TensorView& tensor);

// Index of the first element that is NaN or infinite; −1 if there is none or the dtype is not a
// float.
int64_t find_non_finite(const TensorView& tensor);

}  // namespace dtr
