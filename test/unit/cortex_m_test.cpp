// Programs for a Cortex-M alone: each conformance case gives what the integer reference gives, and
// stays in int8 where the quantized graph is. A case runs with its calibration data, or with seeded
// noise where it has none.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/executors/executor.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/read_model.h"
#include "host/accuracy/compare.h"
#include "test/conformance/build.h"
#include "test/unit/test_files.h"

namespace dtr::test {
namespace {

size_t conversions(const Graph& graph) {
  size_t count = 0;
  for (const OpId op : graph.ops())
    count += graph.op(op).def == &ops::kQuantize || graph.op(op).def == &ops::kDequantize ? 1 : 0;
  return count;
}

// Operators of the quantized graph that were to run in int8 and run in float. Not those on masks,
// which are no numbers, nor a softmax under a mask, for which the Cortex-M has no kernel.
std::vector<std::string> fallen_back(const conformance::Built& built) {
  std::vector<std::string> names;
  if (conversions(built.compiled.module.forward()) <= conversions(built.compiled.quantized))
    return names;
  const Graph& placed = built.compiled.module.forward();
  for (const OpId id : placed.ops()) {
    const Op& op = placed.op(id);
    const auto quantized = [&](ValueId value) { return placed.type(value).quantized(); };
    const bool masks = placed.type(op.results[0]).dtype == DType::kBool ||
                       (op.def == &ops::kSoftmax && op.operands.size() > 1);
    if (op.def != &ops::kQuantize && op.def != &ops::kDequantize && !masks &&
        std::ranges::none_of(op.results, quantized))
      names.emplace_back(op.def->name);
  }
  return names;
}

struct Outcome {
  size_t models = 0, elements = 0;
  std::map<std::string, size_t> in_float;  // operator → times
};

void check(const std::filesystem::path& model, const std::vector<NamedTensor>* arrays,
           Outcome& outcome) {
  SCOPED_TRACE(model.string());
  auto program = read_model(model);
  if (!program && program.error().id == DiagnosticId::kTfliteInvalid)
    return;  // shapes that LiteRT does not run either
  ASSERT_TRUE(program) << to_text(program.error());
  const Graph signature = program->forward();
  const auto samples = arrays == nullptr ? Samples::random(signature, 1)
                                         : Samples::bind(signature, *arrays, "calibration.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto built = conformance::build(std::move(*program), &*samples, *find_target("cortex-m33"));
  ASSERT_TRUE(built) << to_text(built.error());
  const auto reference =
      make_reference_executor((*built)->compiled.module, (*built)->compiled.quantized);
  const auto wanted = reference->run(samples->inputs(0));
  const auto got = (*built)->session->run(samples->inputs(0));
  ASSERT_TRUE(wanted);
  ASSERT_TRUE(got) << to_text(got.error());
  for (size_t i = 0; i < wanted->size(); ++i) {
    Comparison comparison;
    comparison.add((*wanted)[i].view(), (*got)[i].view());
    EXPECT_LE(comparison.max_absolute(), comparison.largest_expected() * 0x1p-20)
        << "output " << i << ": " << comparison.different() << " of " << comparison.elements()
        << " elements differ, element " << comparison.index() << " is " << comparison.actual()
        << " instead of " << comparison.expected();
    outcome.elements += comparison.elements();
  }
  for (const std::string& name : fallen_back(**built)) ++outcome.in_float[name];
  ++outcome.models;
}

TEST(CortexM, ConformanceCases) {
  Outcome outcome;
  for (const auto& entry :
       std::filesystem::directory_iterator(conformance_cases("test_cortex_m"))) {
    if (!entry.is_directory()) continue;
    const std::vector<NamedTensor> arrays = read_arrays(entry.path() / "calibration.npz");
    if (std::filesystem::exists(entry.path() / "float.pt2"))
      check(entry.path() / "float.pt2", &arrays, outcome);
    for (const auto& file : std::filesystem::directory_iterator(entry.path()))
      if (file.path().extension() == ".tflite") check(file.path(), nullptr, outcome);
  }
  std::printf("%zu models, %zu elements equal\n", outcome.models, outcome.elements);
  for (const auto& [name, count] : outcome.in_float)
    std::printf("  in float: %s %zu times\n", name.c_str(), count);
  EXPECT_TRUE(outcome.in_float.empty());
}

// An activation that the NPU does not run, twice: with the Cortex-M's kernels nothing but the
// inputs and outputs is float.
TEST(CortexM, MixedNetStaysInt8) {
  std::vector<Tensor> wanted;
  SramUse sram[2];
  uint64_t bytes[2] = {};
  for (const size_t with : {size_t{0}, size_t{1}}) {
    auto program = read_model(source_path("test/data/mixed/squash_net.ir"));
    ASSERT_TRUE(program) << to_text(program.error());
    const Samples samples = Samples::random(program->forward(), 2);
    const auto built = conformance::build(std::move(*program), &samples,
                                          *find_target(with == 0 ? "imxrt700" : "imxrt700cm"));
    ASSERT_TRUE(built) << to_text(built.error());
    const CompileReport report = compile_report((*built)->compiled);
    sram[with] = report.sram;
    bytes[with] = report.program_bytes;
    const bool float_kernels = std::ranges::any_of(
        report.operators, [](const OperatorRow& row) { return row.kernel.starts_with("aten::"); });
    EXPECT_EQ(float_kernels, with == 0);
    const auto reference =
        make_reference_executor((*built)->compiled.module, (*built)->compiled.quantized);
    const auto expected = reference->run(samples.inputs(0));
    const auto got = (*built)->session->run(samples.inputs(0));
    ASSERT_TRUE(expected);
    ASSERT_TRUE(got) << to_text(got.error());
    EXPECT_TRUE(std::ranges::equal((*got)[0].bytes(), (*expected)[0].bytes()));
  }
  EXPECT_LT(sram[1].total_bytes * 3, sram[0].total_bytes);
  EXPECT_LT(bytes[1], bytes[0]);
}

class Models : public testing::TestWithParam<const char*> {};

// The NPU, a Cortex-M and both together give the same bytes.
TEST_P(Models, AreEqualOnEveryTarget) {
  const std::filesystem::path committed = source_path(std::string("models/") + GetParam());
  const std::filesystem::path folder = std::filesystem::exists(committed / "float.pt2")
                                           ? committed
                                           : shared_path(std::string("models/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "model is not there (DEUTERON_SHARED)";
  const auto arrays = read_arrays(folder / "calibration.npz");
  std::vector<std::vector<Tensor>> wanted;
  for (const char* target : {"imxrt700", "imxrt700cm", "cortex-m33", "cortex-m55"}) {
    SCOPED_TRACE(target);
    auto program = read_model(folder / "float.pt2");
    ASSERT_TRUE(program);
    const auto samples = Samples::bind(program->forward(), arrays, "calibration.npz");
    ASSERT_TRUE(samples);
    const auto built = conformance::build(std::move(*program), &*samples, *find_target(target));
    ASSERT_TRUE(built) << to_text(built.error());
    EXPECT_TRUE(fallen_back(**built).empty());
    for (size_t i = 0; i < std::min<size_t>(samples->size(), 3); ++i) {
      auto outputs = (*built)->session->run(samples->inputs(i));
      ASSERT_TRUE(outputs) << to_text(outputs.error());
      if (wanted.size() <= i) wanted.push_back(std::move(*outputs));
      for (size_t k = 0; k < outputs->size(); ++k)
        EXPECT_TRUE(std::ranges::equal((*outputs)[k].bytes(), wanted[i][k].bytes()));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Models,
                         testing::Values("ad_fcae", "digits_cnn", "digits_transformer",
                                         "ic_resnet8", "kws_dscnn", "vww_mobilenetv1"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace dtr::test
