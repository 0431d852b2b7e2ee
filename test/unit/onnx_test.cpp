// The .onnx reader: what its graphs compute must be what ONNX Runtime, or the format's own tests,
// computed. A pack of cases (test/data/onnx/) is an .npz with NAME/model, the bytes of a file, and
// its NAME/in0, … and NAME/out0, …; a tolerance of
// its own in NAME/relative.
#include "compiler/frontends/onnx/onnx.h"
#include "compiler/ir/printer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "compiler/executors/executor.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

struct Case {
  const Tensor* model = nullptr;
  const Tensor* relative = nullptr;  // the tolerance of numbers that were computed in float16
  std::vector<const Tensor*> inputs, outputs;
};

// The cases of a pack by name.
std::map<std::string, Case> cases_of(const std::vector<NamedTensor>& arrays) {
  std::map<std::string, Case> cases;
  for (const NamedTensor& array : arrays) {
    const size_t slash = array.name.rfind('/');
    if (slash == std::string::npos) continue;
    Case& of = cases[array.name.substr(0, slash)];
    const std::string role = array.name.substr(slash + 1);
    if (role == "model" || role == "relative") {
      (role == "model" ? of.model : of.relative) = &array.tensor;
      continue;
    }
    const bool input = role.starts_with("in");
    std::vector<const Tensor*>& list = input ? of.inputs : of.outputs;
    const auto index = static_cast<size_t>(std::stoi(role.substr(input ? 2 : 3)));
    if (list.size() <= index) list.resize(index + 1);
    list[index] = &array.tensor;
  }
  return cases;
}

// How much a float may differ, relative to the greatest of the tensor (at least to `absolute`).
struct Rule {
  double relative = 0, absolute = 1;
  int codes = 0;
};

double number_at(const TensorView& view, size_t index) {
  switch (view.dtype) {
    case DType::kFloat32:
      return static_cast<double>(view.values<float>()[index]);
    case DType::kInt64:
      return static_cast<double>(view.values<int64_t>()[index]);
    case DType::kInt32:
      return view.values<int32_t>()[index];
    case DType::kInt16:
      return view.values<int16_t>()[index];
    case DType::kInt8:
      return view.values<int8_t>()[index];
    default:
      return view.values<uint8_t>()[index];
  }
}

// Empty if both agree, else what differs.
std::string difference(const TensorView& actual, const TensorView& wanted, const Rule& rule) {
  if (actual.dtype != wanted.dtype)
    return "it is " + std::string(name(actual.dtype)) + ", expected " +
           std::string(name(wanted.dtype));
  if (actual.shape != wanted.shape)
    return "its shape is " + to_string(actual.shape) + ", expected " + to_string(wanted.shape);
  const auto count = static_cast<size_t>(actual.elements());
  double greatest = rule.absolute;
  if (wanted.dtype == DType::kFloat32)
    for (const float y : wanted.values<float>())
      if (std::isfinite(y)) greatest = std::max(greatest, std::abs(static_cast<double>(y)));
  size_t different = 0, first = 0;
  for (size_t i = count; i-- > 0;) {
    const double x = number_at(actual, i), y = number_at(wanted, i);
    const bool real = wanted.dtype == DType::kFloat32;
    const bool bytes = wanted.dtype == DType::kInt8 || wanted.dtype == DType::kUint8;
    const double most = real ? rule.relative * greatest : bytes ? rule.codes : 0;
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= most) continue;
    ++different;
    first = i;
  }
  if (different == 0) return {};
  return std::to_string(different) + " of " + std::to_string(count) + " elements differ; element " +
         std::to_string(first) + " is " + std::to_string(number_at(actual, first)) + ", expected " +
         std::to_string(number_at(wanted, first));
}

struct Verdict {
  bool refused = false;
  std::string reason;  // empty: all outputs agree
};

Verdict judge(const std::string& name, const Case& of, const Rule& rule) {
  if (of.model == nullptr) return {.reason = "no model"};
  const auto import = onnx::import_onnx(of.model->bytes(), name + ".onnx");
  if (!import) return {.refused = true, .reason = import.error().reason};
  const Graph& graph = import->forward();
  if (graph.inputs().size() != of.inputs.size())
    return {.reason = "it has " + std::to_string(graph.inputs().size()) + " inputs"};
  std::vector<TensorView> views;
  for (size_t i = 0; i < of.inputs.size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i]);
    if (type.dtype != of.inputs[i]->dtype() || type.shape != of.inputs[i]->shape())
      return {.reason = "input " + std::to_string(i) + " is " + to_string(type.shape)};
    views.push_back(of.inputs[i]->view());
  }
  Rule of_case = rule;
  if (of.relative != nullptr)
    of_case.relative = static_cast<double>(of.relative->values<float>()[0]);
  const auto executor = make_reference_executor(*import, graph);
  const auto outputs = executor->run(views, {});
  if (!outputs) return {.reason = outputs.error().reason};
  if (outputs->size() != of.outputs.size())
    return {.reason = "it has " + std::to_string(outputs->size()) + " outputs"};
  for (size_t i = 0; i < outputs->size(); ++i)
    if (const std::string what = difference((*outputs)[i].view(), of.outputs[i]->view(), of_case);
        !what.empty())
      return {.reason = "output " + std::to_string(i) + ": " + what};
  return {};
}

constexpr Rule kRule{.relative = 0x1p-17, .codes = 1};

// Every case of a committed pack agrees; the number of cases is that of the pack.
size_t judge_pack(const std::filesystem::path& path) {
  const auto arrays = test::read_arrays(path);
  const auto cases = cases_of(arrays);
  for (const auto& [name, of] : cases) {
    const Verdict verdict = judge(name, of, kRule);
    EXPECT_TRUE(verdict.reason.empty()) << name << ": " << verdict.reason;
  }
  std::printf("%s: %zu cases\n", path.filename().c_str(), cases.size());
  return cases.size();
}

class OnnxPacks : public testing::TestWithParam<const char*> {};

TEST_P(OnnxPacks, EveryCaseAgrees) {
  const std::string name = GetParam();
  EXPECT_GT(judge_pack(test::source_path("test/data/onnx/" + name + ".npz")), 0u);
}
INSTANTIATE_TEST_SUITE_P(Committed, OnnxPacks, testing::Values("drawn", "nodes"),
                         [](const auto& instance) { return std::string(instance.param); });

// The same graph with the same constants, whenever those that only led to others are released: a
// released one that is read fails a check.
TEST_P(OnnxPacks, ReleasesChangeNoModel) {
  const auto arrays =
      test::read_arrays(test::source_path("test/data/onnx/" + std::string(GetParam()) + ".npz"));
  size_t smaller = 0;
  for (const auto& [name, of] : cases_of(arrays)) {
    SCOPED_TRACE(name);
    const auto kept = onnx::import_onnx(of.model->bytes(), name, {}, SIZE_MAX);
    const auto released = onnx::import_onnx(of.model->bytes(), name, {}, 0);
    ASSERT_TRUE(kept && released);
    EXPECT_EQ(print(*released), print(*kept));
    EXPECT_LE(released->constants.owned_bytes(), kept->constants.owned_bytes());
    smaller += released->constants.owned_bytes() < kept->constants.owned_bytes() ? 1 : 0;
  }
  EXPECT_GT(smaller, 10u);
}

// Any other pack: prints what is refused, and writes all verdicts to DEUTERON_ONNX_REPORT.
TEST(Onnx, EveryDrawnCaseAgrees) {
  const char* path = std::getenv("DEUTERON_ONNX_CASES");
  if (path == nullptr) GTEST_SKIP() << "no drawn cases (DEUTERON_ONNX_CASES)";
  const auto arrays = test::read_arrays(path);
  const auto cases = cases_of(arrays);
  const char* report = std::getenv("DEUTERON_ONNX_REPORT");
  std::ofstream file(report == nullptr ? "/dev/null" : report);
  size_t agree = 0, refused = 0;
  for (const auto& [name, of] : cases) {
    const Verdict verdict = judge(name, of, kRule);
    if (verdict.reason.empty()) {
      ++agree;
    } else if (verdict.refused) {
      ++refused;
    } else {
      ADD_FAILURE() << name << ": " << verdict.reason;
    }
    file << name << '\t'
         << (verdict.reason.empty() ? "agrees"
             : verdict.refused      ? "refused"
                                    : "differs")
         << '\t' << verdict.reason << '\n';
  }
  std::printf("%zu of %zu cases agree, %zu are refused\n", agree, cases.size(), refused);
}

}  // namespace
}  // namespace dtr
