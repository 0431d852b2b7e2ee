// The states of a program: buffers that it keeps between runs. A file of its own, so that firmware
// of programs without states does not link it.
#include <cstring>

#include "device/pte/plan_access.h"
#include "device/runtime/method.h"

namespace dtr::runtime {
namespace {

using Instructions = flatbuffers::Vector<flatbuffers::Offset<pte::Instruction>>;

const Instructions& instructions(const pte::ExecutionPlan& plan) {
  return pte::tables<pte::Instruction>(plan.chains()->Get(0), pte::Chain::VT_INSTRUCTIONS);
}

}  // namespace

bool Method::has_states() const {
  if (plan_ == nullptr) return false;
  for (const pte::Instruction* instruction : instructions(*plan_)) {
    if (pte::is_in_place(*plan_, *instruction)) return true;
  }
  return false;
}

Status Method::reset() { return reset_states(*this); }

// A program does not name its states, but in-place operators write all of them. Each memory that
// holds one is cleared once: a program may list very many states.
void Method::clear_states() {
  const auto& sizes = pte::list<int64_t>(plan_, pte::ExecutionPlan::VT_NON_CONST_BUFFER_SIZES);
  uint64_t cleared = 0;  // by number of the memory
  for (const pte::Instruction* instruction : instructions(*plan_)) {
    if (!pte::is_in_place(*plan_, *instruction)) continue;
    const Value& value = values_[pte::arguments(*instruction).Get(0)];
    if (value.kind != ValueKind::kTensor) continue;
    const pte::AllocationDetails* at = stored(value).allocation_info();
    if (at == nullptr || at->memory_id() >= 64 || (cleared >> at->memory_id() & 1) != 0) continue;
    cleared |= uint64_t{1} << at->memory_id();
    if (const auto bytes = static_cast<size_t>(sizes.Get(at->memory_id())); bytes > 0)
      std::memset(value.tensor.data - at->memory_offset_low(), 0, bytes);
  }
}

// States may share an initial value. What is copied is bounded by the file: no small file takes
// long.
Status reset_states(Method& method) {
  if (method.plan_ == nullptr) return {Error::kNotPrepared};
  method.clear_states();
  const pte::VerifiedFile& file = method.program_->file();
  uint64_t left = uint64_t{16} * file.bytes().size();
  const auto& all = pte::tables<pte::EValue>(method.plan_, pte::ExecutionPlan::VT_VALUES);
  for (uint32_t i = 0; i < all.size(); ++i) {
    const Value& value = method.values_[i];
    if (value.kind != ValueKind::kTensor) continue;
    const pte::Tensor& tensor = method.stored(value);
    if (tensor.allocation_info() == nullptr || tensor.data_buffer_idx() == 0) continue;
    const std::span<const std::byte> initial = file.initial_state(tensor);
    const size_t bytes = value.tensor.bytes();
    if (initial.data() == nullptr || initial.size() < bytes || bytes > left)
      return {Error::kMalformed, i};
    left -= bytes;
    if (bytes > 0) std::memcpy(value.tensor.data, initial.data(), bytes);
  }
  return {};
}

}  // namespace dtr::runtime
