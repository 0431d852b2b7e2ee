// The Neutron IR of NPU partitions: what it computes, by LiteRT and by the integer reference, and
// the payloads that a converter makes of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "compiler/backends/neutron_ir/payload.h"
#include "compiler/pipeline/read_model.h"
#include "device/numerics/crc32.h"
#include "device/pte/program_generated.h"
#include "test/conformance/build.h"
#include "test/conformance/neutron_ir.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using conformance::NeutronIrCase;

// Of the full set where it is, and the repository's own.
std::vector<std::filesystem::path> conformance_folders() {
  std::map<std::string, std::filesystem::path> folders;
  for (const std::filesystem::path& set :
       {test::source_path("test/data/conformance"), test::conformance_cases("test_neutron_ir")})
    for (const auto& entry : std::filesystem::directory_iterator(set))
      if (std::filesystem::exists(entry.path() / "float.pt2") &&
          std::filesystem::exists(entry.path() / "calibration.npz"))
        folders.emplace(entry.path().filename(), entry.path());
  std::vector<std::filesystem::path> list;
  for (const auto& [name, folder] : folders) list.push_back(folder);
  return list;
}

// What TensorFlow Lite rounds in another way than the graph says, by one step at most; and its SUM,
// which is one of bytes (docs/numerics.md).
const std::set<std::string> kOneStep{"FULLY_CONNECTED", "LEAKY_RELU", "RESIZE_BILINEAR", "SQRT"};

int distance(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  int most = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto left = a[i].tensor.values<int8_t>(), right = b[i].tensor.values<int8_t>();
    EXPECT_EQ(left.size(), right.size());
    for (size_t k = 0; k < std::min(left.size(), right.size()); ++k)
      most = std::max(most, std::abs(left[k] - right[k]));
  }
  return most;
}

// Float models, quantized as Deuteron does, of all conformance cases that there are.
TEST(NeutronIr, ComputesWhatTheGraphSays) {
  size_t partitions = 0, exact = 0, one_step = 0, sums = 0;
  for (const std::filesystem::path& folder : conformance_folders()) {
    SCOPED_TRACE(folder.filename());
    const std::string model = folder / "float.pt2", data = folder / "calibration.npz";
    const auto program = read_model(model);
    ASSERT_TRUE(program);
    const auto arrays = read_tensors(data);
    ASSERT_TRUE(arrays);
    const auto samples = Samples::bind(program->forward(), *arrays, data);
    ASSERT_TRUE(samples);
    const auto cases = conformance::neutron_ir_cases(model, &*samples);
    ASSERT_TRUE(cases) << to_text(cases.error());
    for (const NeutronIrCase& made : *cases) {
      ++partitions;
      const int apart = distance(made.read_back, made.outputs);
      const auto has = [&](const std::string& op) {
        return std::ranges::find(made.operators, op) != made.operators.end();
      };
      if (apart == 0) {
        ++exact;
      } else if (has("SUM")) {
        ++sums;
      } else {
        EXPECT_LE(apart, made.operators.size())
            << fmt::format("{}", fmt::join(made.operators, ", "));
        EXPECT_TRUE(std::ranges::any_of(kOneStep, has))
            << fmt::format("{}", fmt::join(made.operators, ", "));
        ++one_step;
      }
    }
  }
  std::cout << fmt::format(
      "{} partitions: {} bit for bit, {} within a step or two, {} with sums of bytes\n", partitions,
      exact, one_step, sums);
  EXPECT_GT(exact, partitions * 8 / 10);
}

// LiteRT's outputs for the quantized models of the repository (test/interop/neutron_ir.py): the
// files are the same, and what the reference makes of them is what LiteRT does.
TEST(NeutronIr, IsWhatLiteRtComputed) {
  const auto stored = read_npz(test::source_path("test/data/neutron_ir.npz").string());
  ASSERT_TRUE(stored) << to_text(stored.error());
  std::map<std::string, const Tensor*> arrays;
  for (const NamedTensor& array : *stored) arrays[array.name] = &array.tensor;
  size_t partitions = 0;
  for (const auto& [name, array] : arrays) {
    if (!name.ends_with(".model")) continue;
    SCOPED_TRACE(name);
    const auto cases = conformance::neutron_ir_cases(
        test::source_path(name.substr(0, name.size() - 6)).string(), nullptr);
    ASSERT_TRUE(cases) << to_text(cases.error());
    ASSERT_EQ(static_cast<int64_t>(cases->size()), array->elements());
    for (size_t i = 0; i < cases->size(); ++i, ++partitions) {
      EXPECT_EQ(crc32((*cases)[i].model), static_cast<uint32_t>(array->values<int64_t>()[i]))
          << "make the data anew: test/interop/neutron_ir.py";
      for (size_t k = 0; k < (*cases)[i].read_back.size(); ++k) {
        const auto found =
            arrays.find(fmt::format("{}.{}.{}", name.substr(0, name.size() - 6), i, k));
        ASSERT_NE(found, arrays.end());
        EXPECT_TRUE(
            std::ranges::equal((*cases)[i].read_back[k].tensor.bytes(), found->second->bytes()))
            << "partition " << i;
      }
    }
  }
  std::cout << fmt::format("{} partitions as LiteRT computes them\n", partitions);
  EXPECT_GE(partitions, 30u);
}

// The stand-in keeps the model that it is given as the weights.
TEST(NeutronIr, PayloadsHaveTheConvertersParts) {
  for (const bool profile : {false, true}) {
    CompileSettings settings{.target = find_target("imxrt700"), .weigh_costs = false};
    settings.backend.converter.command = std::string(DTR_STAND_IN) + (profile ? " profile" : "");
    const auto compiled =
        compile_model(test::source_path("models/digits_cnn/quantized.pt2").string(), settings);
    ASSERT_TRUE(compiled) << to_text(compiled.error());
    const auto pte_file = PteFile::parse(compiled->pte(), "m.pte");
    ASSERT_TRUE(pte_file);
    const pte::ExecutionPlan& plan = *pte_file->file().program().execution_plan()->Get(0);
    for (const pte::Instruction* instruction : *plan.chains()->Get(0)->instructions()) {
      const pte::DelegateCall* call = instruction->instr_args_as_DelegateCall();
      if (call == nullptr) continue;
      const pte::BackendDelegate& delegate =
          *plan.delegates()->Get(static_cast<uint32_t>(call->delegate_index()));
      EXPECT_EQ(delegate.id()->str(), kNeutronDelegateId);
      const std::span<const std::byte> bytes = pte_file->file().payload(delegate);
      const auto payload = parse_neutron_payload(bytes);
      ASSERT_TRUE(payload) << to_text(payload.error());
      EXPECT_EQ(payload->version, profile ? 1 : 0);
      // Arguments are inputs and outputs alone: the driver's scratch is not planned.
      EXPECT_EQ(call->args()->size(), payload->inputs.size() + payload->outputs.size());
      for (size_t i = 0; i < payload->inputs.size(); ++i) EXPECT_EQ(payload->inputs[i].argument, i);
      const size_t header = 4 + 2 * (payload->inputs.size() + payload->outputs.size());
      EXPECT_EQ(static_cast<size_t>(payload->microcode.data() - bytes.data()),
                (header + 15) / 16 * 16);
      EXPECT_EQ((payload->weights.data() - bytes.data()) % 16, 0);
      EXPECT_EQ((payload->kernels.data() - bytes.data()) % 16, 0);
      EXPECT_EQ(payload->kernels[2], std::byte{3});
      EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(payload->weights.data()) + 4, 4),
                "TFL3");
      // As NXP's runtime checks them: the flag of channels-last goes with more than one channel and
      // that dimension order.
      for (size_t i = 0; i < payload->inputs.size() + payload->outputs.size(); ++i) {
        const bool input = i < payload->inputs.size();
        const bool flag = input ? payload->inputs[i].channels_last
                                : payload->outputs[i - payload->inputs.size()].channels_last;
        const pte::Tensor& tensor =
            *plan.values()
                 ->Get(static_cast<uint32_t>(call->args()->Get(static_cast<uint32_t>(i))))
                 ->val_as_Tensor();
        const bool ordered = tensor.dim_order()->size() == 4 && tensor.dim_order()->Get(1) == 2;
        EXPECT_EQ(flag, ordered) << i;
        if (flag) {
          EXPECT_NE(tensor.sizes()->Get(1), 1) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtr
