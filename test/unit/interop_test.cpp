// Programs that ExecuTorch's exporter wrote, against what its runtime computed
// (test/interop/make_data.py): integer tensors equal, float ones within 2^-20 of the largest
// magnitude.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "compiler/ir/npz.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/program/describe.h"
#include "compiler/support/output_file.h"
#include "device/pte/flat_tensor_generated.h"
#include "device/pte/manifest.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "host/session/session.h"
#include "test/conformance/build.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

constexpr double kLimit = 0x1p-20;
constexpr const char* kWithTensorFile = "conv_097";

struct Case {
  std::vector<std::byte> program, tensors;
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
    if (what == "program" || what == "tensors") {
      (what == "program" ? entry.program : entry.tensors)
          .assign(array.tensor.bytes().begin(), array.tensor.bytes().end());
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
    apart = std::max(apart, std::abs(static_cast<double>(got.values<float>()[i]) -
                                     static_cast<double>(expected[i])));
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
    for (size_t i = 0; i < outputs->size(); ++i)
      worst = std::max(worst, difference((*outputs)[i], sample_bytes(entry.outputs[i], sample)));
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

// A program with its constants in a tensor file, and that file, in a folder of their own.
class WithTensorFile : public testing::Test {
 protected:
  void SetUp() override {
    auto cases = read_cases("upstream_tensor_file.npz");
    ASSERT_EQ(cases.size(), 1u);
    case_ = std::move(cases.begin()->second);
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(write_file(program_, case_.program));
    ASSERT_TRUE(write_file(tensors_, case_.tensors));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Case case_;
  std::string folder_ = testing::TempDir() + "with_tensor_file";
  std::string program_ = folder_ + "/m.pte", tensors_ = folder_ + "/m.ptd";
};

TEST_F(WithTensorFile, RunsAsOnExecuTorch) {
  const auto session = Session::open(program_, {tensors_});
  ASSERT_TRUE(session) << to_text(session.error());
  EXPECT_EQ(compare_outputs(**session, case_), 0);
  const auto file = PtdFile::open(tensors_);
  ASSERT_TRUE(file);
  EXPECT_EQ(describe_tensor_file(*file).substr(0, describe_tensor_file(*file).find('\n')),
            fmt::format("tensor file {}: {} entries", tensors_, file->file().count()));
}

TEST_F(WithTensorFile, NamesEveryTensorThatIsMissing) {
  const auto session = Session::open(program_);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().id, DiagnosticId::kConstantsMissing);
  const auto file = PtdFile::open(tensors_);
  ASSERT_TRUE(file);
  for (size_t i = 0; i < file->file().count(); ++i)
    EXPECT_NE(session.error().reason.find(
                  fmt::format("\n  tensor {}", file->file().entry(i).key()->str())),
              std::string::npos)
        << session.error().reason;
}

// Flipped and cut tensor files are refused or give other numbers; nothing outside of them is read
// (the sanitizers watch).
TEST_F(WithTensorFile, DamagedFilesAreRefusedOrRead) {
  const std::vector<std::byte> good = case_.tensors;
  const test::AlignedCopy copy(good);
  const auto pte_file = PteFile::parse(case_.program, "m.pte");
  ASSERT_TRUE(pte_file);
  const auto load = [&](std::span<const std::byte> bytes) {
    pte::TensorFile file;
    if (!pte::TensorFile::open(bytes, true, &file).ok()) return false;
    const runtime::LoadOptions options{.kernels = runtime::portable::kernels(),
                                       .tensor_files = std::span<const pte::TensorFile>(&file, 1)};
    runtime::Program program;
    return runtime::Program::load(pte_file->bytes(), options, &program).ok();
  };
  EXPECT_TRUE(load(copy.bytes()));
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    copy.bytes()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    refused += load(copy.bytes()) ? 0 : 1;
    copy.bytes()[bit / 8] = good[bit / 8];
  }
  EXPECT_GT(refused, 1000u);
  for (size_t size = 0; size < good.size(); ++size) {
    const test::AlignedCopy cut(std::span<const std::byte>(good).first(size));
    EXPECT_FALSE(load(cut.bytes())) << size;
  }
  ASSERT_TRUE(write_file(tensors_, case_.program));
  const auto session = Session::open(program_, {tensors_});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().id, DiagnosticId::kPtdInvalid);
  EXPECT_EQ(session.error().reason, "the bytes are not a tensor file");
  ASSERT_TRUE(write_file(tensors_, std::span<const std::byte>(good).first(good.size() - 1)));
  EXPECT_EQ(test::error_text(Session::open(program_, {tensors_})),
            "error[ptd-invalid]: " + tensors_ +
                ": the tensor file is shorter than its header says\n  fix: copy the file again");
}

std::string model_of(const std::string& name) {
  for (const std::string folder : {"models/", "test/data/conformance/"})
    for (const std::string file : {"quantized.pt2", "qat.pt2", "float.pt2"})
      if (const auto path = test::source_path(fmt::format("{}{}/{}", folder, name, file));
          std::filesystem::exists(path))
        return path.string();
  return {};
}

TEST(Interop, ExecuTorchsConformanceCasesRunHere) { run_all("upstream_cases.npz", 100); }
TEST(Interop, ExecuTorchsModelsRunHere) { run_all("upstream_models.npz", 3); }

std::set<std::string> executorch_kernels() {
  return {
#define DTR_EXECUTORCH_KERNEL(name) name,
#include "compiler/backends/portable/executorch_kernels.inc"
#undef DTR_EXECUTORCH_KERNEL
  };
}

// compiler/backends/portable/executorch.cpp says for each of these how to do without, refuses the
// operator, or no program of ours calls the kernel. A new one needs the first or the second; then
// it belongs into this list.
TEST(Interop, KernelsThatOnlyDeuteronHas) {
  const std::set<std::string> known = executorch_kernels();
  std::vector<std::string_view> ours;
  for (const runtime::Kernel& kernel : runtime::portable::kernels())
    if (!known.contains(std::string(kernel.name))) ours.push_back(kernel.name);
  EXPECT_EQ(ours, (std::vector<std::string_view>{"aten::adaptive_max_pool2d.out",
                                                 "aten::hardshrink.out",
                                                 "aten::hardsigmoid.out",
                                                 "aten::hardswish.out",
                                                 "aten::log_sigmoid.out",
                                                 "aten::matmul.out",
                                                 "aten::mish.out",
                                                 "aten::prelu.out",
                                                 "aten::rms_norm.out",
                                                 "aten::silu.out",
                                                 "aten::softplus.out",
                                                 "aten::softshrink.out",
                                                 "aten::threshold.out",
                                                 "aten::upsample_bilinear2d.out",
                                                 "aten::upsample_nearest2d.out",
                                                 "deuteron::detection_postprocess.out",
                                                 "deuteron::lookup.out",
                                                 "deuteron::masked_softmax.out",
                                                 "deuteron::non_max_suppression.out",
                                                 "deuteron::softsign.out"}));
}

// Bits spread over a program of a model, one flipped at a time. ExecuTorch's runtime, given such
// programs of its own exporter, aborts on 31 of 1,000, faults on 3 and returns other results
// without an error on 197.
TEST(Interop, FlippedBitsOfAModelAreFound) {
  constexpr size_t kFlips = 1000;
  auto program = read_model(model_of("digits_cnn"));
  ASSERT_TRUE(program);
  const auto built = conformance::build(std::move(*program), nullptr, *find_target("executorch"));
  ASSERT_TRUE(built) << to_text(built.error());
  const std::vector<std::byte>& good = (*built)->compiled.written.bytes;
  const test::AlignedCopy bytes(good);
  size_t refused = 0;
  for (size_t i = 0; i < kFlips; ++i) {
    const size_t bit = i * good.size() * 8 / kFlips + i % 8;
    bytes.bytes()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    runtime::Program loaded;
    refused +=
        runtime::Program::load(bytes.bytes(), {.kernels = runtime::portable::kernels()}, &loaded)
                .ok()
            ? 0
            : 1;
    bytes.bytes()[bit / 8] = good[bit / 8];
  }
  EXPECT_EQ(refused, kFlips);
}

Result<std::unique_ptr<conformance::Built>> build_with_tensor_file(const std::string& name,
                                                                   std::string_view target) {
  DTR_ASSIGN(Module program, read_model(model_of(name)));
  return conformance::build(std::move(program), nullptr,
                            {.target = find_target(target), .external_constants = true});
}

// Every bit of a tensor file of ours is under its checksum, or under the checks of its structure.
TEST(Interop, FlippedBitsOfATensorFileAreFound) {
  const auto built = build_with_tensor_file(kWithTensorFile, "cortex-m33");
  ASSERT_TRUE(built) << to_text(built.error());
  const std::vector<std::byte>& good = (*built)->compiled.written.tensor_file;
  const test::AlignedCopy copy(good);
  pte::TensorFile file;
  ASSERT_TRUE(pte::TensorFile::open(copy.bytes(), true, &file).ok());
  EXPECT_GT(file.count(), 3u);
  size_t by_checksum = 0;
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    copy.bytes()[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const pte::Status status = pte::TensorFile::open(copy.bytes(), true, &file);
    by_checksum += status.error == pte::Error::kBadChecksum ? 1 : 0;
    if (status.ok()) {
      EXPECT_EQ(file.find(pte::kChecksumKey), nullptr)
          << "bit " << bit;  // of that key: every tensor is as it was
    }
    copy.bytes()[bit / 8] = good[bit / 8];
  }
  EXPECT_GE(by_checksum, 8 * compile_report((*built)->compiled).external_bytes);
  EXPECT_TRUE(pte::TensorFile::open(copy.bytes(), true, &file).ok());
  copy.bytes()[good.size() - 20] ^= std::byte{1};
  EXPECT_TRUE(pte::TensorFile::open(copy.bytes(), false, &file).ok());
}

// The key of a tensor carries a hash of it: with the file of another model's weights each is
// missing.
TEST(Interop, WeightsOfAnotherModelAreNotTaken) {
  const auto built = build_with_tensor_file(kWithTensorFile, "cortex-m33");
  const auto other = build_with_tensor_file("digits_cnn", "cortex-m33");
  ASSERT_TRUE(built && other);
  const auto session =
      Session::load((*built)->compiled.pte(), "m.pte", simulator::best_kernel_set(),
                    (*other)->compiled.tensor_file());
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().id, DiagnosticId::kConstantsMissing);
  EXPECT_NE(session.error().reason.find("\n  tensor constant."), std::string::npos)
      << session.error().reason;
  EXPECT_EQ(session.error().fix,
            "give the tensor file (.ptd) that was written with the program: --tensors FILE.ptd");
}

// Deuteron's programs for ExecuTorch's runtime, compiled anew, against what that runtime computed
// with them; with their constants in a tensor file they compute the same.
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
    const CompileReport report = compile_report((*built)->compiled);
    for (const OperatorRow& row : report.operators)
      EXPECT_TRUE(known.contains(row.kernel)) << row.kernel;
    const double apart = compare_outputs(*(*built)->session, entry);
    exact += apart == 0 ? 1 : 0;
    const auto split = build_with_tensor_file(name, "executorch");
    ASSERT_TRUE(split) << to_text(split.error());
    EXPECT_EQ(compare_outputs(*(*split)->session, entry), apart);
    const CompileReport of_split = compile_report((*split)->compiled);
    EXPECT_EQ(of_split.flash_bytes, of_split.external_bytes);
  }
  std::cout << "ours.npz: " << exact << " of " << cases.size() << " bit for bit\n";
}

}  // namespace
}  // namespace dtr
