// Files with NeutronGraph operators. Where operators stay, the new file is made of three parts: a
// root with new lists of codes, tensors, buffers and operators; the old file, whose tables those
// lists refer to, so that options, sparsity, metadata and further subgraphs stay as they are; and
// the tables that are new.
#include "host/commands/neutron_graph.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "compiler/support/align.h"
#include "compiler/support/diagnostic.h"

namespace dtr {
namespace {

namespace fb = tflite::fb;
using flatbuffers::Offset;

constexpr size_t kAlignment = 16;
constexpr uint32_t kSchemaVersion = 3;
constexpr std::string_view kOperator = "NeutronGraph";

std::vector<std::byte> kernel_names(const NeutronGraph& graph) {
  std::vector<std::string> names;
  for (const NeutronStep& step : graph.steps)
    for (const std::string& kernel : step.kernels)
      if (std::ranges::find(names, kernel) == names.end()) names.push_back(kernel);
  std::vector<std::byte> bytes;
  for (const std::string& name : names) {
    for (const char letter : name) bytes.push_back(static_cast<std::byte>(letter));
    bytes.push_back(std::byte{0});
  }
  bytes.resize(std::max(align_up(bytes.size(), kAlignment), kAlignment));
  return bytes;
}

// The tables that graphs need, with indices that begin behind those that the file has.
class NewTables {
 public:
  NewTables(uint32_t code, size_t tensors, size_t buffers)
      : code_(code), first_tensor_(tensors), first_buffer_(buffers) {}

  // `operands` and `results` are the indices of the graph's own tensors in the new file.
  void add(const NeutronGraph& graph, size_t number, std::vector<int32_t> operands,
           std::vector<int32_t> results) {
    const auto named = [&](std::string_view what) { return fmt::format("{}_{}", what, number); };
    operands.push_back(add_bytes(named("microcode"), graph.microcode));
    operands.push_back(
        add_bytes(named("weights"), std::vector<std::byte>(kNeutronWeightBytes, std::byte{0})));
    operands.push_back(add_bytes(named("kernels"), kernel_names(graph)));
    results.push_back(add_empty(named("scratch"), graph.scratch_bytes));
    if (graph.records_profile) {
      results.push_back(add_empty(named("profile"), graph.profile_bytes));
      results.push_back(add_empty(named("debug"), graph.debug_bytes));
    }
    const auto operand_list = builder_.CreateVector(operands);
    const auto result_list = builder_.CreateVector(results);
    operators_.push_back(fb::CreateOperator(builder_, code_, operand_list, result_list));
  }

  // An int8 tensor or one of integers without data.
  int32_t add_interface(const tflite::TensorInfo& of) {
    Offset<fb::QuantizationParameters> quantization;
    if (!of.scales.empty()) {
      const std::vector<int64_t> zero_points(of.zero_points.begin(), of.zero_points.end());
      const auto scales = builder_.CreateVector(of.scales);
      quantization = fb::CreateQuantizationParameters(
          builder_, 0, 0, scales, builder_.CreateVector(zero_points), 0, 0, of.quantized_dimension);
    }
    const std::vector<int32_t> shape(of.shape.begin(), of.shape.end());
    return add_tensor(of.name, of.type, shape, 0, quantization);
  }

  void finish(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
              const std::string& name, bool with_code) {
    std::vector<Offset<fb::OperatorCode>> codes;
    if (with_code) {
      const auto custom = builder_.CreateString(kOperator.data(), kOperator.size());
      codes.push_back(
          fb::CreateOperatorCode(builder_, static_cast<int8_t>(kCustom), custom, 1, kCustom));
    }
    const auto tensor_list = builder_.CreateVector(tensors_);
    const auto input_list = builder_.CreateVector(inputs);
    const auto output_list = builder_.CreateVector(outputs);
    const auto operator_list = builder_.CreateVector(operators_);
    const auto graph = fb::CreateSubGraph(builder_, tensor_list, input_list, output_list,
                                          operator_list, builder_.CreateString(name));
    const auto code_list = builder_.CreateVector(codes);
    const auto graph_list = builder_.CreateVector(&graph, 1);
    const auto description = builder_.CreateString("Deuteron");
    const auto model = fb::CreateModel(builder_, kSchemaVersion, code_list, graph_list, description,
                                       builder_.CreateVector(buffers_));
    fb::FinishModelBuffer(builder_, model);
  }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize()};
  }
  void add_empty_buffer() { buffers_.push_back(fb::CreateBuffer(builder_)); }

 private:
  static constexpr auto kCustom = fb::BuiltinOperator::CUSTOM;

  int32_t add_tensor(const std::string& name, fb::TensorType type,
                     const std::vector<int32_t>& shape, uint32_t buffer,
                     Offset<fb::QuantizationParameters> quantization = 0) {
    const auto sizes = builder_.CreateVector(shape);
    tensors_.push_back(
        fb::CreateTensor(builder_, sizes, type, buffer, builder_.CreateString(name), quantization));
    return static_cast<int32_t>(first_tensor_ + tensors_.size() - 1);
  }
  int32_t add_empty(const std::string& name, uint32_t bytes) {
    return add_tensor(name, fb::TensorType::UINT8, {static_cast<int32_t>(bytes)}, 0);
  }
  int32_t add_bytes(const std::string& name, const std::vector<std::byte>& bytes) {
    builder_.ForceVectorAlignment(bytes.size(), 1, kAlignment);
    const auto data =
        builder_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    buffers_.push_back(fb::CreateBuffer(builder_, data));
    return add_tensor(name, fb::TensorType::UINT8, {static_cast<int32_t>(bytes.size())},
                      static_cast<uint32_t>(first_buffer_ + buffers_.size() - 1));
  }

  uint32_t code_;
  size_t first_tensor_, first_buffer_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<Offset<fb::Tensor>> tensors_;
  std::vector<Offset<fb::Buffer>> buffers_;
  std::vector<Offset<fb::Operator>> operators_;
};

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// The interface tensors in a file of their own, and their new indices.
std::map<int32_t, int32_t> add_interface(NewTables& tables, const tflite::ModelFile& file) {
  std::map<int32_t, int32_t> renumbered;
  for (const auto* list : {&file.inputs, &file.outputs})
    for (const int32_t index : *list)
      if (!renumbered.contains(index))
        renumbered[index] = tables.add_interface(file.tensors[static_cast<size_t>(index)]);
  return renumbered;
}

std::vector<int32_t> renumber(const std::map<int32_t, int32_t>& by,
                              const std::vector<int32_t>& list) {
  std::vector<int32_t> made;
  for (const int32_t index : list) made.push_back(by.at(index));
  return made;
}

// The first part: tables and lists whose references all point behind themselves.
class Front {
 public:
  size_t size() const { return bytes_.size(); }
  void put32(uint32_t value) { append(&value, sizeof value); }
  void put_text(std::string_view text) { append(text.data(), text.size()); }
  void set32(size_t at, uint32_t value) { std::memcpy(bytes_.data() + at, &value, sizeof value); }
  void point(size_t at, size_t target) { set32(at, static_cast<uint32_t>(target - at)); }

  // A table with a number or reference in each field that is present; returns its place, and those
  // of the fields in `fields`.
  size_t put_table(const std::vector<bool>& present, std::vector<size_t>& fields) {
    const size_t vtable_bytes = 4 + 2 * present.size();
    if (vtable_bytes % 4 != 0) put16(0);  // the table behind is aligned
    const auto count = static_cast<size_t>(std::ranges::count(present, true));
    put16(static_cast<uint16_t>(vtable_bytes));
    put16(static_cast<uint16_t>(4 + 4 * count));
    size_t used = 0;
    for (const bool field : present)
      put16(field ? static_cast<uint16_t>(4 + 4 * used++) : uint16_t{0});
    const size_t table = size();
    put32(static_cast<uint32_t>(vtable_bytes));
    for (const bool field : present) {
      fields.push_back(field ? size() : 0);
      if (field) put32(0);
    }
    return table;
  }
  // A list of references; returns its place.
  size_t put_list(const std::vector<size_t>& targets) {
    const size_t at = size();
    put32(static_cast<uint32_t>(targets.size()));
    for (const size_t target : targets) {
      put32(0);
      point(size() - 4, target);
    }
    return at;
  }
  // Appends what stands at that place of the file.
  void put_at(size_t place, std::span<const std::byte> bytes) {
    bytes_.resize(place);
    append(bytes.data(), bytes.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void put16(uint16_t value) { append(&value, sizeof value); }
  void append(const void* data, size_t count) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + count);
  }
  std::vector<std::byte> bytes_;
};

// The file of a model some of whose operators stay.
class MixedModel {
 public:
  MixedModel(std::span<const std::byte> old, const tflite::ModelFile& file)
      : old_(old), file_(file), model_(*fb::GetModel(old.data())) {}

  Result<std::vector<std::byte>> write(const GraphPlan& plan, std::span<const NeutronGraph> graphs,
                                       const std::string& name) {
    const fb::SubGraph& main = *model_.subgraphs()->Get(0);
    NewTables tables(count(model_.operator_codes()), count(main.tensors()),
                     count(model_.buffers()));
    for (size_t i = 0; i < graphs.size(); ++i)
      tables.add(graphs[i], i, graphs[i].subset.inputs, graphs[i].subset.outputs);
    tables.finish({}, {}, "", true);
    new_ = tables.bytes();
    const fb::Model& added = *fb::GetModel(new_.data());
    const fb::SubGraph& added_main = *added.subgraphs()->Get(0);

    constexpr size_t kMostTables = 256;  // bytes of both tables and of lengths of lists
    const size_t entries = count(model_.operator_codes()) + 1 + count(main.tensors()) +
                           count(added_main.tensors()) + count(model_.buffers()) +
                           count(added.buffers()) + file_.operators.size() + graphs.size() +
                           count(model_.subgraphs());
    old_at_ = align_up(kMostTables + sizeof(uint32_t) * entries, kAlignment);
    new_at_ = align_up(old_at_ + old_.size(), kAlignment);
    if (new_at_ + new_.size() > INT32_MAX)
      return fail(DiagnosticId::kTfliteInvalid, "the converted model would exceed 2 GB",
                  "convert a part of it", {.file = name});

    Front front;
    front.put32(0);
    front.put_text("TFL3");
    // Fields of Model: version, codes, subgraphs, description, buffers, metadata_buffer, metadata,
    // signatures. Of SubGraph: tensors, inputs, outputs, operators, name.
    std::vector<size_t> fields, parts;
    std::vector<bool> present{true, true, true, false, true, false, false, false};
    for (const size_t field : {3, 5, 6, 7}) present[field] = pointer(model_, field) != nullptr;
    front.point(0, front.put_table(present, fields));
    front.set32(fields[0], model_.version());
    for (const size_t field : {3, 5, 6, 7})
      if (present[field]) front.point(fields[field], place(pointer(model_, field)));
    std::vector<size_t> codes = places(model_.operator_codes());
    codes.push_back(place(added.operator_codes()->Get(0)));
    front.point(fields[1], front.put_list(codes));
    front.point(fields[4],
                front.put_list(joined(places(model_.buffers()), places(added.buffers()))));
    std::vector<size_t> subgraphs = places(model_.subgraphs());
    const size_t list = front.put_list(subgraphs);
    front.point(fields[2], list);

    const std::vector<bool> has{true, main.inputs() != nullptr, main.outputs() != nullptr, true,
                                main.name() != nullptr};
    front.point(list + sizeof(uint32_t), front.put_table(has, parts));
    if (has[1]) front.point(parts[1], place(main.inputs()));
    if (has[2]) front.point(parts[2], place(main.outputs()));
    if (has[4]) front.point(parts[4], place(main.name()));
    front.point(parts[0],
                front.put_list(joined(places(main.tensors()), places(added_main.tensors()))));
    front.point(parts[3], front.put_list(operators(plan, graphs, main, added_main)));
    DTR_CHECK(front.size() <= old_at_);
    front.put_at(old_at_, old_);
    front.put_at(new_at_, new_);
    return front.take();
  }

 private:
  template <class List>
  static uint32_t count(const List* list) {
    return list == nullptr ? 0 : list->size();
  }
  // A reference of a table by the number of its field, also of those that the schema leaves out.
  static const void* pointer(const fb::Model& model, size_t field) {
    return reinterpret_cast<const flatbuffers::Table&>(model).GetPointer<const void*>(
        static_cast<flatbuffers::voffset_t>(4 + 2 * field));
  }
  // The place in the new file of a table or list of the old or of the new part.
  size_t place(const void* table) const {
    const auto* at = static_cast<const std::byte*>(table);
    const bool old = at >= old_.data() && at < old_.data() + old_.size();
    return old ? old_at_ + static_cast<size_t>(at - old_.data())
               : new_at_ + static_cast<size_t>(at - new_.data());
  }
  template <class List>
  std::vector<size_t> places(const List* list) const {
    std::vector<size_t> found;
    for (uint32_t i = 0; i < count(list); ++i) found.push_back(place(list->Get(i)));
    return found;
  }
  static std::vector<size_t> joined(std::vector<size_t> first, const std::vector<size_t>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
  // The operators that stay and those of the graphs, level by level.
  std::vector<size_t> operators(const GraphPlan& plan, std::span<const NeutronGraph> graphs,
                                const fb::SubGraph& main, const fb::SubGraph& added) const {
    std::map<size_t, std::vector<size_t>> by_level;
    for (size_t i = 0; i < file_.operators.size(); ++i)
      if (plan.level[i] % 2 != 0)
        by_level[plan.level[i]].push_back(place(main.operators()->Get(static_cast<uint32_t>(i))));
    for (size_t i = 0; i < graphs.size(); ++i)
      by_level[plan.level[graphs[i].subset.operators.front()]].push_back(
          place(added.operators()->Get(static_cast<uint32_t>(i))));
    std::vector<size_t> all;
    for (const auto& [level, list] : by_level) all.insert(all.end(), list.begin(), list.end());
    return all;
  }

  std::span<const std::byte> old_, new_;
  const tflite::ModelFile& file_;
  const fb::Model& model_;
  size_t old_at_ = 0, new_at_ = 0;
};

}  // namespace

GraphPlan plan_graphs(const tflite::ModelFile& file, const std::vector<bool>& converts) {
  GraphPlan plan;
  std::vector<size_t> of_tensor(file.tensors.size(), 0);
  for (size_t i = 0; i < file.operators.size(); ++i) {
    const tflite::OperatorInfo& op = file.operators[i];
    size_t level = 0;
    for (const int32_t input : op.inputs)
      if (input >= 0) level = std::max(level, of_tensor[static_cast<size_t>(input)]);
    if ((level % 2 == 0) != converts[i]) ++level;
    plan.level.push_back(level);
    for (const int32_t output : op.outputs)
      if (output >= 0) of_tensor[static_cast<size_t>(output)] = level;
  }
  return plan;
}

Result<std::vector<std::byte>> write_model(std::span<const std::byte> bytes,
                                           const tflite::ModelFile& file, const GraphPlan& plan,
                                           std::span<const NeutronGraph> graphs,
                                           const std::string& name) {
  const bool mixed = std::ranges::any_of(plan.level, [](size_t level) { return level % 2 != 0; });
  if (mixed) return MixedModel(bytes, file).write(plan, graphs, name);
  NewTables tables(0, 0, 0);
  tables.add_empty_buffer();
  const std::map<int32_t, int32_t> numbers = add_interface(tables, file);
  for (size_t i = 0; i < graphs.size(); ++i)
    tables.add(graphs[i], i, renumber(numbers, graphs[i].subset.inputs),
               renumber(numbers, graphs[i].subset.outputs));
  tables.finish(renumber(numbers, file.inputs), renumber(numbers, file.outputs), file.name, true);
  return copy(tables.bytes());
}

std::vector<std::byte> write_identity(const tflite::ModelFile& file,
                                      std::span<const size_t> inputs_of_outputs) {
  NewTables tables(0, 0, 0);
  tables.add_empty_buffer();
  const std::map<int32_t, int32_t> numbers = add_interface(tables, file);
  const std::vector<int32_t> inputs = renumber(numbers, file.inputs);
  std::vector<int32_t> outputs;
  for (const size_t input : inputs_of_outputs) outputs.push_back(inputs.at(input));
  tables.finish(inputs, outputs, file.name, false);
  return copy(tables.bytes());
}

}  // namespace dtr
