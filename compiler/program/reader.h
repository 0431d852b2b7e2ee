// Opens and checks program files on the host; errors are diagnostics.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"
#include "device/pte/tensor_file.h"
#include "device/pte/verified_file.h"

namespace dtr {

namespace pte {
struct DebugMap;  // device/pte/debug_map.fbs
}

// The key of a method's debug map in the named data; `methods`: that the program has, without
// those that are constants of inputs and outputs.
std::string debug_map_key(std::string_view method, size_t methods);

// Converts an error of the loader or the runtime to a diagnostic; `file` names the program in it.
Diagnostic to_diagnostic(const pte::Status& status, const std::string& file);

// Owns a copy of bytes, aligned to kFileAlignment.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

// A program file (.pte), mapped or copied to memory, and checked.
class PteFile {
 public:
  // Maps and checks a file, its debug map included. Errors: kFileNotFound and the ids that start
  // with "pte-".
  static Result<PteFile> open(const std::string& path, bool check_checksum = true);
  // The same from memory (copied, so that it is aligned); `file` names it in messages.
  static Result<PteFile> parse(std::span<const std::byte> bytes, const std::string& file,
                               bool check_checksum = true);
  // The same without a copy if `bytes` are aligned to pte::kFileAlignment. They must not change as
  // long as this lives.
  static Result<PteFile> borrow(std::span<const std::byte> bytes, const std::string& file,
                                bool check_checksum = true);

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const pte::VerifiedFile& file() const { return file_; }

  // Chooses the method that `plan` and `debug_map` are of. An empty name: `forward`, else the only
  // one, else the only one that computes something (others are constants of ExecuTorch, as
  // `get_max_seq_len`). Error: kPteMissingMethod, with the names of those that there are.
  Result<void> select(std::string_view method);
  uint32_t method_count() const { return static_cast<uint32_t>(debug_maps_.size()); }
  // Whether a method is a constant that tells the quantization of another one's inputs or outputs
  // (device/pte/io_quantization.h).
  bool is_io_constant(uint32_t method) const;
  // The quantization of an input or output of a method, if the program tells it.
  std::optional<Quantization> io_quantization(uint32_t method, bool output, uint32_t index) const;
  uint32_t selected() const { return selected_; }
  // The first method of that name.
  std::optional<uint32_t> find_method(std::string_view name) const;
  // Of the chosen method; until `select`, of the first. There must be one.
  const pte::ExecutionPlan& plan() const { return plan(selected_); }
  std::string_view method() const;
  // Null if the method has none. Its indices (sources, values, calls) have been checked.
  const pte::DebugMap* debug_map() const {
    return debug_maps_.empty() ? nullptr : debug_map(selected_);
  }
  // Of any method, below method_count().
  const pte::ExecutionPlan& plan(uint32_t method) const;
  const pte::DebugMap* debug_map(uint32_t method) const { return debug_maps_[method]; }

 private:
  static Result<PteFile> check(PteFile pte_file, std::span<const std::byte> bytes,
                               bool check_checksum);
  Result<void> read_debug_maps();

  std::string path_;
  std::optional<FileContents> contents_;
  AlignedBytes copied_;
  pte::VerifiedFile file_;
  std::vector<const pte::DebugMap*> debug_maps_;  // of each method, null: it has none
  std::vector<std::pair<std::string_view, uint32_t>> methods_by_name_;  // sorted
  uint32_t selected_ = 0;
};

// A tensor file (.ptd), read and checked.
class PtdFile {
 public:
  // Errors: kFileNotFound, kPtdInvalid.
  static Result<PtdFile> open(const std::string& path);
  // The same from memory (copied, so that it is aligned); `file` names it in messages.
  static Result<PtdFile> parse(std::span<const std::byte> bytes, const std::string& file);
  const pte::TensorFile& file() const { return file_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  static Result<PtdFile> check(PtdFile ptd_file, std::span<const std::byte> bytes);

  std::string path_;
  std::optional<FileContents> contents_;
  AlignedBytes copied_;
  std::span<const std::byte> bytes_;
  std::vector<uint32_t> order_;  // of entries by name, if the file has another order
  pte::TensorFile file_;
};

// Opens every file. Errors: those of PtdFile::open.
Result<std::vector<PtdFile>> open_tensor_files(std::span<const std::string> paths);

// The states of a plan, which it keeps between runs: values that an in-place operator writes, in
// their order.
std::vector<uint32_t> state_values(const pte::ExecutionPlan& plan);

// Names of the inputs of a plan in the model, in order; an empty name where the file has none.
// `outputs`: of the outputs.
std::vector<std::string> io_names(const pte::ExecutionPlan& plan, bool outputs = false);

}  // namespace dtr
