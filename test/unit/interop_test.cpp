// Programs that ExecuTorch's exporter wrote, against what its runtime computed (test/interop/make_data.py): integer tensors equal, float
// ones within 2^-20 of the largest magnitude.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

#include "compiler/session.h"
#include "ir/npz.h"
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

void run_all(const std::string& file, size_t at_least) {
  const std::map<std::string, Case> cases = read_cases(file);
  EXPECT_GE(cases.size(), at_least);
  size_t exact = 0;
  for (const auto& [name, entry] : cases) {
    SCOPED_TRACE(name);
    const auto session = Session::load(entry.program, name);
    ASSERT_TRUE(session) << to_text(session.error());
    const Graph& signature = (*session)->signature();
    ASSERT_EQ(signature.inputs().size(), entry.inputs.size());
    double worst = 0;
    for (size_t sample = 0; sample < static_cast<size_t>(entry.inputs[0].shape()[0]); ++sample) {
      std::vector<TensorView> views;
      for (size_t i = 0; i < entry.inputs.size(); ++i) {
        const Type& type = signature.type(signature.inputs()[i]);
        const auto bytes = sample_bytes(entry.inputs[i], sample);
        ASSERT_EQ(bytes.size(), static_cast<size_t>(type.bytes()));
        views.push_back({type.dtype, type.shape, const_cast<std::byte*>(bytes.data())});
      }
      const auto outputs = (*session)->run(views);
      ASSERT_TRUE(outputs) << to_text(outputs.error());
      ASSERT_EQ(outputs->size(), entry.outputs.size());
      for (size_t i = 0; i < outputs->size(); ++i)
        worst = std::max(worst, difference((*outputs)[i], sample_bytes(entry.outputs[i], sample)));
    }
    EXPECT_LE(worst, kLimit);
    exact += worst == 0 ? 1 : 0;
  }
  std::cout << file << ": " << exact << " of " << cases.size() << " bit for bit\n";
}

TEST(Interop, ExecuTorchsConformanceCasesRunHere) { run_all("upstream_cases.npz", 100); }
TEST(Interop, ExecuTorchsModelsRunHere) { run_all("upstream_models.npz", 3); }

}  // namespace
}  // namespace dtr
