// Reads TensorFlow Lite models (.tflite), float or quantized to int8.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/dimensions.h"
#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"

namespace dtr::tflite {

// How int8 operators of a file compute.
enum class Arithmetic : uint8_t {
  kTflite,  // as LiteRT's reference kernels
  // As PyTorch between dequantize and quantize: every result is rounded once, a sum adds signed
  // codes. So does Neutron IR, which ExecuTorch's NXP backend hands to its converter.
  kPytorch,
};

// A part of the operators of a file: tensors that it reads and others make become inputs.
struct OperatorSubset {
  std::vector<size_t> operators;         // by index, ascending
  std::vector<int32_t> inputs, outputs;  // tensors, in the order of the module's
};

struct ReadOptions {
  Arithmetic arithmetic = Arithmetic::kTflite;
  const OperatorSubset* subset = nullptr;  // null: the whole file
  const DimensionSizes* sizes = nullptr;   // of open extents; null: those of the file
};

// An imported model, and the value of each tensor. Tensors of rank 4 are NHWC in the file; their
// logical shape in the module is NCHW (weights: OIHW), and inputs and outputs of rank 4 have layout
// channels_last. Other tensors keep their order of dimensions.
struct Import {
  Module module;
  // by tensor index of the first subgraph; invalid for tensors without a value
  std::vector<ValueId> values;
};

// Reads a model. Values have the names of tensors, and each operator of the file is a source
// operator. Errors: file-not-found and ids tflite-*, each with the tensor or operator at fault.
Result<Module> read_tflite(const std::string& path);
// The same for a file in memory, which the module owns; `path` names it in messages. Errors: ids
// tflite-*.
Result<Module> read_tflite(FileContents file, const std::string& path,
                           const DimensionSizes& sizes = {});
// read_tflite with the map from tensors to values. Errors: as read_tflite.
Result<Import> import_tflite(const std::string& path);

// The same from memory; constants are copied, so `bytes` need not outlive the module. `file` names
// it in messages. Errors: ids tflite-*.
Result<Import> parse_tflite(std::span<const std::byte> bytes, const std::string& file,
                            const ReadOptions& options = {});

// The operators of the format, whether they are read, and what the others need that is not here
// (empty: nobody wrote a row).
struct BuiltinSupport {
  std::string_view name;
  bool read;
  std::string_view needs;
};
std::vector<BuiltinSupport> builtin_operators();

// Describes the file as text: metadata, signatures, inputs, outputs, operators with types and
// quantization; also for models with unsupported operators. Errors: file-not-found, tflite-invalid.
Result<std::string> describe_tflite(const std::string& path);
// The same for 16-byte aligned bytes; `path` names them in messages. Error: tflite-invalid.
Result<std::string> describe_tflite(std::span<const std::byte> bytes, const std::string& path);

}  // namespace dtr::tflite
