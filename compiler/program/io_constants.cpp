#include "compiler/program/io_constants.h"

#include <fmt/format.h>

#include <optional>

#include "compiler/ir/quantized_values.h"
#include "compiler/program/scalar_types.h"
#include "device/pte/io_quantization.h"

namespace dtr {
namespace {

using flatbuffers::Offset;

class IoConstants {
 public:
  explicit IoConstants(flatbuffers::FlatBufferBuilder& builder)
      : builder_(builder),
        none_(builder.CreateVector(std::vector<int32_t>())),
        first_(builder.CreateVector(std::vector<int32_t>{0})),
        chains_(builder.CreateVector(std::vector{
            pte::CreateChain(builder, none_, first_,
                             builder.CreateVector(std::vector<Offset<pte::Instruction>>()))})),
        operators_(builder.CreateVector(std::vector<Offset<pte::Operator>>())),
        delegates_(builder.CreateVector(std::vector<Offset<pte::BackendDelegate>>())),
        memories_(builder.CreateVector(std::vector<int64_t>{0})) {
    const auto empty = builder.CreateString("");
    container_ = pte::CreateContainerMetadata(builder, empty, empty);
  }

  // `prefix`: "output0_", behind the method's name.
  void add(const std::string& prefix, const Type& type,
           std::vector<Offset<pte::ExecutionPlan>>& plans) {
    const Quantization& q = *type.quantization;
    plans.push_back(method(prefix, pte::kIoScale, pte::KernelTypes::Double,
                           pte::CreateDouble(builder_, double{q.scale()}).Union()));
    const auto add_int = [&](std::string_view key, int64_t number) {
      plans.push_back(
          method(prefix, key, pte::KernelTypes::Int, pte::CreateInt(builder_, number).Union()));
    };
    add_int(pte::kIoZeroPoint, q.zero_point());
    add_int(pte::kIoMinimum, q.qmin);
    add_int(pte::kIoMaximum, q.qmax);
    add_int(pte::kIoDtype, static_cast<int64_t>(scalar_type(type.dtype)));
  }

 private:
  Offset<pte::ExecutionPlan> method(std::string_view prefix, std::string_view key,
                                    pte::KernelTypes type, Offset<void> value) {
    const auto name = builder_.CreateString(fmt::format("{}{}", prefix, key));
    const auto values =
        builder_.CreateVector(std::vector{pte::CreateEValue(builder_, type, value)});
    return pte::CreateExecutionPlan(builder_, name, container_, values, none_, first_, chains_,
                                    operators_, delegates_, memories_);
  }

  flatbuffers::FlatBufferBuilder& builder_;
  Offset<flatbuffers::Vector<int32_t>> none_, first_;
  Offset<flatbuffers::Vector<Offset<pte::Chain>>> chains_;
  Offset<flatbuffers::Vector<Offset<pte::Operator>>> operators_;
  Offset<flatbuffers::Vector<Offset<pte::BackendDelegate>>> delegates_;
  Offset<flatbuffers::Vector<int64_t>> memories_;
  Offset<pte::ContainerMetadata> container_;
};

}  // namespace

void add_io_constants(flatbuffers::FlatBufferBuilder& builder,
                      std::span<const MethodToWrite> methods,
                      std::vector<Offset<pte::ExecutionPlan>>& plans) {
  std::optional<IoConstants> constants;
  for (const MethodToWrite& method : methods)
    for (const bool output : {false, true}) {
      const std::vector<TensorRef>& tensors = output ? method.plan->outputs : method.plan->inputs;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Type& type = method.plan->tensor(tensors[i]).type;
        if (!has_real_values(type)) continue;
        if (!constants) constants.emplace(builder);
        const std::string& of = method.plan->method;
        constants->add(
            fmt::format("{}{}{}_", of == "forward" ? "" : of + "_", output ? "output" : "input", i),
            type, plans);
      }
    }
}

}  // namespace dtr
