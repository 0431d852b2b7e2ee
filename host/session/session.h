// Runs a program on the host, with the device's runtime and kernels and a simulated NPU. Inputs and
// outputs are tensors in logical order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/program/reader.h"
#include "device/npu/driver.h"
#include "device/npu/profile.h"
#include "device/runtime/method.h"
#include "host/simulator/kernel_set.h"

namespace dtr {

// The cost of runs on the simulated machine, and on this one.
struct RunStats {
  uint64_t runs = 0;
  uint64_t total_cycles = 0, busy_cycles = 0, host_cycles = 0, stall_cycles = 0;  // of the last run
  uint32_t npu_calls = 0;                                                         // of the last run
  uint64_t copied_bytes = 0;  // flash → SRAM, of the last run
  uint64_t sram_touched_bytes =
      0;  // highest byte of the planned memory that any instruction touched
  std::vector<double> milliseconds;  // wall time of each run
  // of each step of the last run, if a core (QEMU) executed them
  std::vector<uint64_t> instructions;
};

// A recorded run. The buffer has room for as many events as it has entries.
struct Recording {
  std::vector<npu::ProfileRecord> buffer;
  size_t used = 0;
  uint64_t lost = 0;                      // events for which there was no room
  npu::ProfileHeader header;              // of the records
  std::vector<npu::ProfileRecord> start;  // of loading and preparing the program

  std::span<const npu::ProfileRecord> records() const { return std::span(buffer).first(used); }
};

// Callbacks of a run. `arena` is the first planned memory, which contains the delegates' scratch.
struct RunHooks {
  std::function<void(uint32_t instruction, const npu::Event& event,
                     std::span<const std::byte> arena)>
      after_event = {};
  std::function<void(uint32_t instruction, const runtime::Method& method)> after_instruction = {};
  Recording* recording = nullptr;  // of this run
};

// Loads a program, whose checksum was verified when it was read, with all kernels. The tables must
// outlive the program. Errors: ids pte-*; the reason names every missing kernel, delegate and
// tensor.
Result<void> load_program(const PteFile& pte_file, runtime::DelegateTable delegates,
                          std::span<const pte::TensorFile> tensor_files, runtime::Program* program);

class Session {
 public:
  // Opens a program. `tensor_files`: constants outside of it (.ptd). Errors: kFileNotFound, ids
  // pte-* (naming every missing kernel and delegate), run-*; those of target_of;
  // kRunMemory, if the program plans more memory than its target has (2^31 − 1 bytes for an unknown
  // target), or than this machine can allocate.
  // `method`: PteFile::select.
  static Result<std::unique_ptr<Session>> open(const std::string& path,
                                               const std::vector<std::string>& tensor_files = {},
                                               std::string_view method = {});
  // The same from memory (copied); `file` names the program in messages. Simulates the NPU with
  // `kernel_set`. `tensor_file`: bytes of a .ptd; may be empty. Errors: as open.
  static Result<std::unique_ptr<Session>> load(
      std::span<const std::byte> bytes, const std::string& file,
      const simulator::KernelSet& kernel_set = simulator::best_kernel_set(),
      std::span<const std::byte> tensor_file = {}, std::string_view method = {});
  // The same without a copy of the program (PteFile::borrow), which must not change as long as the
  // session lives.
  static Result<std::unique_ptr<Session>> borrow(
      std::span<const std::byte> bytes, const std::string& file,
      const simulator::KernelSet& kernel_set = simulator::best_kernel_set(),
      std::span<const std::byte> tensor_file = {});
  virtual ~Session() = default;

  // Opens another session on the same program, with states and memory of its own, to run beside
  // this one. It refers to this session's file, so that this session must outlive it. Its memory is
  // what the program plans and the prepared delegates take. Errors: as open.
  virtual Result<std::unique_ptr<Session>> open_another() const = 0;
  // A graph without ops that has the program's inputs: names, dtypes, shapes, layouts, and the
  // quantization where the program tells it.
  virtual const Graph& signature() const = 0;
  // The type of an output, with the layout that it has in the program's memory, and its
  // quantization if the program tells it.
  virtual Type output_type(size_t index) const = 0;
  virtual const PteFile& pte_file() const = 0;
  virtual std::span<const PtdFile> tensor_files() const = 0;
  // Runs the program once. `inputs` match the signature's inputs, contiguous in logical order; one
  // that has real values (has_real_values) takes them as float32 too. Adds to `stats`. Not
  // thread-safe: use one session per thread. Errors: ids run-* and pte-*.
  virtual Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                          RunStats* stats = nullptr,
                                          const RunHooks& hooks = {}) = 0;
  // Shares large calls of the NPU's simulation among so many threads; results do not depend on it.
  virtual void use_threads(unsigned threads) { (void)threads; }
  // Whether the program keeps states between runs: then runs are a stream, in which each depends on
  // those before it.
  virtual bool has_states() const = 0;
  // Sets the states to their initial values, as they are before the first run: a new stream begins.
  virtual void reset() = 0;
};

// The sessions of workers that run beside each other: the first gets the given session, each other
// one a session of its own.
class SharedProgram {
 public:
  // `first` must outlive the workers. `threads`: of each session (Session::use_threads).
  explicit SharedProgram(Session& first, unsigned threads = 1) : first_(first), threads_(threads) {}

  class Lease {
   public:
    Session* operator->() const { return session_; }
    Session& operator*() const { return *session_; }

   private:
    friend class SharedProgram;
    std::unique_ptr<Session> owned_;
    Session* session_ = nullptr;
  };
  // From any thread. Errors: those of open_another.
  Result<Lease> open();

 private:
  Session& first_;
  unsigned threads_;
  std::atomic<bool> taken_{false};
};

// An input in the dtype of the signature: as it is, or float32 values as codes, which `codes` then
// holds. Error: kRunInput, if dtype or shape differ from the signature's input.
Result<TensorView> planned_input(const Session& session, size_t index, const TensorView& input,
                                 Tensor& codes);

}  // namespace dtr
