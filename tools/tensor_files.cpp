#include <algorithm>

#include "device/pte/program_generated.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

bool has_constants_outside(const ProgramImage& image) {
  const auto is_outside = [](const pte::EValue* value) {
    const pte::Tensor* tensor = value->val_as_Tensor();
    return tensor != nullptr && pte::is_external(*tensor);
  };
  return std::ranges::any_of(*image.file().program().execution_plan(), [&](const pte::ExecutionPlan* plan) {
    return plan->values() != nullptr && std::ranges::any_of(*plan->values(), is_outside);
  });
}

}  // namespace

void note_unused_tensors(const std::vector<std::string>& files, std::initializer_list<const ProgramImage*> programs) {
  if (files.empty() || std::ranges::any_of(programs, [](const ProgramImage* image) { return has_constants_outside(*image); })) return;
  print_error("note: --tensors has nothing to do: all constants are in the program\n");
}

}  // namespace dtr::tools
