// Programs whose constants lie in SRAM: they compute what those with constants in flash do, copy
// nothing, and must fit.
#include <gtest/gtest.h>

#include "compiler/ir/parser.h"
#include "compiler/ir/samples.h"
#include "compiler/pipeline/compile.h"
#include "device/pte/manifest.h"
#include "host/accuracy/check.h"
#include "host/session/session.h"
#include "test/unit/machine.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

struct Ran {
  CompileReport report;
  uint32_t manifest_flags = 0;
  std::vector<std::vector<Tensor>> outputs;  // by sample
  RunStats stats;
};

Result<Ran> compile_and_run(const std::string& model, const CompileSettings& settings) {
  DTR_ASSIGN(const Compilation compiled,
             compile_model(test::source_path("test/golden/" + model + ".ir").string(), settings));
  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::load(compiled.pte(), "test.pte", simulator::best_kernel_set(),
                           compiled.tensor_file()));
  Ran ran{.report = compile_report(compiled),
          .manifest_flags = session->pte_file().file().manifest()->flags};
  const Samples samples = Samples::random(session->signature(), 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    DTR_ASSIGN(std::vector<Tensor> outputs, session->run(samples.inputs(i), &ran.stats));
    ran.outputs.push_back(std::move(outputs));
  }
  return ran;
}

CompileSettings settings_for(const char* target, ConstantMemory constants,
                             NeutronSchedule schedule = NeutronSchedule::kOwn) {
  return {.target = find_target(target), .backend = {.constants = constants, .schedule = schedule}};
}

struct Case {
  const char* model;
  const char* target;
  NeutronSchedule schedule = NeutronSchedule::kOwn;
  bool external = false;
};
class ConstantsInSram : public testing::TestWithParam<Case> {};

TEST_P(ConstantsInSram, ComputeTheSameWithoutCopies) {
  const Case& test = GetParam();
  CompileSettings from_flash = settings_for(test.target, ConstantMemory::kFlash, test.schedule);
  CompileSettings from_sram = settings_for(test.target, ConstantMemory::kSram, test.schedule);
  from_flash.external_constants = from_sram.external_constants = test.external;
  const Result<Ran> flash = compile_and_run(test.model, from_flash),
                    sram = compile_and_run(test.model, from_sram);
  ASSERT_TRUE(flash) << to_text(flash.error());
  ASSERT_TRUE(sram) << to_text(sram.error());
  for (size_t sample = 0; sample < flash->outputs.size(); ++sample)
    for (size_t i = 0; i < flash->outputs[sample].size(); ++i) {
      const auto want = flash->outputs[sample][i].bytes(), got = sram->outputs[sample][i].bytes();
      EXPECT_TRUE(std::ranges::equal(want, got)) << "sample " << sample << ", output " << i;
    }
  EXPECT_EQ(sram->stats.copied_bytes, 0u);
  EXPECT_EQ(sram->stats.stall_cycles, 0u);
  EXPECT_EQ(sram->stats.host_cycles,
            sram->stats.npu_calls * uint64_t{test::machine().call_host_cycles});
  if (test.schedule == NeutronSchedule::kNxpLike) {
    // No call was split for its copy, so both have the same calls.
    EXPECT_EQ(sram->stats.npu_calls, flash->stats.npu_calls);
    EXPECT_EQ(sram->stats.busy_cycles, flash->stats.busy_cycles);
  }
  EXPECT_EQ(sram->manifest_flags & pte::kConstantsInSram, pte::kConstantsInSram);
  EXPECT_EQ(flash->manifest_flags & pte::kConstantsInSram, 0u);
  EXPECT_EQ(sram->report.sram.staging_bytes, 0u);
  if (!test.external) {
    EXPECT_EQ(sram->report.sram.program_bytes, sram->report.program_bytes);
  }
  EXPECT_GE(sram->report.sram.program_bytes, sram->report.flash_bytes);
  EXPECT_EQ(sram->report.sram.total_bytes,
            sram->report.sram.planned_bytes + sram->report.sram.program_bytes);
  EXPECT_EQ(flash->report.sram.program_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, ConstantsInSram,
    testing::Values(
        Case{"kws_dscnn", "imxrt700"}, Case{"kws_dscnn", "imxrt700", NeutronSchedule::kNxpLike},
        Case{"ic_resnet8", "imxrt700cm"}, Case{"ic_resnet8", "imxrt700", NeutronSchedule::kNxpLike},
        Case{"ad_fcae", "imxrt700"}, Case{"ad_fcae", "imxrt700", NeutronSchedule::kNxpLike},
        Case{"vww_mobilenetv1", "imxrt700"}, Case{"digits_cnn", "cortex-m33"},
        Case{"digits_cnn", "cortex-m33", NeutronSchedule::kOwn, true}),
    [](const auto& instance) {
      std::string name = std::string(instance.param.model) + "_" + instance.param.target +
                         (instance.param.schedule == NeutronSchedule::kNxpLike ? "_nxp" : "") +
                         (instance.param.external ? "_external" : "");
      std::ranges::replace(name, '-', '_');
      return name;
    });

// 2,000 x 4,000 weights in int8 are more than the 7 MiB of the target: in flash they are streamed,
// in SRAM they have no room.
TEST(ConstantsInSram, MustFit) {
  constexpr std::string_view kLarge = R"(graph @forward(%x: i8[1,4000] quant<0.05>) {
  %w: i8[2000,4000] quant<0.01> = constant seeded<1>
  %b: i32[2000] quant<bias> = constant seeded<2>
  %large: i8[1,2000] quant<0.05> = aten.linear(%x, %w, %b)
  %w2: i8[10,2000] quant<0.01> = constant seeded<3>
  %b2: i32[10] quant<bias> = constant seeded<4>
  %y: i8[1,10] quant<0.05> = aten.linear(%large, %w2, %b2)
  return %y
}
)";
  for (const ConstantMemory memory : {ConstantMemory::kFlash, ConstantMemory::kSram}) {
    Result<Module> module = parse_module(kLarge, "large.ir");
    ASSERT_TRUE(module) << to_text(module.error());
    const Result<Compilation> compiled =
        compile_model(std::move(*module), settings_for("imxrt700", memory));
    if (memory == ConstantMemory::kFlash) {
      EXPECT_TRUE(compiled) << to_text(compiled.error());
      continue;
    }
    ASSERT_FALSE(compiled);
    const Diagnostic& error = compiled.error();
    EXPECT_EQ(error.id, DiagnosticId::kMemoryExceeded);
    EXPECT_NE(error.reason.find("no program within 7,340,032 bytes of SRAM is found, which "
                                "imxrt700 has: with its constants in SRAM, the smallest takes 8,"),
              std::string::npos)
        << error.reason;
    EXPECT_NE(error.fix.find("--constants flash"), std::string::npos);
    EXPECT_EQ(error.place.node, "large");
  }
}

TEST(ConstantsInSram, AreWhereTheTargetHasThemUnlessAskedFor) {
  TargetDescription target = *find_target("imxrt700");
  EXPECT_EQ(constants_of(target, recipe_of(target)), ConstantMemory::kFlash);
  target.memory.constants = ConstantMemory::kSram;
  EXPECT_EQ(constants_of(target, recipe_of(target)), ConstantMemory::kSram);
  EXPECT_EQ(constants_of(target, recipe_of(target, {.constants = ConstantMemory::kFlash})),
            ConstantMemory::kFlash);
}

}  // namespace
}  // namespace dtr
