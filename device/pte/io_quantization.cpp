#include "device/pte/io_quantization.h"

#include <limits>

#include "device/pte/plan_access.h"

namespace dtr::pte {
namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes a number that is written without leading zeros.
bool take_number(std::string_view& text, uint32_t& number) {
  constexpr size_t kMostDigits = 9;
  size_t digits = 0;
  number = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits == kMostDigits) return false;
    number = number * 10 + static_cast<uint32_t>(text[digits] - '0');
  }
  const bool one = digits > 0 && (digits == 1 || text.front() != '0');
  text.remove_prefix(digits);
  return one;
}

// The value of that type that a method returns without computing anything; null if it does not.
const EValue* returned(const ExecutionPlan* plan, KernelTypes type) {
  if (plan == nullptr) return nullptr;
  const auto& outputs = list<int32_t>(plan, ExecutionPlan::VT_OUTPUTS);
  if (outputs.size() != 1 || list<int32_t>(plan, ExecutionPlan::VT_INPUTS).size() != 0)
    return nullptr;
  for (const Chain* chain : tables<Chain>(plan, ExecutionPlan::VT_CHAINS))
    if (tables<Instruction>(chain, Chain::VT_INSTRUCTIONS).size() != 0) return nullptr;
  const EValue* value =
      tables<EValue>(plan, ExecutionPlan::VT_VALUES).Get(static_cast<uint32_t>(outputs.Get(0)));
  return value->val_type() == type ? value : nullptr;
}

}  // namespace

bool parse_io_name(std::string_view name, IoName* parsed) {
  parsed->output = take(name, "output");
  if (!parsed->output && !take(name, "input")) return false;
  if (!take_number(name, parsed->index) || !take(name, "_")) return false;
  parsed->key = name;
  return name == kIoScale || name == kIoZeroPoint || name == kIoMinimum || name == kIoMaximum ||
         name == kIoDtype;
}

std::string_view io_method_of(std::string_view name) {
  IoName parsed{};
  if (parse_io_name(name, &parsed)) return "forward";
  for (const std::string_view what : {"_input", "_output"}) {
    const size_t at = name.rfind(what);  // behind the method's name
    if (at == std::string_view::npos) continue;
    std::string_view rest = name;
    rest.remove_prefix(at + 1);
    if (parse_io_name(rest, &parsed)) return {name.data(), at};
  }
  return {};
}

const ExecutionPlan** IoMethods::of(std::string_view key) {
  if (key == kIoScale) return &scale;
  if (key == kIoZeroPoint) return &zero_point;
  if (key == kIoMinimum) return &minimum;
  return key == kIoMaximum ? &maximum : nullptr;
}

bool io_quantization(const IoMethods& methods, IoQuantization* quantization) {
  const EValue* scale = returned(methods.scale, KernelTypes::Double);
  const EValue* zero_point = returned(methods.zero_point, KernelTypes::Int);
  const EValue* minimum = returned(methods.minimum, KernelTypes::Int);
  const EValue* maximum = returned(methods.maximum, KernelTypes::Int);
  if (scale == nullptr || zero_point == nullptr || minimum == nullptr || maximum == nullptr)
    return false;
  const auto step = scalar<double>(*scale);
  const auto zero = scalar<int64_t>(*zero_point), low = scalar<int64_t>(*minimum),
             high = scalar<int64_t>(*maximum);
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(step >= kLeast && step <= kMost) || low < INT32_MIN || low > zero || zero > high ||
      high > INT32_MAX)
    return false;
  *quantization = {step, static_cast<int32_t>(zero), static_cast<int32_t>(low),
                   static_cast<int32_t>(high)};
  return true;
}

bool io_quantization(const Program& program, std::string_view method, bool output, uint32_t index,
                     IoQuantization* quantization) {
  IoMethods methods;
  for (const ExecutionPlan* plan : tables<ExecutionPlan>(&program, Program::VT_EXECUTION_PLAN)) {
    std::string_view name = flatbuffers::GetStringView(plan->name());
    const bool prefixed = take(name, method) && take(name, "_");
    if (!prefixed) {
      if (method != "forward") continue;
      name = flatbuffers::GetStringView(plan->name());
    }
    IoName parsed{};
    if (!parse_io_name(name, &parsed) || parsed.output != output || parsed.index != index) continue;
    if (const ExecutionPlan** found = methods.of(parsed.key); found != nullptr) *found = plan;
  }
  return io_quantization(methods, quantization);
}

}  // namespace dtr::pte
