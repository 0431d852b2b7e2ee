#include "compiler/program/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "compiler/ir/reorder.h"
#include "compiler/program/debug_map.h"
#include "compiler/program/file_bytes.h"
#include "compiler/program/io_constants.h"
#include "compiler/program/reader.h"
#include "compiler/program/scalar_types.h"
#include "compiler/program/tensor_file_writer.h"
#include "compiler/support/output_file.h"
#include "device/numerics/crc32.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"
#include "device/pte/verified_file.h"

namespace dtr {
namespace {

using flatbuffers::Offset;
using Bytes = FileBytes;

constexpr uint32_t kHeaderBytes = 32;

// Memories of a program, as AllocationDetails.memory_id counts them.
constexpr uint32_t kArenaMemory = 1, kStateMemory = 2;

// Constant data in the physical order of their type.
Bytes in_layout(std::span<const std::byte> data, const Type& type) {
  Bytes result(data.size());
  reorder(type.shape, byte_size(type.dtype), data.data(), strides(type.shape, Layout::kContiguous),
          result.data(), strides(type.shape, type.layout));
  return result;
}

template <size_t kSize>
void copy_text(char (&to)[kSize], std::string_view text) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::copy_n(text.data(), length, to);
}

// What each method has of its own.
struct WrittenMethod {
  const MethodPlan* plan_ = nullptr;
  std::vector<Offset<pte::EValue>> values_;
  std::vector<int32_t> value_of_tensor_;  // by tensor of the plan, -1: not written yet
  std::map<int, int32_t> nulls_;
  std::map<bool, int32_t> bools_;
  std::map<int64_t, int32_t> ints_;
  std::map<uint64_t, int32_t> doubles_;  // by bits
  std::map<std::string, int32_t> strings_;
  std::map<Ints, int32_t> int_lists_;
  std::vector<int32_t> inputs_, outputs_;
  std::vector<Offset<pte::Instruction>> instructions_;
  std::vector<Offset<pte::Operator>> operators_;
  std::map<std::string, int32_t> known_operators_;
  std::vector<Offset<pte::BackendDelegate>> delegates_;
  size_t first_segment_ = 0;
};

class ProgramWriter : WrittenMethod {
 public:
  ProgramWriter(std::span<const MethodToWrite> methods, const WriteOptions& options)
      : methods_(methods), options_(options) {}

  Result<SerializedPte> write() {
    segments_.emplace_back();  // of the constants
    for (const MethodToWrite& method : methods_) {
      if (plan_ != nullptr) finish_method();
      DTR_TRY(add_method(method));
    }
    if (initial_offsets_.size() > 1)
      state_segment_ = add_segment({.own = std::move(initial_states_)});
    add_named_data();

    SerializedPte result;
    if (options_.external_constants) result.tensor_file = tensor_file_.finish();
    result.bytes = join(finish_structure());
    result.sizes = measure(result.bytes.size());
    const size_t checksum_at = segment_base_ + segment_offsets_.back();
    result.checksum = crc32_with_hole(result.bytes, checksum_at);
    std::memcpy(result.bytes.data() + checksum_at, &result.checksum, sizeof result.checksum);
    result.value_of_tensor = std::move(value_of_tensor_);
    return result;
  }

 private:
  Result<void> add_method(const MethodToWrite& method) {
    static_cast<WrittenMethod&>(*this) = {.plan_ = method.plan, .first_segment_ = segments_.size()};
    value_of_tensor_.assign(plan_->tensors.size(), -1);
    DTR_TRY(check_sizes());
    for (const TensorRef input : plan_->inputs) inputs_.push_back(tensor_value(input));
    for (const PlanCall& call : plan_->calls)
      std::visit([&](const auto& planned) { add_call(planned); }, call);
    for (const TensorRef output : plan_->outputs) outputs_.push_back(tensor_value(output));
    if (options_.debug_map)
      debug_maps_.push_back({debug_map_key(plan_->method, methods_.size()),
                             serialize_debug_map(*plan_, value_of_tensor_, method.memory)});
    return {};
  }

  struct Segment {
    Bytes own = {};
    std::span<const std::byte> lent = {};  // a payload, which the plan has; else empty
    std::span<const std::byte> bytes() const { return lent.empty() ? own : lent; }
  };

  Result<void> check_sizes() const {
    for (const PlanTensor& tensor : plan_->tensors) {
      const bool long_dimension =
          std::ranges::any_of(tensor.type.shape, [](int64_t size) { return size > INT32_MAX; });
      if (long_dimension || tensor.type.bytes() > INT32_MAX || tensor.type.rank() > kMaxRank) {
        return fail(DiagnosticId::kProgramTooLarge,
                    fmt::format("tensor `{}` of shape {} does not fit into a program", tensor.name,
                                to_string(tensor.type.shape)),
                    "use smaller inputs: a tensor may have up to 2 GB and 16 dimensions");
      }
    }
    return {};
  }

  // ---- Values ----

  int32_t add_value(pte::KernelTypes type, Offset<void> value) {
    values_.push_back(pte::CreateEValue(builder_, type, value));
    return static_cast<int32_t>(values_.size() - 1);
  }

  // Index of a value that is written once for each content.
  template <class Key, class Create>
  int32_t shared_value(std::map<Key, int32_t>& known, const Key& key, pte::KernelTypes type,
                       Create create) {
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    const int32_t index = add_value(type, create().Union());
    known.emplace(key, index);
    return index;
  }

  int32_t tensor_value(TensorRef ref) {
    int32_t& value = value_of_tensor_.at(ref.index);
    if (value < 0) {
      const PlanTensor& tensor = plan_->tensor(ref);
      const std::vector<int32_t> sizes(tensor.type.shape.begin(), tensor.type.shape.end());
      const auto is_it = [&](TensorRef other) { return other == ref; };
      const bool named =
          std::ranges::any_of(plan_->inputs, is_it) || std::ranges::any_of(plan_->outputs, is_it);
      TensorPlace place{.offset = tensor.offset, .name = named ? tensor.name : std::string()};
      if (tensor.constant) place_constant(tensor, place);
      if (tensor.initial_state) place_state(tensor, place);
      value = add_tensor(scalar_type(tensor.type.dtype), sizes, file_dim_order(tensor.type), place);
    }
    return value;
  }

  // Where a tensor is: in the arena, in constant_segment.offsets (if that index is not 0), or in
  // the tensor file under its name.
  struct TensorPlace {
    int64_t offset = 0;
    uint32_t constant = 0;
    std::string name = {};
    bool external = false;
    uint32_t memory = kArenaMemory;  // that is planned
    uint32_t initial = 0;            // in the list of initial states; 0: zeros
  };

  int32_t add_tensor(ScalarType dtype, const std::vector<int32_t>& sizes,
                     const std::vector<uint8_t>& order, const TensorPlace& place) {
    const auto sizes_vector = builder_.CreateVector(sizes);
    const auto order_vector = builder_.CreateVector(order);
    Offset<pte::AllocationDetails> planned;
    if (place.constant == 0 && !place.external)
      planned = pte::CreateAllocationDetails(builder_, place.memory,
                                             static_cast<uint32_t>(place.offset), 0);
    Offset<pte::ExtraTensorInfo> extra;
    const auto location =
        place.external ? pte::TensorDataLocation::External : pte::TensorDataLocation::Segment;
    if (!place.name.empty())
      extra = pte::CreateExtraTensorInfo(builder_, 0, builder_.CreateSharedString(place.name),
                                         location);
    const auto tensor =
        pte::CreateTensor(builder_, static_cast<pte::ScalarType>(dtype), 0, sizes_vector,
                          order_vector, place.constant != 0 ? place.constant : place.initial,
                          planned, pte::TensorShapeDynamism::Static, extra);
    return add_value(pte::KernelTypes::Tensor, tensor.Union());
  }

  void place_constant(const PlanTensor& tensor, TensorPlace& place) {
    DTR_CHECK(static_cast<int64_t>(tensor.constant->size()) == tensor.type.bytes());
    Bytes reordered;
    std::span<const std::byte> data = *tensor.constant;
    if (tensor.type.layout != Layout::kContiguous && tensor.type.rank() >= 3)
      data = reordered = in_layout(data, tensor.type);
    if (options_.external_constants) {
      place.name = tensor_file_.add(tensor.name, tensor.type, {data.begin(), data.end()});
      place.external = true;
    } else {
      place.constant = add_constant(data);
    }
  }

  // A state is known by its name, as ExecuTorch's mutable buffers are. The runtime clears it, so
  // that only other initial values are stored.
  void place_state(const PlanTensor& tensor, TensorPlace& place) {
    DTR_CHECK(static_cast<int64_t>(tensor.initial_state->size()) == tensor.type.bytes());
    place.memory = kStateMemory;
    place.name = tensor.name;
    if (std::ranges::all_of(*tensor.initial_state,
                            [](std::byte byte) { return byte == std::byte{}; }))
      return;
    const Bytes data = in_layout(*tensor.initial_state, tensor.type);
    initial_states_.resize(align_in_file(initial_states_.size()));
    initial_offsets_.push_back(initial_states_.size());
    initial_states_.insert(initial_states_.end(), data.begin(), data.end());
    place.initial = static_cast<uint32_t>(initial_offsets_.size() - 1);
  }

  // Index in constant_segment.offsets; equal data are stored once.
  uint32_t add_constant(std::span<const std::byte> data) {
    Bytes& segment = segments_.front().own;
    const uint64_t hash = content_hash(data);
    const auto [first, last] = known_constants_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
      const auto offset = static_cast<ptrdiff_t>(constant_offsets_[known->second]);
      const auto left = segment.end() - (segment.begin() + offset);
      if (left >= std::ssize(data) &&
          std::equal(data.begin(), data.end(), segment.begin() + offset))
        return known->second;
    }
    segment.resize(align_in_file(segment.size()));
    constant_offsets_.push_back(segment.size());
    segment.insert(segment.end(), data.begin(), data.end());
    const auto index = static_cast<uint32_t>(constant_offsets_.size() - 1);
    known_constants_.emplace(hash, index);
    return index;
  }

  int32_t int_value(int64_t value) {
    return shared_value(ints_, value, pte::KernelTypes::Int,
                        [&] { return pte::CreateInt(builder_, value); });
  }

  // Overloads of one argument: index of its value.
  int32_t argument(std::monostate) {
    return shared_value(nulls_, 0, pte::KernelTypes::Null,
                        [&] { return pte::CreateNull(builder_); });
  }
  int32_t argument(TensorRef ref) { return tensor_value(ref); }
  int32_t argument(bool value) {
    return shared_value(bools_, value, pte::KernelTypes::Bool,
                        [&] { return pte::CreateBool(builder_, value); });
  }
  int32_t argument(int64_t value) { return int_value(value); }
  int32_t argument(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return shared_value(doubles_, bits, pte::KernelTypes::Double,
                        [&] { return pte::CreateDouble(builder_, value); });
  }
  int32_t argument(const std::string& value) {
    return shared_value(strings_, value, pte::KernelTypes::String,
                        [&] { return pte::CreateString(builder_, builder_.CreateString(value)); });
  }
  int32_t argument(const Ints& list) {
    std::vector<int64_t> items;
    for (const int64_t value : list) items.push_back(int_value(value));
    return shared_value(int_lists_, list, pte::KernelTypes::IntList,
                        [&] { return pte::CreateIntList(builder_, builder_.CreateVector(items)); });
  }
  int32_t argument(const Floats& list) {
    const auto value = pte::CreateDoubleList(builder_, builder_.CreateVector(list));
    return add_value(pte::KernelTypes::DoubleList, value.Union());
  }
  // ExecuTorch has a type for lists that may have gaps (Tensor?[]) and one for those that may not:
  // the operator's schema decides, even for a list without gaps.
  int32_t argument(const TensorRefs& list, bool may_have_gaps = false) {
    std::vector<int32_t> items;
    for (const std::optional<TensorRef>& ref : list) items.push_back(ref ? tensor_value(*ref) : -1);
    const bool optional = may_have_gaps || std::ranges::find(items, -1) != items.end();
    const auto vector = builder_.CreateVector(items);
    return optional ? add_value(pte::KernelTypes::OptionalTensorList,
                                pte::CreateOptionalTensorList(builder_, vector).Union())
                    : add_value(pte::KernelTypes::TensorList,
                                pte::CreateTensorList(builder_, vector).Union());
  }

  // ---- Instructions ----

  void add_call(const KernelCallPlan& call) {
    std::vector<int32_t> arguments;
    // The lists of aten::index and aten::index_put are indices, one a dimension or none.
    const bool of_indices = call.kernel.starts_with("aten::index");
    for (const PlanArgument& value : call.arguments) {
      const auto* list = std::get_if<TensorRefs>(&value);
      arguments.push_back(
          list != nullptr ? argument(*list, of_indices)
                          : std::visit([&](const auto& held) { return argument(held); }, value));
    }
    // The outputs, then the results: one tensor, or the list of them.
    TensorRefs results(call.outputs.begin(), call.outputs.end());
    for (const TensorRef output : call.outputs) arguments.push_back(tensor_value(output));
    if (results.empty()) {
      arguments.push_back(arguments.front());
    } else {
      arguments.push_back(results.size() == 1 ? tensor_value(*results.front()) : argument(results));
    }
    const int32_t op = operator_index(call.kernel);
    const auto instruction = pte::CreateKernelCall(builder_, op, builder_.CreateVector(arguments));
    add_instruction(pte::InstructionArguments::KernelCall, instruction.Union());
  }

  void add_call(const DelegateCallPlan& call) {
    std::vector<int32_t> arguments;
    for (const TensorRef input : call.inputs) arguments.push_back(tensor_value(input));
    for (const TensorRef output : call.outputs) arguments.push_back(tensor_value(output));
    if (call.partition != nullptr && call.partition->plans_scratch) {
      arguments.push_back(add_tensor(ScalarType::kByte, {static_cast<int32_t>(call.scratch_bytes)},
                                     {0}, {.offset = call.scratch_offset}));
    }
    const auto id = builder_.CreateSharedString(call.delegate_id);
    const auto data = pte::CreateBackendDelegateDataReference(builder_, pte::DataLocation::Segment,
                                                              payload_segment(call.payload));
    const auto specs = builder_.CreateVector(std::vector<Offset<pte::CompileSpec>>());
    delegates_.push_back(pte::CreateBackendDelegate(builder_, id, data, specs));
    const auto index = static_cast<int32_t>(delegates_.size() - 1);
    const auto instruction =
        pte::CreateDelegateCall(builder_, index, builder_.CreateVector(arguments));
    add_instruction(pte::InstructionArguments::DelegateCall, instruction.Union());
  }

  void add_instruction(pte::InstructionArguments type, Offset<void> arguments) {
    instructions_.push_back(pte::CreateInstruction(builder_, type, arguments));
  }

  int32_t operator_index(const std::string& kernel) {
    const auto [at, added] =
        known_operators_.emplace(kernel, static_cast<int32_t>(operators_.size()));
    if (added) {
      const size_t dot = kernel.find('.', kernel.find("::"));
      const auto name = builder_.CreateString(kernel.substr(0, dot));
      const auto overload =
          builder_.CreateString(dot == std::string::npos ? std::string() : kernel.substr(dot + 1));
      operators_.push_back(pte::CreateOperator(builder_, name, overload));
    }
    return at->second;
  }

  // ---- Segments and named data ----

  // Methods share equal payloads.
  uint32_t payload_segment(std::span<const std::byte> payload) {
    for (uint32_t i = 1; i < first_segment_; ++i)
      if (std::ranges::equal(segments_[i].bytes(), payload)) return i;
    payload_bytes_ += static_cast<int64_t>(payload.size());
    return add_segment({.lent = payload});
  }

  uint32_t add_segment(Segment segment) {
    segments_.push_back(std::move(segment));
    return static_cast<uint32_t>(segments_.size() - 1);
  }

  void add_named(std::string_view key, Bytes bytes) {
    const uint32_t segment = add_segment({.own = std::move(bytes)});
    named_data_.push_back(
        pte::CreateNamedData(builder_, builder_.CreateString(key.data(), key.size()), segment));
  }

  void add_named_data() {
    for (const MethodToWrite& method : methods_)
      for (const NamedBytes& entry : method.plan->named_data) {
        other_bytes_ += static_cast<int64_t>(entry.bytes.size());
        add_named(entry.key, entry.bytes);
      }
    for (NamedBytes& map : debug_maps_) {
      debug_bytes_ += static_cast<int64_t>(map.bytes.size());
      add_named(map.key, std::move(map.bytes));
    }
    const MethodPlan& first = *methods_.front().plan;
    if (!first.machine.empty()) {
      const auto machine = std::as_bytes(std::span(first.machine));
      add_named(pte::kMachineKey, Bytes(machine.begin(), machine.end()));
    }
    pte::Manifest manifest;
    // Methods run in turn in one arena; each keeps its states.
    int64_t arena = 0, states = 0, live = 0;
    for (const MethodToWrite& method : methods_) {
      const MethodPlan& plan = *method.plan;
      if (plan.target_hash != 0) manifest.target_hash = plan.target_hash;
      manifest.flags |= plan.manifest_flags;
      manifest.source_hash = manifest.source_hash * 31 + plan.source_hash;
      arena = std::max(arena, plan.arena_bytes);
      live = std::max(live, plan.max_live_bytes);
      states += plan.state_bytes;
    }
    manifest.sram_bytes = static_cast<uint64_t>(arena + states);
    manifest.max_live_bytes = static_cast<uint64_t>(live + states);
    manifest.flash_bytes =
        segments_.front().own.size() + tensor_file_.bytes() + static_cast<uint64_t>(payload_bytes_);
    copy_text(manifest.target, first.target);
    copy_text(manifest.tool, first.tool);
    Bytes manifest_bytes;
    append(manifest_bytes, manifest);
    add_named(pte::kManifestKey, std::move(manifest_bytes));
    add_named(pte::kChecksumKey,
              Bytes(sizeof(uint32_t)));  // last: computed from all other bytes
  }

  // ---- File ----

  void finish_method() {
    const auto chain_inputs = builder_.CreateVector(inputs_);
    const auto chain_outputs = builder_.CreateVector(outputs_);
    const auto chain = pte::CreateChain(builder_, chain_inputs, chain_outputs,
                                        builder_.CreateVector(instructions_));
    const auto name = builder_.CreateString(plan_->method);
    const auto empty = builder_.CreateString("");
    const auto container = pte::CreateContainerMetadata(builder_, empty, empty);
    const auto values = builder_.CreateVector(values_);
    const auto inputs = builder_.CreateVector(inputs_);
    const auto outputs = builder_.CreateVector(outputs_);
    const auto chains = builder_.CreateVector(std::vector{chain});
    const auto operators = builder_.CreateVector(operators_);
    const auto delegates = builder_.CreateVector(delegates_);
    std::vector<int64_t> memory_bytes{0, plan_->arena_bytes};
    if (plan_->state_bytes > 0) memory_bytes.push_back(plan_->state_bytes);
    const auto memories = builder_.CreateVector(memory_bytes);
    plans_.push_back(pte::CreateExecutionPlan(builder_, name, container, values, inputs, outputs,
                                              chains, operators, delegates, memories));
  }

  // The FlatBuffer without the extended header.
  std::span<const std::byte> finish_structure() {
    finish_method();
    if (options_.io_constants) add_io_constants(builder_, methods_, plans_);
    const auto plans = builder_.CreateVector(plans_);

    std::vector<Offset<pte::DataSegment>> segments;
    size_t end = 0;
    for (const Segment& segment : segments_) {
      const size_t size = segment.bytes().size();
      segment_offsets_.push_back(align_in_file(end));
      segments.push_back(pte::CreateDataSegment(builder_, segment_offsets_.back(), size));
      end = segment_offsets_.back() + size;
    }
    const auto constants =
        pte::CreateSubsegmentOffsets(builder_, 0, builder_.CreateVector(constant_offsets_));
    const auto segment_vector = builder_.CreateVector(segments);
    const auto named = builder_.CreateVector(named_data_);
    Offset<flatbuffers::Vector<Offset<pte::SubsegmentOffsets>>> states;
    if (state_segment_ != 0) {
      const auto offsets = builder_.CreateVector(initial_offsets_);
      states = builder_.CreateVector(
          std::vector{pte::CreateSubsegmentOffsets(builder_, state_segment_, offsets)});
    }
    const auto no_buffers = builder_.CreateVector(std::vector<Offset<pte::Buffer>>());
    const auto no_data =
        builder_.CreateVector(std::vector<Offset<pte::BackendDelegateInlineData>>());
    pte::FinishProgramBuffer(
        builder_, pte::CreateProgram(builder_, 0, plans, no_buffers, no_data, segment_vector,
                                     constants, states, named));
    return {reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize()};
  }

  Bytes join(std::span<const std::byte> structure) {
    structure_bytes_ = structure.size() + kHeaderBytes;
    segment_base_ = align_in_file(structure_bytes_);
    const size_t segment_bytes = segment_offsets_.back() + segments_.back().bytes().size();
    Bytes header;
    for (const char letter : std::string_view("eh00")) append(header, letter);
    append(header, kHeaderBytes);
    append(header, static_cast<uint64_t>(structure_bytes_));
    append(header, static_cast<uint64_t>(segment_base_));
    append(header, static_cast<uint64_t>(segment_bytes));
    Bytes file;
    file.reserve(segment_base_ + segment_bytes);
    append_with_header(file, structure, header);
    for (size_t i = 0; i < segments_.size(); ++i) {
      file.resize(segment_base_ + segment_offsets_[i]);
      const std::span<const std::byte> segment = segments_[i].bytes();
      file.insert(file.end(), segment.begin(), segment.end());
    }
    return file;
  }

  ProgramSizes measure(size_t file_bytes) const {
    ProgramSizes sizes;
    sizes.file = static_cast<int64_t>(file_bytes);
    sizes.constants = static_cast<int64_t>(segments_.front().own.size());
    sizes.external = static_cast<int64_t>(tensor_file_.bytes());
    sizes.payloads = payload_bytes_;
    sizes.debug_map = debug_bytes_;
    if (state_segment_ != 0)
      sizes.other += static_cast<int64_t>(segments_[state_segment_].own.size());
    sizes.other += other_bytes_;
    sizes.structure = sizes.file - sizes.constants - sizes.payloads - sizes.debug_map - sizes.other;
    return sizes;
  }

  std::span<const MethodToWrite> methods_;
  const WriteOptions& options_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<Offset<pte::ExecutionPlan>> plans_;
  std::vector<NamedBytes> debug_maps_;
  std::vector<Offset<pte::NamedData>> named_data_;

  std::vector<Segment> segments_;  // the first holds the constants
  std::vector<uint64_t> constant_offsets_{0};
  Bytes initial_states_;
  std::vector<uint64_t> initial_offsets_{0};
  uint32_t state_segment_ = 0;  // of them; 0: none
  TensorFileWriter tensor_file_;
  std::unordered_multimap<uint64_t, uint32_t>
      known_constants_;  // by content hash: index in constant_offsets_
  std::vector<uint64_t> segment_offsets_;
  size_t structure_bytes_ = 0;
  size_t segment_base_ = 0;
  int64_t payload_bytes_ = 0;
  int64_t debug_bytes_ = 0;
  int64_t other_bytes_ = 0;  // of named data
};

}  // namespace

Result<SerializedPte> serialize_program(const MethodPlan& plan, const WriteOptions& options) {
  const MethodToWrite method{&plan, options.memory};
  return ProgramWriter({&method, 1}, options).write();
}

Result<SerializedPte> serialize_program(std::span<const MethodToWrite> methods,
                                        const WriteOptions& options) {
  return ProgramWriter(methods, options).write();
}

Result<ProgramSizes> write_program(const MethodPlan& plan, const std::string& path,
                                   const WriteOptions& options) {
  DTR_ASSIGN(const SerializedPte program, serialize_program(plan, options));
  DTR_TRY(write_file(path, program.bytes));
  return program.sizes;
}

}  // namespace dtr
