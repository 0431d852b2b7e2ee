#include "compiler/program/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <set>

#include "compiler/support/encode.h"
#include "device/npu/driver.h"
#include "device/numerics/crc32.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/io_quantization.h"
#include "device/pte/plan_access.h"
#include "device/pte/program_generated.h"
#include "device/pte/scalar_type.h"

namespace dtr {
namespace {

struct Row {
  pte::Error error;
  DiagnosticId id;
  std::string_view fix;
};

constexpr std::string_view kDefaultMethod = "forward";
constexpr std::string_view kCompileAgain = "compile the model again";
constexpr std::string_view kMatchInput =
    "give the tensor that `deuteron inspect` shows for this input";

constexpr std::array kRows{
    Row{pte::Error::kTruncated, DiagnosticId::kPteTruncated, "copy the file again"},
    Row{pte::Error::kNotAProgram, DiagnosticId::kPteNotAProgram, "give a .pte file"},
    Row{pte::Error::kNewerVersion, DiagnosticId::kPteNewerVersion,
        "use the tool that compiled it, or a newer one"},
    Row{pte::Error::kMalformed, DiagnosticId::kPteMalformed, kCompileAgain},
    Row{pte::Error::kBadChecksum, DiagnosticId::kPteChecksum, "copy the file again"},
    Row{pte::Error::kMisaligned, DiagnosticId::kRunMemory,
        "place the program on a 16-byte boundary"},
    Row{pte::Error::kUnsupported, DiagnosticId::kPteUnsupported,
        "export without dynamic shapes and control flow"},
    Row{pte::Error::kWrongTarget, DiagnosticId::kPteWrongTarget,
        "compile the model for this target"},
    Row{pte::Error::kMissingMethod, DiagnosticId::kPteMissingMethod,
        "name a method that `deuteron inspect` lists"},
    Row{pte::Error::kMissingKernel, DiagnosticId::kPteMissingKernel,
        "add the kernel to the table that the program is loaded with"},
    Row{pte::Error::kMissingDelegate, DiagnosticId::kPteMissingDelegate,
        "load the program where this delegate is"},
    Row{pte::Error::kMissingData, DiagnosticId::kConstantsMissing,
        "give the tensor file (.ptd) that was written with the program: --tensors FILE.ptd"},
    Row{pte::Error::kNotATensorFile, DiagnosticId::kPtdInvalid, "give a .ptd file"},
    Row{pte::Error::kArenaTooSmall, DiagnosticId::kRunMemory,
        "give as much memory as the program needs"},
    Row{pte::Error::kArenaMisaligned, DiagnosticId::kRunMemory,
        "place the memory on a 16-byte boundary"},
    Row{pte::Error::kNoSuchTensor, DiagnosticId::kRunInput, kMatchInput},
    Row{pte::Error::kInputDtype, DiagnosticId::kRunInput, kMatchInput},
    Row{pte::Error::kInputShape, DiagnosticId::kRunInput, kMatchInput},
    Row{pte::Error::kInputDimOrder, DiagnosticId::kRunInput, kMatchInput},
    Row{pte::Error::kInputSize, DiagnosticId::kRunInput, kMatchInput},
    Row{pte::Error::kInputNotSet, DiagnosticId::kRunInput, "set every input before each run"},
    Row{pte::Error::kOutputNotSet, DiagnosticId::kRunMemory, "give the output memory"},
    Row{pte::Error::kKernelArguments, DiagnosticId::kRunFailed, kCompileAgain},
    Row{pte::Error::kKernelDtype, DiagnosticId::kRunFailed, kCompileAgain},
    Row{pte::Error::kKernelFailed, DiagnosticId::kPluginKernelFailed,
        "look the code up in the kernel's source: it is the kernel's own"},
    Row{pte::Error::kDelegateRefused, DiagnosticId::kRunFailed, kCompileAgain},
    Row{pte::Error::kDelegateFailed, DiagnosticId::kRunFailed, kCompileAgain},
    Row{pte::Error::kStopped, DiagnosticId::kRunFailed, "let the observer go on"},
    Row{pte::Error::kNotPrepared, DiagnosticId::kRunFailed, "load and prepare the program first"},
    Row{pte::Error::kNull, DiagnosticId::kRunMemory, "give memory"},
    Row{pte::Error::kKernelIndex, DiagnosticId::kRunFailed,
        "give the input indices below the size of the dimension, or bound them in the model: "
        "index.clamp(0, size - 1)"},
};

// Details that follow the sentence of the error: a name, a number, or the delegate's message.
std::string details(const pte::Status& status) {
  switch (status.error) {
    case pte::Error::kMalformed:
    case pte::Error::kUnsupported:
      return fmt::format(" (entry {} of plan {})", status.index, status.detail);
    case pte::Error::kWrongTarget:
      return fmt::format(": `{}`, hash {:08x}", status.name, status.detail);
    case pte::Error::kMissingKernel:
    case pte::Error::kMissingDelegate:
    case pte::Error::kMissingData:
      return fmt::format(": `{}`", status.name);
    case pte::Error::kArenaTooSmall:
      return fmt::format(": {} bytes", status.detail);
    case pte::Error::kNoSuchTensor:
    case pte::Error::kInputDtype:
    case pte::Error::kInputShape:
    case pte::Error::kInputDimOrder:
    case pte::Error::kInputSize:
    case pte::Error::kInputNotSet:
    case pte::Error::kOutputNotSet:
      return fmt::format(": number {}", status.index);
    case pte::Error::kKernelArguments:
    case pte::Error::kKernelDtype:
    case pte::Error::kKernelIndex:
      return fmt::format(": `{}`, instruction {}", status.name, status.index);
    case pte::Error::kKernelFailed:
      return fmt::format(": `{}`, instruction {}, code {}", status.name, status.index,
                         static_cast<int32_t>(status.detail));
    case pte::Error::kDelegateRefused:
    case pte::Error::kDelegateFailed:
      return fmt::format(": {}", npu::text(static_cast<npu::Status>(status.detail)));
    default:
      return {};
  }
}

// What an error of a program's file means of a tensor file.
std::string tensor_file_text(pte::Error error) {
  constexpr std::string_view kProgram = "the program ";
  const std::string_view text = pte::text(error);
  return text.starts_with(kProgram)
             ? fmt::format("the tensor file {}", text.substr(kProgram.size()))
             : std::string(text);
}

template <class Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Whether every index of a structurally sound debug map fits its program.
class DebugMapVerifier {
 public:
  // `bytes`: of the map.
  DebugMapVerifier(const pte::DebugMap& map, size_t bytes, const pte::ExecutionPlan& plan)
      : map_(map), plan_(plan), left_(bytes) {}

  bool run() {
    if (map_.version() != 1) return false;
    const pte::ExecutionPlan& plan = plan_;
    if (count(map_.calls()) != count(plan.chains()->Get(0)->instructions())) return false;
    for (uint32_t i = 0; i < count(map_.sources()); ++i) {
      const pte::SourceOperator& source = *map_.sources()->Get(i);
      if (source.name() == nullptr || source.target() == nullptr ||
          source.module_path() == nullptr || source.source_line() == nullptr) {
        return false;
      }
    }
    for (uint32_t i = 0; i < count(map_.calls()); ++i) {
      const pte::DebugCall& call = *map_.calls()->Get(i);
      if (call.name() == nullptr || !origin_fits(call.origin())) return false;
      for (uint32_t s = 0; s < count(call.steps()); ++s) {
        const pte::DebugStep& step = *call.steps()->Get(s);
        if (step.kernel() == nullptr || step.limit() == nullptr || !origin_fits(step.origin()))
          return false;
      }
    }
    for (uint32_t i = 0; i < count(map_.buffers()); ++i) {
      const pte::DebugBuffer& buffer = *map_.buffers()->Get(i);
      if (buffer.name() == nullptr || buffer.last_step() < buffer.first_step() ||
          !in_arena(plan, buffer.offset(), buffer.bytes()))
        return false;
    }
    for (uint32_t i = 0; i < count(map_.tensors()); ++i) {
      if (!tensor_fits(*map_.tensors()->Get(i), plan)) return false;
    }
    return true;
  }

 private:
  // A source takes 4 bytes in a map that shares nothing: lists that are shared count each time, so
  // that a small map does not take long.
  bool origin_fits(const pte::DebugOrigin* origin) {
    if (origin == nullptr || count(origin->sources()) > left_) return false;
    left_ -= count(origin->sources());
    for (uint32_t i = 0; i < count(origin->sources()); ++i) {
      if (origin->sources()->Get(i) >= count(map_.sources())) return false;
    }
    return true;
  }

  bool tensor_fits(const pte::DebugTensor& tensor, const pte::ExecutionPlan& plan) {
    const uint32_t rank = count(tensor.sizes());
    if (tensor.name() == nullptr || !origin_fits(tensor.origin()) || rank > kMaxRank ||
        count(tensor.dim_order()) != rank)
      return false;
    uint64_t bytes = byte_size(static_cast<ScalarType>(tensor.scalar_type()));
    if (bytes == 0) return false;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint32_t dim = tensor.dim_order()->Get(i);
      if (tensor.sizes()->Get(i) < 0 || dim >= rank || (seen >> dim & 1u) != 0) return false;
      seen |= 1u << dim;
      bytes *= static_cast<uint32_t>(tensor.sizes()->Get(i));
      if (bytes > INT32_MAX) return false;
    }
    if (count(tensor.scales()) != count(tensor.zero_points()) ||
        tensor.axis() >= static_cast<int64_t>(rank))
      return false;
    if (tensor.axis() >= 0 &&
        count(tensor.scales()) !=
            static_cast<uint32_t>(tensor.sizes()->Get(static_cast<uint32_t>(tensor.axis())))) {
      return false;
    }
    for (uint32_t i = 0; i < count(tensor.readers()); ++i)
      if (!origin_fits(tensor.readers()->Get(i))) return false;
    if (tensor.call() < -1 || tensor.call() >= static_cast<int64_t>(count(map_.calls())))
      return false;
    if (tensor.value() >= 0) {
      if (tensor.value() >= static_cast<int64_t>(count(plan.values()))) return false;
      const pte::Tensor* value =
          plan.values()->Get(static_cast<uint32_t>(tensor.value()))->val_as_Tensor();
      return value != nullptr && pte::tensor_bytes(*value) == bytes;
    }
    if (!tensor.in_delegate()) return true;
    return tensor.call() >= 0 && in_arena(plan, tensor.offset(), bytes);
  }

  static bool in_arena(const pte::ExecutionPlan& plan, uint64_t offset, uint64_t bytes) {
    const uint64_t arena = count(plan.non_const_buffer_sizes()) > 1
                               ? static_cast<uint64_t>(plan.non_const_buffer_sizes()->Get(1))
                               : 0;
    return offset <= arena && bytes <= arena - offset;
  }

  const pte::DebugMap& map_;
  const pte::ExecutionPlan& plan_;
  size_t left_;
};

}  // namespace

std::string debug_map_key(std::string_view method, size_t methods) {
  std::string key(pte::kDebugMapKey);
  if (methods > 1) key.append(".").append(method);
  return key;
}

Diagnostic to_diagnostic(const pte::Status& status, const std::string& file) {
  const auto* row = std::ranges::find(kRows, status.error, &Row::error);
  DTR_CHECK(row != kRows.end());
  const bool too_long = status.error == pte::Error::kDelegateRefused &&
                        status.detail == static_cast<uint32_t>(npu::Status::kTooMuchWork);
  const std::string_view fix =
      too_long ? "make the model smaller, or keep a part of it off the NPU" : row->fix;
  return {row->id,
          as_terminal(pte::text(status.error) + details(status)),
          std::string(fix),
          {.file = file}};
}

constexpr std::align_val_t kAlignment{pte::kFileAlignment};

void AlignedBytes::Free::operator()(std::byte* data) const { operator delete(data, kAlignment); }

AlignedBytes::AlignedBytes(std::span<const std::byte> bytes) : size_(bytes.size()) {
  data_.reset(static_cast<std::byte*>(operator new(size_, kAlignment)));
  std::ranges::copy(bytes, data_.get());
}

Result<PteFile> PteFile::open(const std::string& path, bool check_checksum) {
  DTR_ASSIGN(FileContents contents, FileContents::read(path));
  PteFile pte_file;
  pte_file.path_ = path;
  const std::span<const std::byte> bytes = contents.bytes();
  pte_file.contents_ = std::move(contents);
  return check(std::move(pte_file), bytes, check_checksum);
}

Result<PteFile> PteFile::parse(std::span<const std::byte> bytes, const std::string& file,
                               bool check_checksum) {
  PteFile pte_file;
  pte_file.path_ = file;
  pte_file.copied_ = AlignedBytes(bytes);
  const std::span<const std::byte> copy = pte_file.copied_.bytes();
  return check(std::move(pte_file), copy, check_checksum);
}

Result<PteFile> PteFile::borrow(std::span<const std::byte> bytes, const std::string& file,
                                bool check_checksum) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % pte::kFileAlignment != 0)
    return parse(bytes, file, check_checksum);
  PteFile pte_file;
  pte_file.path_ = file;
  return check(std::move(pte_file), bytes, check_checksum);
}

Result<PteFile> PteFile::check(PteFile pte_file, std::span<const std::byte> bytes,
                               bool check_checksum) {
  if (const pte::Status status = pte::VerifiedFile::open(
          bytes, check_checksum ? crc32_with_hole : nullptr, &pte_file.file_);
      !status.ok()) {
    return tl::unexpected(to_diagnostic(status, pte_file.path_));
  }
  DTR_TRY(pte_file.read_debug_maps());
  return pte_file;
}

Result<void> PteFile::read_debug_maps() {
  debug_maps_.assign(count(file_.program().execution_plan()), nullptr);
  for (uint32_t i = 0; i < method_count(); ++i)
    methods_by_name_.emplace_back(GetStringView(plan(i).name()), i);
  std::ranges::sort(methods_by_name_);
  size_t methods = 0;
  for (uint32_t i = 0; i < method_count(); ++i) methods += is_io_constant(i) ? 0 : 1;
  for (uint32_t i = 0; i < method_count(); ++i) {
    if (is_io_constant(i)) continue;
    const auto stored = file_.named_data(debug_map_key(GetStringView(plan(i).name()), methods));
    if (stored.empty()) continue;
    const auto* data = reinterpret_cast<const uint8_t*>(stored.data());
    flatbuffers::Verifier verifier(data, stored.size());
    if (!pte::VerifyDebugMapBuffer(verifier) ||
        !DebugMapVerifier(*pte::GetDebugMap(data), stored.size(), plan(i)).run()) {
      return fail(DiagnosticId::kPteDebugMap, "the debug map does not fit its program",
                  std::string(kCompileAgain), {.file = path_});
    }
    debug_maps_[i] = pte::GetDebugMap(data);
  }
  return {};
}

std::optional<uint32_t> PteFile::find_method(std::string_view name) const {
  const auto found = std::ranges::lower_bound(methods_by_name_, std::pair(name, uint32_t{0}));
  if (found == methods_by_name_.end() || found->first != name) return std::nullopt;
  return found->second;
}

bool PteFile::is_io_constant(uint32_t method) const {
  if (count(plan(method).chains()->Get(0)->instructions()) > 0) return false;
  const std::string_view of = pte::io_method_of(GetStringView(plan(method).name()));
  return !of.empty() && find_method(of);
}

std::optional<Quantization> PteFile::io_quantization(uint32_t method, bool output,
                                                     uint32_t index) const {
  const std::string_view of = GetStringView(plan(method).name());
  pte::IoMethods methods;
  for (const std::string_view key :
       {pte::kIoScale, pte::kIoZeroPoint, pte::kIoMinimum, pte::kIoMaximum}) {
    const std::string name = fmt::format("{}{}_{}", output ? "output" : "input", index, key);
    std::optional<uint32_t> found = find_method(fmt::format("{}_{}", of, name));
    if (!found && of == kDefaultMethod) found = find_method(name);
    if (found) *methods.of(key) = &plan(*found);
  }
  pte::IoQuantization read;
  if (!pte::io_quantization(methods, &read)) return std::nullopt;
  return Quantization::per_tensor(static_cast<float>(read.scale), read.zero_point, read.minimum,
                                  read.maximum);
}

const pte::ExecutionPlan& PteFile::plan(uint32_t method) const {
  DTR_CHECK(method < method_count());
  return *file_.program().execution_plan()->Get(method);
}

std::string_view PteFile::method() const { return GetStringView(plan().name()); }

Result<void> PteFile::select(std::string_view method) {
  constexpr uint32_t kMostListed = 20;
  if (method_count() == 0)
    return fail(DiagnosticId::kPteMissingMethod, "the program has no method", {}, {.file = path_});
  std::vector<uint32_t> computing;
  std::string names;
  uint32_t methods = 0;
  for (uint32_t i = 0; i < method_count(); ++i) {
    const std::string_view name = GetStringView(plan(i).name());
    if (name == (method.empty() ? kDefaultMethod : method)) {
      selected_ = i;
      return {};
    }
    if (count(plan(i).chains()->Get(0)->instructions()) > 0) computing.push_back(i);
    if (is_io_constant(i)) continue;
    if (++methods <= kMostListed) names += (methods == 1 ? "" : ", ") + as_terminal(name);
  }
  if (methods > kMostListed) names += fmt::format(", … ({} in all)", methods);
  if (method.empty() && method_count() == 1) computing.assign(1, 0);
  if (method.empty() && computing.size() == 1) {
    selected_ = computing.front();
    return {};
  }
  const std::string fix = "give one of them with --method: " + names;
  if (!method.empty())
    return fail(DiagnosticId::kPteMissingMethod,
                fmt::format("the program has no method `{}`", as_terminal(method)), fix,
                {.file = path_});
  return fail(
      DiagnosticId::kPteMissingMethod,
      fmt::format("the program has {} methods and none is called {}", methods, kDefaultMethod), fix,
      {.file = path_});
}

Result<PtdFile> PtdFile::open(const std::string& path) {
  PtdFile ptd_file;
  ptd_file.path_ = path;
  DTR_ASSIGN(ptd_file.contents_, FileContents::read(path));
  const std::span<const std::byte> bytes = ptd_file.contents_->bytes();
  return check(std::move(ptd_file), bytes);
}

Result<PtdFile> PtdFile::parse(std::span<const std::byte> bytes, const std::string& file) {
  PtdFile ptd_file;
  ptd_file.path_ = file;
  ptd_file.copied_ = AlignedBytes(bytes);
  const std::span<const std::byte> copy = ptd_file.copied_.bytes();
  return check(std::move(ptd_file), copy);
}

Result<PtdFile> PtdFile::check(PtdFile ptd_file, std::span<const std::byte> bytes) {
  if (const pte::Status status = pte::TensorFile::open(bytes, true, &ptd_file.file_);
      !status.ok()) {
    const Diagnostic of_program = to_diagnostic(status, ptd_file.path_);
    return fail(DiagnosticId::kPtdInvalid, tensor_file_text(status.error), of_program.fix,
                of_program.place);
  }
  ptd_file.bytes_ = bytes;
  if (!ptd_file.file_.names_ascend()) {
    ptd_file.order_.resize(ptd_file.file_.count());
    std::iota(ptd_file.order_.begin(), ptd_file.order_.end(), 0U);
    std::ranges::stable_sort(ptd_file.order_, {},
                             [&](uint32_t index) { return ptd_file.file_.name(index); });
    ptd_file.file_.set_order(ptd_file.order_);
  }
  return ptd_file;
}

Result<std::vector<PtdFile>> open_tensor_files(std::span<const std::string> paths) {
  std::vector<PtdFile> files;
  for (const std::string& path : paths) {
    DTR_ASSIGN(PtdFile file, PtdFile::open(path));
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<uint32_t> state_values(const pte::ExecutionPlan& plan) {
  std::set<uint32_t> states;
  const auto* instructions = plan.chains()->Get(0)->instructions();
  for (uint32_t i = 0; i < count(instructions); ++i) {
    const pte::Instruction& instruction = *instructions->Get(i);
    if (!pte::is_in_place(plan, instruction)) continue;
    const auto written = static_cast<uint32_t>(pte::arguments(instruction).Get(0));
    const pte::Tensor* tensor = plan.values()->Get(written)->val_as_Tensor();
    if (tensor != nullptr && tensor->allocation_info() != nullptr) states.insert(written);
  }
  return {states.begin(), states.end()};
}

std::vector<std::string> io_names(const pte::ExecutionPlan& plan, bool outputs) {
  std::vector<std::string> names;
  const auto* indices = outputs ? plan.outputs() : plan.inputs();
  for (uint32_t i = 0; i < count(indices); ++i) {
    const pte::Tensor* tensor =
        plan.values()->Get(static_cast<uint32_t>(indices->Get(i)))->val_as_Tensor();
    const pte::ExtraTensorInfo* extra = tensor == nullptr ? nullptr : tensor->extra_tensor_info();
    names.push_back(extra == nullptr || extra->fully_qualified_name() == nullptr
                        ? ""
                        : extra->fully_qualified_name()->str());
  }
  return names;
}

}  // namespace dtr
