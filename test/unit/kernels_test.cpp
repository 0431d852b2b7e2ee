// The portable kernels against PyTorch's outputs (test/data/kernels/make_cases.py): each case is
// planned, written, loaded and run, with contiguous tensors, with channels-last ones, and with
// channels-last inputs and contiguous outputs.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "compiler/ir/npz.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

enum class Orders { kContiguous, kChannelsLast, kMixed };

std::string data_path(const char* name) {
  return test::source_path(std::string("test/data/kernels/") + name).string();
}

class Cases {
 public:
  Cases() {
    for (const std::string file :
         {"cases", "elementwise", "moving", "numbers", "places", "boxes"}) {
      auto arrays = read_npz(data_path((file + ".npz").c_str()));
      EXPECT_TRUE(arrays);
      for (NamedTensor& array : *arrays) tensors_.emplace(array.name, std::move(array.tensor));
      simdjson::dom::element document;
      parsers_.push_back(std::make_unique<simdjson::dom::parser>());
      EXPECT_FALSE(parsers_.back()->load(data_path((file + ".json").c_str())).get(document));
      for (const simdjson::dom::element item : document.get_array()) cases_.push_back(item);
    }
  }
  const std::vector<simdjson::dom::element>& cases() const { return cases_; }
  const Tensor& tensor(std::string_view name) const { return tensors_.at(std::string(name)); }

 private:
  std::map<std::string, Tensor> tensors_;
  std::vector<std::unique_ptr<simdjson::dom::parser>>
      parsers_;  // each holds the memory of its document
  std::vector<simdjson::dom::element> cases_;
};

// The bytes of a tensor in the physical order of `type`, or back.
std::vector<std::byte> reorder(std::span<const std::byte> data, const Type& type,
                               bool to_physical) {
  std::vector<std::byte> result(data.size());
  const size_t element = byte_size(type.dtype);
  const std::vector<int64_t> step = strides(type.shape, type.layout);
  for (size_t logical = 0; logical * element < data.size(); ++logical) {
    size_t rest = logical;
    size_t physical = 0;
    for (size_t dim = type.rank(); dim-- > 0;) {
      physical += rest % static_cast<size_t>(type.shape[dim]) * static_cast<size_t>(step[dim]);
      rest /= static_cast<size_t>(type.shape[dim]);
    }
    std::copy_n(
        data.begin() + static_cast<ptrdiff_t>((to_physical ? logical : physical) * element),
        element,
        result.begin() + static_cast<ptrdiff_t>((to_physical ? physical : logical) * element));
  }
  return result;
}

double max_difference(const Type& type, std::span<const std::byte> got,
                      std::span<const std::byte> wanted, double* largest) {
  double difference = 0;
  const auto compare = [&]<class T>(T) {
    const auto* a = reinterpret_cast<const T*>(got.data());
    const auto* b = reinterpret_cast<const T*>(wanted.data());
    for (size_t i = 0; i < wanted.size() / sizeof(T); ++i) {
      const auto mine = static_cast<double>(a[i]), other = static_cast<double>(b[i]);
      if (std::isfinite(other)) *largest = std::max(*largest, std::abs(other));
      if (a[i] == b[i] || (std::isnan(mine) && std::isnan(other))) continue;
      // Integers may be too large for a double to tell them apart; a difference that is no number
      // has infinity or NaN on one side.
      const double apart = std::abs(mine - other);
      difference = std::isfinite(apart) && apart > 0 ? std::max(difference, apart) : HUGE_VAL;
    }
  };
  switch (type.dtype) {
    case DType::kFloat32:
      compare(float{});
      break;
    case DType::kInt64:
      compare(int64_t{});
      break;
    case DType::kInt32:
      compare(int32_t{});
      break;
    case DType::kInt16:
      compare(int16_t{});
      break;
    case DType::kUint8:
      compare(uint8_t{});
      break;
    default:
      compare(int8_t{});
      break;
  }
  return difference;
}

class Runner {
 public:
  Runner(const Cases& cases, Orders orders) : cases_(cases), orders_(orders) {}

  void run(simdjson::dom::element item) {
    KernelCallPlan call{.kernel = std::string(std::string_view(item["kernel"]))};
    for (const simdjson::dom::element argument : item["arguments"].get_array())
      call.arguments.push_back(plan_argument(argument));
    for (const simdjson::dom::element output : item["outputs"].get_array()) {
      expected_.emplace_back(output);
      call.outputs.push_back(
          plan_.add_tensor({std::string(expected_.back()),
                            type_of(expected_.back(), orders_ == Orders::kChannelsLast)}));
    }
    plan_.outputs = call.outputs;
    const auto is = [&](const char* what) { return !item[what].error(); };
    if (is("listed"))
      call.arguments.emplace_back(TensorRefs(call.outputs.begin(), call.outputs.end()));
    if (is("written")) {
      plan_.calls.emplace_back(KernelCallPlan{.kernel = "aten::clone.out",
                                              .arguments = {call.arguments[0], std::monostate{}},
                                              .outputs = call.outputs});
      call.arguments[0] = call.outputs.front();
    }
    plan_.calls.emplace_back(std::move(call));
    ASSERT_TRUE(plan_memory(plan_));
    const auto written = serialize_program(plan_);
    ASSERT_TRUE(written);
    const test::AlignedCopy file(written->bytes);
    runtime::Program program;
    ASSERT_TRUE(test::load(file.bytes(), &program).ok());
    test::PreparedMethod method;
    ASSERT_TRUE(method.prepare(program).ok());
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const Type& type = plan_.tensor(plan_.inputs[i]).type;
      const std::vector<std::byte> data =
          reorder(cases_.tensor(plan_.tensor(plan_.inputs[i]).name).bytes(), type, true);
      ASSERT_TRUE(method->set_input(i, test::input_like(*method->input_tensor(i), data)).ok());
    }
    const runtime::Status status = method->run();
    ASSERT_TRUE(status.ok()) << pte::text(status.error);
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Type& type = plan_.tensor(plan_.outputs[i]).type;
      const runtime::Tensor& y = *method->output_tensor(i);
      const std::vector<std::byte> got = reorder({y.data, y.bytes()}, type, false);
      double largest = 0;
      const double difference =
          max_difference(type, got, cases_.tensor(expected_[i]).bytes(), &largest);
      EXPECT_LE(difference, item["tolerance"].get_double().value() * largest) << "output " << i;
    }
  }

 private:
  Type type_of(std::string_view name, bool channels_last) const {
    const Tensor& tensor = cases_.tensor(name);
    return {
        tensor.dtype(), tensor.shape(),
        channels_last && tensor.shape().size() >= 3 ? Layout::kChannelsLast : Layout::kContiguous};
  }

  TensorRef input(std::string_view name) {
    plan_.inputs.push_back(
        plan_.add_tensor({std::string(name), type_of(name, orders_ != Orders::kContiguous)}));
    return plan_.inputs.back();
  }

  PlanArgument plan_argument(simdjson::dom::element argument) {
    if (argument.is_null()) return std::monostate{};
    const simdjson::dom::object object = argument;
    const simdjson::dom::key_value_pair entry = *object.begin();
    if (entry.key == "tensor") return input(std::string_view(entry.value));
    if (entry.key == "int") return int64_t{entry.value};
    if (entry.key == "bool") return bool{entry.value};
    if (entry.key == "double") return double{entry.value};
    if (entry.key == "scratch")
      return plan_.add_tensor(
          {.name = "scratch", .type = {.dtype = DType::kUint8, .shape = {int64_t{entry.value}}}});
    if (entry.key == "infinite") return HUGE_VAL;
    if (entry.key == "string") return std::string(std::string_view(entry.value));
    if (entry.key == "tensors") {
      TensorRefs refs;
      for (const simdjson::dom::element name : entry.value.get_array())
        refs.emplace_back(name.is_null() ? std::nullopt
                                         : std::optional(input(std::string_view(name))));
      return refs;
    }
    if (entry.key == "doubles") {
      Floats floats;
      for (const simdjson::dom::element value : entry.value.get_array())
        floats.push_back(double{value});
      return floats;
    }
    Ints ints;
    for (const simdjson::dom::element value : entry.value.get_array())
      ints.push_back(int64_t{value});
    return ints;
  }

  const Cases& cases_;
  Orders orders_;
  MethodPlan plan_;
  std::vector<std::string_view> expected_;
};

void run_all(Orders orders) {
  const Cases cases;
  size_t count = 0;
  for (const simdjson::dom::element item : cases.cases()) {
    SCOPED_TRACE(std::string(std::string_view(item["name"])));
    Runner(cases, orders).run(item);
    ++count;
  }
  EXPECT_GE(count, 76u);
}

TEST(PortableKernels, MatchPyTorchContiguous) { run_all(Orders::kContiguous); }
TEST(PortableKernels, MatchPyTorchChannelsLast) { run_all(Orders::kChannelsLast); }
TEST(PortableKernels, MatchPyTorchChannelsLastToContiguous) { run_all(Orders::kMixed); }

// Every kernel of the table is in at least one case.
TEST(PortableKernels, AllHaveCases) {
  const Cases cases;
  std::map<std::string_view, int> seen;
  for (const simdjson::dom::element item : cases.cases()) ++seen[item["kernel"]];
  for (const runtime::Kernel& kernel : runtime::portable::kernels())
    EXPECT_GT(seen[kernel.name], 0) << kernel.name;
  EXPECT_TRUE(std::ranges::is_sorted(runtime::portable::kernels(), {}, &runtime::Kernel::name));
}

// Arguments that do not fit are refused before anything is read or written.
TEST(PortableKernels, RefuseWrongArguments) {
  using runtime::Error;
  for (const runtime::Kernel& kernel : runtime::portable::kernels()) {
    EXPECT_EQ(kernel.function({}), Error::kKernelArguments) << kernel.name;
    runtime::Value nothing;
    std::vector<runtime::Value*> arguments(10, &nothing);
    EXPECT_EQ(kernel.function(arguments), Error::kKernelArguments) << kernel.name;
  }
}

}  // namespace
}  // namespace dtr
