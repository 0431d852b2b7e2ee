// Programs that ExecuTorch's exporter wrote, against what its runtime computed (test/interop/make_data.py): integer tensors equal, float
// ones within 2^-20 of the largest magnitude.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "compiler/read_model.h"
#include "compiler/session.h"
#include "ir/npz.h"
#include "runtime/kernels/portable/kernels.h"
#include "test/conformance/build.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

constexpr double kLimit = 0x1p-20;

struct Case {
  std::vector<std::byte> program;
  std::vector<Tensor> inputs, outputs;  // [samples, …]
};

std::map<std::string, Case> read_cases(const std::string& file) {
  std::map<std::string, Case> cases;
  auto arrays = read_npz(test::source_path("test/data/interop/" + file).string());
  EXPECT_TRUE(arrays) << file;
  if (!arrays) return cases;
  for (NamedTensor& array : *arrays) {
    const size_t dot = array.name.rfind('.');
    Case& entry = cases[array.name.substr(0, dot)];
    const std::string what = array.name.substr(dot + 1);
    if (what == "program") {
      entry.program.assign(array.tensor.bytes().begin(), array.tensor.bytes().end());
    } else {
      (what.starts_with("input") ? entry.inputs : entry.outputs).push_back(std::move(array.tensor));
    }
  }
  return cases;
}

std::span<const std::byte> sample_bytes(const Tensor& stacked, size_t sample) {
  const size_t bytes = stacked.bytes().size() / static_cast<size_t>(stacked.shape()[0]);
  return stacked.bytes().subspan(sample * bytes, bytes);
}

// Of the largest magnitude; infinite where integers differ.
double difference(const Tensor& got, std::span<const std::byte> wanted) {
  EXPECT_EQ(got.bytes().size(), wanted.size());
  if (std::ranges::equal(got.bytes(), wanted)) return 0;
  if (got.dtype() != DType::kFloat32 || got.bytes().size() != wanted.size()) return INFINITY;
  const auto* expected = reinterpret_cast<const float*>(wanted.data());
  double largest = 0, apart = 0;
  for (size_t i = 0; i < got.values<float>().size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    apart = std::max(apart, std::abs(static_cast<double>(got.values<float>()[i]) - static_cast<double>(expected[i])));
  }
  return largest > 0 ? apart / largest : INFINITY;
}

// Largest difference over all samples.
double compare_outputs(Session& session, const Case& entry) {
  const Graph& signature = session.signature();
  EXPECT_EQ(signature.inputs().size(), entry.inputs.size());
  double worst = 0;
  for (size_t sample = 0; sample < static_cast<size_t>(entry.inputs[0].shape()[0]); ++sample) {
    std::vector<TensorView> views;
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      const Type& type = signature.type(signature.inputs()[i]);
      const auto bytes = sample_bytes(entry.inputs[i], sample);
      EXPECT_EQ(bytes.size(), static_cast<size_t>(type.bytes()));
      views.push_back({type.dtype, type.shape, const_cast<std::byte*>(bytes.data())});
    }
    const auto outputs = session.run(views);
    EXPECT_TRUE(outputs) << to_text(outputs.error());
    EXPECT_EQ(outputs->size(), entry.outputs.size());
    for (size_t i = 0; i < outputs->size(); ++i) worst = std::max(worst, difference((*outputs)[i], sample_bytes(entry.outputs[i], sample)));
  }
  EXPECT_LE(worst, kLimit);
  return worst;
}

void run_all(const std::string& file, size_t at_least) {
  const std::map<std::string, Case> cases = read_cases(file);
  EXPECT_GE(cases.size(), at_least);
  size_t exact = 0;
  for (const auto& [name, entry] : cases) {
    SCOPED_TRACE(name);
    const auto session = Session::load(entry.program, name);
    ASSERT_TRUE(session) << to_text(session.error());
    exact += compare_outputs(**session, entry) == 0 ? 1 : 0;
  }
  std::cout << file << ": " << exact << " of " << cases.size() << " bit for bit\n";
}

std::string model_of(const std::string& name) {
  for (const std::string folder : {"models/", "test/data/conformance/"})
    for (const std::string file : {"quantized.pt2", "qat.pt2", "float.pt2"})
      if (const auto path = test::source_path(folder + name + "/" + file); std::filesystem::exists(path)) return path.string();
  return {};
}

TEST(Interop, ExecuTorchsConformanceCasesRunHere) { run_all("upstream_cases.npz", 100); }
TEST(Interop, ExecuTorchsModelsRunHere) { run_all("upstream_models.npz", 3); }

std::set<std::string> executorch_kernels() {
  std::set<std::string> known;
  std::ifstream list(test::source_path("test/data/interop/kernels.txt"));
  for (std::string line; std::getline(list, line);) known.insert(line);
  return known;
}

// backends/portable/executorch.cpp says for each of these how to do without, or that ExecuTorch cannot.
TEST(Interop, KernelsThatOnlyDeuteronHas) {
  const std::set<std::string> known = executorch_kernels();
  std::vector<std::string_view> ours;
  for (const runtime::Kernel& kernel : runtime::portable::kernels())
    if (!known.contains(std::string(kernel.name))) ours.push_back(kernel.name);
  EXPECT_EQ(ours,
            (std::vector<std::string_view>{"aten::adaptive_max_pool2d.out", "aten::hardshrink.out", "aten::hardsigmoid.out",
                                           "aten::hardswish.out", "aten::log_sigmoid.out", "aten::matmul.out", "aten::mish.out",
                                           "aten::prelu.out", "aten::rms_norm.out", "aten::silu.out", "aten::softplus.out",
                                           "aten::softshrink.out", "aten::threshold.out", "aten::upsample_bilinear2d.out",
                                           "aten::upsample_nearest2d.out", "deuteron::masked_softmax.out", "deuteron::softsign.out"}));
}

// Deuteron's programs for ExecuTorch's runtime, compiled anew, against what that runtime computed with them.
TEST(Interop, OursComputeWhatTheyDoOnExecuTorchsRuntime) {
  const std::map<std::string, Case> cases = read_cases("ours.npz");
  EXPECT_GE(cases.size(), 60u);
  const std::set<std::string> known = executorch_kernels();
  size_t exact = 0;
  for (const auto& [name, entry] : cases) {
    SCOPED_TRACE(name);
    auto program = read_model(model_of(name));
    ASSERT_TRUE(program) << to_text(program.error());
    const auto built = conformance::build(std::move(*program), nullptr, *find_target("executorch"));
    ASSERT_TRUE(built) << to_text(built.error());
    for (const OperatorRow& row : (*built)->compiled.report.operators) EXPECT_TRUE(known.contains(row.kernel)) << row.kernel;
    exact += compare_outputs(*(*built)->session, entry) == 0 ? 1 : 0;
  }
  std::cout << "ours.npz: " << exact << " of " << cases.size() << " bit for bit\n";
}

}  // namespace
}  // namespace dtr
