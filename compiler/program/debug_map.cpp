#include "compiler/program/debug_map.h"

#include "compiler/program/scalar_types.h"
#include "device/pte/debug_map_generated.h"

namespace dtr {
namespace {

using flatbuffers::Offset;

// What a call of the builder takes is made before it, one statement each: in which order the
// compiler evaluates arguments is its own choice, and the bytes of a program do not depend on that.
class DebugMapBuilder {
 public:
  DebugMapBuilder(const MethodPlan& plan, std::span<const int32_t> value_of_tensor,
                  const MemoryMap* memory)
      : plan_(plan),
        value_of_tensor_(value_of_tensor),
        memory_(memory),
        definitions_(plan.tensors.size(), {-1, 0}) {}

  std::vector<std::byte> build() {
    std::vector<Offset<pte::SourceOperator>> sources;
    for (const SourceOp& source : plan_.sources) {
      const auto line = shared(source.source_line);
      const auto module_path = shared(source.module_path);
      const auto target = shared(source.target);
      const auto name = shared(source.name);
      sources.push_back(pte::CreateSourceOperator(builder_, name, target, module_path, line));
    }
    std::vector<Offset<pte::DebugCall>> calls;
    for (uint32_t call = 0; call < plan_.calls.size(); ++call) {
      calls.push_back(std::visit([&](const auto& planned) { return add_call(call, planned); },
                                 plan_.calls[call]));
    }
    for (uint32_t i = 0; i < plan_.tensors.size(); ++i) {
      if (value_of_tensor_[i] >= 0)
        add_tensor(plan_.tensors[i], value_of_tensor_[i], definitions_[i]);
    }
    std::vector<Offset<pte::DebugBuffer>> buffers;
    if (memory_ != nullptr)
      for (const MemoryMapEntry& entry : memory_->entries) buffers.push_back(add_buffer(entry));
    const auto buffer_vector = builder_.CreateVector(buffers);
    const auto tensor_vector = builder_.CreateVector(tensors_);
    const auto call_vector = builder_.CreateVector(calls);
    const auto source_vector = builder_.CreateVector(sources);
    pte::FinishDebugMapBuffer(builder_, pte::CreateDebugMap(builder_, 1, source_vector, call_vector,
                                                            tensor_vector, buffer_vector));
    const auto* data = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
    return {data, data + builder_.GetSize()};
  }

 private:
  struct Definition {
    int32_t call;
    uint32_t step;
  };

  Offset<flatbuffers::String> shared(std::string_view text) {
    return builder_.CreateSharedString(text.data(), text.size());
  }

  Offset<pte::DebugOrigin> origin(const Origin& from) {
    return pte::CreateDebugOrigin(builder_, builder_.CreateVector(from.sources), from.part,
                                  from.parts);
  }

  uint32_t first_step(uint32_t call) const {
    return memory_ == nullptr ? 0 : memory_->first_step[call];
  }

  Offset<pte::DebugCall> add_call(uint32_t index, const KernelCallPlan& call) {
    for (const TensorRef output : call.outputs)
      definitions_[output.index] = {static_cast<int32_t>(index), 0};
    const auto from = origin(call.origin);
    const auto kernel = shared(call.kernel);
    return pte::CreateDebugCall(builder_, kernel, from, 0, call.macs, call.cycles,
                                first_step(index));
  }

  Offset<pte::DebugCall> add_call(uint32_t index, const DelegateCallPlan& call) {
    const LoweredPartition* partition = call.partition;
    const uint32_t last = partition == nullptr || partition->steps == 0 ? 0 : partition->steps - 1;
    for (const TensorRef output : call.outputs)
      definitions_[output.index] = {static_cast<int32_t>(index), last};
    std::vector<Offset<pte::DebugStep>> steps;
    if (partition != nullptr) {
      for (const StepInfo& step : partition->step_info) {
        if (step.command == StepInfo::kNoCommand) continue;
        const auto kernel = shared(step.kernel);
        const auto limit = shared(step.limit);
        const auto rearranges = shared(step.rearranges);
        steps.push_back(pte::CreateDebugStep(builder_, step.command, kernel, origin(step.origin),
                                             step.macs, step.cycles, limit, step.bytes,
                                             rearranges));
      }
      for (const InteriorValue& value : partition->values) add_interior(index, call, value);
    }
    const auto name = shared(call.delegate_id);
    const auto step_vector = builder_.CreateVector(steps);
    const auto from = origin(call.origin);
    return pte::CreateDebugCall(builder_, name, from, step_vector, 0, 0, first_step(index));
  }

  Offset<pte::DebugBuffer> add_buffer(const MemoryMapEntry& entry) {
    const auto& name = entry.kind == MemoryMapEntry::Kind::kTensor
                           ? plan_.tensors[entry.index].name
                           : std::get<DelegateCallPlan>(plan_.calls[entry.call])
                                 .partition->buffers[entry.index]
                                 .name;
    return pte::CreateDebugBuffer(builder_, shared(name), static_cast<uint64_t>(entry.offset),
                                  static_cast<uint64_t>(entry.bytes),
                                  static_cast<uint32_t>(entry.first_step),
                                  static_cast<uint32_t>(entry.last_step), entry.staged);
  }

  void add_interior(uint32_t call_index, const DelegateCallPlan& call, const InteriorValue& value) {
    uint64_t offset = 0;
    if (value.buffer)
      offset = static_cast<uint64_t>(call.scratch_offset) + call.interior_offsets.at(*value.buffer);
    if (value.output)
      offset = static_cast<uint64_t>(plan_.tensors[call.outputs[*value.output].index].offset);
    add_described(value.name, value.type, value.origin, value.readers, -1,
                  value.buffer || value.output, offset,
                  {static_cast<int32_t>(call_index), value.after_step});
  }

  void add_tensor(const PlanTensor& tensor, int32_t value, Definition definition) {
    add_described(tensor.name, tensor.type, tensor.origin, tensor.readers, value, false, 0,
                  definition);
  }

  void add_described(std::string_view name, const Type& type, const Origin& from,
                     std::span<const Origin> readers, int32_t value, bool in_delegate,
                     uint64_t offset, Definition definition) {
    const std::vector<int32_t> sizes(type.shape.begin(), type.shape.end());
    Offset<flatbuffers::Vector<float>> scales;
    Offset<flatbuffers::Vector<int32_t>> zero_points;
    if (type.quantization) {
      scales = builder_.CreateVector(type.quantization->scales);
      zero_points = builder_.CreateVector(type.quantization->zero_points);
    }
    const auto name_text = shared(name);
    const auto sizes_vector = builder_.CreateVector(sizes);
    const auto order = builder_.CreateVector(file_dim_order(type));
    const auto from_origin = origin(from);
    std::vector<Offset<pte::DebugOrigin>> read_by;
    for (const Origin& reader : readers) read_by.push_back(origin(reader));
    const auto readers_vector = builder_.CreateVector(read_by);
    tensors_.push_back(pte::CreateDebugTensor(
        builder_, name_text, static_cast<int8_t>(scalar_type(type.dtype)), sizes_vector, order,
        value, in_delegate, offset, definition.call, definition.step, from_origin, scales,
        zero_points, type.quantization ? type.quantization->axis : -1, readers_vector));
  }

  const MethodPlan& plan_;
  std::span<const int32_t> value_of_tensor_;
  const MemoryMap* memory_;
  std::vector<Definition> definitions_;  // by tensor: where it is made
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<Offset<pte::DebugTensor>> tensors_;
};

}  // namespace

std::vector<std::byte> serialize_debug_map(const MethodPlan& plan,
                                           std::span<const int32_t> value_of_tensor,
                                           const MemoryMap* memory) {
  return DebugMapBuilder(plan, value_of_tensor, memory).build();
}

}  // namespace dtr
