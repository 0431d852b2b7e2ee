// Shares of the outputs' error, against leaving one operator after the other in float.
#include "host/accuracy/error_shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/executors/executor.h"
#include "compiler/ir/parser.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/compile.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/quantization_report.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using Values = std::map<ValueId, Tensor>;

Tensor copy(const TensorView& view) {
  return Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()});
}

// The judge: the float graph with each result rounded to its codes, in float, and with the weights
// of the codes; but one operator with its float weights and without rounding.
class LeaveOneFloat {
 public:
  LeaveOneFloat(const Compilation& c)
      : module_(c.module),
        real_(c.conversion->float_graph),
        codes_(float_counterpart(c.quantized)),
        quantized_(c.quantized) {
    for (const OpId op : quantized_.ops())
      if (quantized_.op(op).def == &ops::kQuantize)
        input_types_[quantized_.op(op).operands[0]] = quantized_.type(quantized_.op(op).results[0]);
  }

  Tensor run(const std::vector<TensorView>& inputs, OpId left_out, bool rounds = true) const {
    Values values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId input = codes_.inputs()[i];
      values[input] = copy(inputs[i]);
      if (rounds && input_types_.contains(input)) round(values[input], input_types_.at(input));
    }
    for (const OpId id : codes_.ops()) {
      const bool is_weight = codes_.op(id).def == &ops::kDequantize;
      const Graph& graph = !is_weight && (id == left_out || !rounds) ? real_ : codes_;
      const Op& op = graph.op(id);
      std::vector<TensorView> operands, results;
      for (const ValueId operand : op.operands) operands.push_back(view(graph, operand, values));
      for (const ValueId result : op.results)
        results.push_back(
            (values[result] = Tensor(graph.type(result).dtype, graph.type(result).shape)).view());
      reference_evaluation(graph, id)(BoundOpView(graph, id), operands, results);
      // What moves elements of codes moves those of an operator in float as they are.
      if (is_weight || id == left_out || !rounds || op.def->has_trait(kMovesData)) continue;
      for (const ValueId result : op.results)
        if (result.index < quantized_.value_slots() && quantized_.type(result).quantized())
          round(values[result], quantized_.type(result));
    }
    return std::move(values.at(codes_.outputs()[0]));
  }

  const Graph& ops() const { return codes_; }

 private:
  TensorView view(const Graph& graph, ValueId value, const Values& values) const {
    if (!value.valid()) return {};
    if (!graph.is_constant(value)) return values.at(value).view();
    const Value& constant = graph.value(value);  // read only
    return {constant.type.dtype, constant.type.shape,
            const_cast<std::byte*>(module_.constants.bytes(constant.constant).data())};
  }
  static void round(Tensor& tensor, const Type& type) {
    const Quantization& q = *type.quantization;
    for (float& x : tensor.values<float>())
      x = q.scale() * std::clamp(std::nearbyint(x / q.scale()),
                                 static_cast<float>(q.qmin - q.zero_point()),
                                 static_cast<float>(q.qmax - q.zero_point()));
  }

  const Module& module_;
  const Graph& real_;
  const Graph codes_;
  const Graph& quantized_;
  std::map<ValueId, Type> input_types_;
};

// Of every second sample, from `first` on.
double error(const std::vector<Tensor>& wanted, const std::vector<Tensor>& given, size_t first) {
  double sum = 0;
  for (size_t s = first; s < wanted.size(); s += 2)
    for (size_t i = 0; i < wanted[s].values<float>().size(); ++i)
      sum += std::pow(static_cast<double>(wanted[s].values<float>()[i]) -
                          static_cast<double>(given[s].values<float>()[i]),
                      2);
  return sum;
}

struct Net {
  const char* model;
  const char* data;
  // Whether errors are small enough, or the net linear enough, that what its operators remove adds
  // up. Elsewhere the operator to blame is the same, and no more can be asked.
  bool is_additive;
};
void PrintTo(const Net& net, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << net.model;
}
class ErrorSharesOf : public testing::TestWithParam<Net> {};

TEST_P(ErrorSharesOf, AreWhatLeavingTheOperatorInFloatRemoves) {
  const auto compiled =
      quantize_model(test::source_path(GetParam().model).string(),
                     {.target = find_target("imxrt700"),
                      .samples = SampleFile{test::source_path(GetParam().data).string()}});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  auto arrays = read_npz(test::source_path(GetParam().data).string());
  ASSERT_TRUE(arrays);
  for (NamedTensor& array : *arrays)
    if (array.name == "test") std::swap(array.name, arrays->front().name);
  const auto bound = Samples::bind(compiled->as_read, *arrays, GetParam().data);
  ASSERT_TRUE(bound) << to_text(bound.error());
  const Samples& samples = *bound;
  const size_t count = samples.size();
  const auto shares = share_errors(compiled->module, compiled->conversion->float_graph,
                                   compiled->quantized, samples, count, 2);
  ASSERT_TRUE(shares) << to_text(shares.error());
  ASSERT_EQ(shares->samples, count);
  double all = 0;
  for (const auto& [op, share] : shares->share) all += share;
  EXPECT_NEAR(all, 1, 1e-6);
  const auto one = share_errors(compiled->module, compiled->conversion->float_graph,
                                compiled->quantized, samples, count, 1);
  EXPECT_EQ(one->share, shares->share);  // whatever the number of threads

  const LeaveOneFloat judge(*compiled);
  const auto outputs = [&](OpId left_out, bool rounds) {
    std::vector<Tensor> made;
    for (size_t i = 0; i < count; ++i)
      made.push_back(judge.run(samples.inputs(i), left_out, rounds));
    return made;
  };
  const std::vector<Tensor> wanted = outputs({}, false);
  const std::vector<Tensor> all_rounded = outputs({}, true);
  const auto removed_of = [&](const std::vector<Tensor>& without, size_t half) {
    return 1 - error(wanted, without, half) / error(wanted, all_rounded, half);
  };
  double most = -1;
  OpId worst, worst_by_share;
  for (const OpId id : judge.ops().ops()) {
    const auto share = shares->share.find(id);
    if (share == shares->share.end()) continue;
    const std::vector<Tensor> without = outputs(id, true);
    const double removed = (removed_of(without, 0) + removed_of(without, 1)) / 2;
    // Rounding behind the operator changes with its result, which scatters what is removed: two
    // halves of the samples tell by how much.
    const double scatter = std::abs(removed_of(without, 0) - removed_of(without, 1));
    if (GetParam().is_additive) {
      EXPECT_NEAR(share->second, removed, 0.15 + scatter)
          << compiled->quantized.value(compiled->quantized.op(id).results[0]).name;
    }
    if (removed > most) most = removed, worst = id;
    if (!worst_by_share.valid() || share->second > shares->share.at(worst_by_share))
      worst_by_share = id;
  }
  EXPECT_EQ(worst, worst_by_share);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, ErrorSharesOf,
    testing::Values(
        Net{"models/digits_cnn/float.pt2", "models/digits_cnn/calibration.npz", true},
        Net{"test/data/accuracy/depthwise.pt2", "test/data/accuracy/depthwise.npz", false},
        Net{"test/data/accuracy/regression.pt2", "test/data/accuracy/regression.npz", true},
        Net{"test/data/accuracy/mobilenet_v3.pt2", "test/data/accuracy/mobilenet_v3.npz", false}));

// The codes of q are .5 apart: they round 1.2 to 1 and 2.6 to 2.5. Those of r end at 1.275.
TEST(ErrorShares, FollowTheErrorThroughTheGraph) {
  Result<Module> module = parse_module(R"(graph @forward(%x: f32[2]) {
  %q: i8[2] quant<0.5> = quantize(%x)
  %r: i8[2] quant<0.005:-128> = aten.relu(%q)
  %y: f32[2] = dequantize(%r)
  return %y
}
)",
                                       "test.ir");
  ASSERT_TRUE(module) << to_text(module.error());
  const Graph& graph = module->forward();
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, {1, 2})});
  arrays[0].tensor.values<float>()[0] = 1.2F;
  arrays[0].tensor.values<float>()[1] = 2.6F;
  const auto samples = Samples::bind(graph, arrays, "x.npz");
  ASSERT_TRUE(samples);
  const auto shares = share_errors(*module, float_counterpart(graph), graph, *samples, 8);
  ASSERT_TRUE(shares) << to_text(shares.error());
  EXPECT_EQ(shares->samples, 1U);
  // Steps of the input: (−.2, −.1), of relu: (0, −1.225); their sum is the error (−.2, −1.325).
  const double error = 0.04 + 1.325 * 1.325;
  const OpId quantize = graph.first_op();
  EXPECT_NEAR(shares->share.at(quantize), (0.04 + 0.1 * 1.325) / error, 1e-5);
  EXPECT_NEAR(shares->share.at(graph.op(quantize).next), 1.225 * 1.325 / error, 1e-5);
}

}  // namespace
}  // namespace dtr
