// Rows of machines: two clocks, and costs of the CPU in the cycles of the one that times are told
// in.
#include "compiler/targets/target.h"

#include <gtest/gtest.h>

#include "compiler/backends/portable/costs.h"
#include "compiler/backends/portable/kernels.h"
#include "compiler/backends/portable/portable.h"
#include "compiler/ir/parser.h"
#include "compiler/ops/ops.h"
#include "compiler/recipes/recipe.h"
#include "compiler/targets/target_file.h"

namespace dtr {
namespace {

TEST(Targets, CyclesOfTheCpuBecomeThoseOfTheProgramsClock) {
  for (const TargetDescription& target : all_targets()) {
    EXPECT_EQ(clock_hz(target), has_npu(target) ? target.npu.clock_hz : target.cpu.clock_hz)
        << target.name;
    const bool one_clock = clock_hz(target) == target.cpu.clock_hz;
    if (!one_clock) continue;
    EXPECT_EQ(from_cpu_cycles(target, 1'234'567'890'123), 1'234'567'890'123u) << target.name;
  }
  TargetDescription target = *find_target("test-4x4");  // 150 MHz, the CPU 75 MHz
  EXPECT_EQ(from_cpu_cycles(target, 7), 14u);
  target.cpu.clock_hz = 400'000'000;  // 3/8
  EXPECT_EQ(from_cpu_cycles(target, 8), 3u);
  EXPECT_EQ(from_cpu_cycles(target, 7), 2u);
  EXPECT_EQ(from_cpu_cycles(target, uint64_t{1} << 60), (uint64_t{1} << 60) / 8 * 3);
}

// Instructions at 75 MHz are twice as many cycles of 150 MHz, which is what the NPU's cycles are
// compared with.
TEST(Targets, CostsAreOfTheRow) {
  const auto program = parse_module(R"(graph @forward(%x: f32[2,5]) {
    %y: f32[2,5] = aten.relu(%x)
    return %y
  })");
  ASSERT_TRUE(program);
  const auto cost = [&](const TargetDescription& target) {
    return make_portable_backend(target)->cost(program->forward(), program->forward().first_op());
  };
  const auto counted = static_cast<uint64_t>(
      portable::instructions("aten.relu", {.result = 10, .operand = 10, .products = 0}));
  EXPECT_GT(counted, 10 * 9u);  // the kernel's loop has nine instructions
  EXPECT_EQ(cost(*find_target("imxrt700")), counted);
  EXPECT_EQ(cost(*find_target("test-4x4")), 2 * counted);
  TargetDescription slow = *find_target("imxrt700");
  slow.cpu.float_percent = 300;
  EXPECT_EQ(cost(slow), 3 * counted);
}

// What bench/float_kernels.py does not count would have an estimate of nothing.
TEST(Targets, EveryPortableKernelIsCounted) {
  for (const OpDef* op : all_ops()) {
    // Nobody knows what a plug-in's kernel costs.
    if (portable::find_row(op) == nullptr || op->name == "deuteron.custom") continue;
    EXPECT_TRUE(portable::is_counted(op->name)) << op->name;
  }
}

// Each element that is read takes more than nine instructions.
TEST(Targets, ReductionsCostWhatTheyRead) {
  const auto mean = [](int64_t operand) {
    return portable::instructions("aten.mean.dim",
                                  {.result = 10, .operand = operand, .products = 0});
  };
  EXPECT_GT(mean(400), mean(10) + 390 * 9);
}

// 2 x 3 outputs of 500 products each, of which one takes five instructions or more.
TEST(Targets, ProductsCostTheirNumber) {
  const auto program = parse_module(R"(graph @forward(%x: f32[2,500], %w: f32[3,500]) {
    %y: f32[2,3] = aten.linear(%x, %w)
    return %y
  })");
  ASSERT_TRUE(program);
  const Graph& graph = program->forward();
  EXPECT_GT(make_portable_backend(*find_target("imxrt700"))->cost(graph, graph.first_op()),
            2 * 3 * 500 * 5u);
}

// ---- Target files

// The text with one part replaced, which occurs in it.
std::string with(std::string text, std::string_view part, std::string_view replacement) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), replacement);
}
std::string file_of(std::string_view target) { return to_json(*find_target(target)); }
std::string own_file() { return with(file_of("test-4x4"), "test-4x4", "own-machine"); }

TEST(TargetFile, RowsComeBackByteForByte) {
  for (const TargetDescription& target : all_targets()) {
    const std::string text = to_json(target);
    const auto read = parse_target(text, "row.json");
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_EQ(*read, &target);
    const std::string renamed =
        with(text, json_quote(target.name), json_quote(std::string("my-") + target.name.data()));
    const auto own = parse_target(renamed, "own.json");
    ASSERT_TRUE(own) << to_text(own.error());
    EXPECT_NE(*own, &target);
    EXPECT_EQ(to_json(**own), renamed);
    EXPECT_EQ((*own)->npu, target.npu);
    EXPECT_EQ((*own)->memory.sram_bytes, target.memory.sram_bytes);
    EXPECT_TRUE((*own)->published.empty());
    EXPECT_TRUE(check_target_recipe(**own, "own.json"));
    EXPECT_EQ(parse_target(renamed, "again.json").value(), *own);  // stored once
  }
}

TEST(TargetFile, FieldsAreWhatTheySay) {
  const auto read = parse_target(own_file(), "own.json");
  ASSERT_TRUE(read) << to_text(read.error());
  const TargetDescription& own = **read;
  EXPECT_EQ(own.name, "own-machine");
  EXPECT_EQ(own.npu.pipelines, 4u);
  EXPECT_EQ(own.npu.max_reduction, 32767u);
  EXPECT_EQ(own.npu.copy_setup_cycles, 100u);
  EXPECT_EQ(own.npu.flash_bytes_per_16_cycles, 32u);
  EXPECT_EQ(own.npu.sram_bytes, 256u << 10);
  EXPECT_EQ(own.npu.clock_hz, 150'000'000u);
  EXPECT_EQ(own.cpu.core, cortex_m::Core::kDsp);
  EXPECT_EQ(own.cpu.clock_hz, 75'000'000u);
  EXPECT_EQ(own.cpu.float_percent, 100u);
  EXPECT_EQ(own.memory.sram_bytes, 256u << 10);
  EXPECT_EQ(own.memory.flash_bytes, 2u << 20);
  EXPECT_EQ(own.memory.constants, ConstantMemory::kFlash);
  ASSERT_EQ(own.recipe.size(), 3u);
  EXPECT_EQ(own.recipe[1], "cortex_m");
}

// Each end of each range is read, and the number beyond it is refused with field, value and range.
TEST(TargetFile, RangesOfNumbers) {
  struct Range {
    std::string_view object, field, now;
    uint64_t least, most;
    std::string_view text;
  };
  for (const auto& [object, field, now, least, most, text] : {
           Range{"npu", "pipelines", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "macs", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "max_reduction", "32767", 4, 65536, "from 1 to 65,536"},
           Range{"npu", "max_kernel", "2048", 1, 4096, "from 1 to 4,096"},
           Range{"npu", "accumulators", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "activation_port", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "weight_port", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "write_port", "4", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "call_npu_cycles", "48", 0, 1u << 24, "from 0 to 16,777,216"},
           Range{"npu", "call_host_cycles", "4000", 0, 1u << 24, "from 0 to 16,777,216"},
           Range{"npu", "copy_host_cycles", "200", 0, 1u << 24, "from 0 to 16,777,216"},
           Range{"npu", "copy_setup_cycles", "100", 0, 1u << 24, "from 0 to 16,777,216"},
           Range{"npu", "flash_bytes_per_16_cycles", "32", 1, 1024, "from 1 to 1,024"},
           Range{"npu", "clock_hz", "150000000", 1'000'000, 4'000'000'000,
                 "from 1,000,000 to 4,000,000,000"},
           Range{"cpu", "clock_hz", "75000000", 1'000'000, 4'000'000'000,
                 "from 1,000,000 to 4,000,000,000"},
           Range{"cpu", "float_percent", "100", 1, 1'000'000, "from 1 to 1,000,000"},
           Range{"memory", "sram_bytes", "262144", 1, 1u << 30, "for there is an NPU"},
           Range{"memory", "flash_bytes", "2097152", 0, 1ull << 32, "from 0 to 4,294,967,296"},
       }) {
    const auto file = [&, field = field, now = now](std::string_view value) {
      return with(own_file(), "\"" + std::string(field) + "\": " + std::string(now),
                  "\"" + std::string(field) + "\": " + std::string(value));
    };
    for (const uint64_t good : {least, most}) {
      const auto read = parse_target(file(std::to_string(good)), "own.json");
      EXPECT_TRUE(read) << field << " " << good << ": " << to_text(read.error());
    }
    std::vector<std::string> bad{std::to_string(most + 1),
                                 "1099511627776",
                                 "-1",
                                 "1.5",
                                 "1e3",
                                 "\"8\"",
                                 "null",
                                 "true",
                                 "[8]",
                                 "99999999999999999999999"};
    if (least > 0) bad.push_back(std::to_string(least - 1));
    for (const std::string& value : bad) {
      const auto read = parse_target(file(value), "own.json");
      ASSERT_FALSE(read) << field << " " << value;
      const std::string message = to_text(read.error());
      EXPECT_NE(message.find("error[target-invalid]: own.json: `" + std::string(object) + "." +
                             std::string(field) + "` is "),
                std::string::npos)
          << message;
      if (field == "max_reduction" && value == "3") continue;
      EXPECT_NE(message.find(text), std::string::npos) << message;
    }
  }
}

TEST(TargetFile, WhatIsWrongIsNamed) {
  struct Fault {
    std::string text;
    std::string_view message;
  };
  const std::string own = own_file();
  for (const auto& [text, message] : {
           Fault{"", "line 1"},
           Fault{"[]", "the target is []; it must be an object"},
           Fault{with(own, "150000000", "NaN"), "line 19"},
           Fault{with(own, "  \"npu\": {", "  \"cores\": 2, \"npu\": {"),
                 "the target has a field `cores` that targets do not have"},
           Fault{with(own, "\"macs\"", "\"mac\""), "`npu` has a field `mac`"},
           Fault{with(own, "    \"macs\": 4,\n", ""), "`npu` has no field `macs`"},
           Fault{with(own, "    \"core\": \"dsp\",\n", ""), "`cpu` has no field `core`"},
           Fault{with(own, "    \"macs\": 4,", "    \"macs\": 4, \"macs\": 8,"),
                 "`macs` occurs twice in its object"},
           Fault{with(own, "\"dsp\"", "\"avx\""), "`cpu.core` is \"avx\"; it must be \"dsp\""},
           Fault{with(own, "\"flash\"", "\"rom\""), "`memory.constants` is \"rom\""},
           Fault{with(own, "own-machine", ""), "`name` is \"\"; it must be a text of 1 to 31"},
           Fault{with(own, "own-machine", std::string(32, 'a')), "`name` is \"aaa"},
           Fault{with(own, "own-machine", "own machine"), "`name` is \"own machine\""},
           Fault{with(own, "Cortex-M33\"", "\\u001b[31m\""), "without control characters"},
           Fault{with(own, "32767", "3"), "`npu.max_reduction` is 3; it must be at least"},
           Fault{with(own, "[\"neutron\", \"cortex_m\", \"portable\"]", "[]"),
                 "`recipe` is []; it must be a list of 1 to 8 backends"},
           Fault{with(own, "\"npu\": {", "\"npu\": 7, \"x\": {"), "a field `x`"},
           Fault{with(file_of("test-4x4"), ": 48,", ": 49,"),
                 "`name` is \"test-4x4\", a target of Deuteron's own whose values differ: its line "
                 "`\"call_npu_cycles\": 48,` is `\"call_npu_cycles\": 49,` here"},
       }) {
    const auto read = parse_target(text, "own.json");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().id, DiagnosticId::kTargetInvalid);
    EXPECT_NE(to_text(read.error()).find(message), std::string::npos)
        << to_text(read.error()) << "\nexpected: " << message;
  }
  EXPECT_EQ(read_target("/nowhere/own.json").error().id, DiagnosticId::kFileNotFound);
}

TEST(TargetFile, RecipesNameBackendsOfTheMachine) {
  const auto message = [](std::string_view recipe, bool npu) {
    std::string text = with(
        npu ? own_file() : with(file_of("cortex-m33"), "cortex-m33", "own-cpu"),
        npu ? "[\"neutron\", \"cortex_m\", \"portable\"]" : "[\"cortex_m\", \"portable\"]", recipe);
    const auto read = parse_target(text, "own.json");
    EXPECT_TRUE(read);
    const auto checked = check_target_recipe(**read, "own.json");
    return checked ? std::string() : to_text(checked.error());
  };
  EXPECT_EQ(message(R"(["neutron", "portable"])", true), "");
  EXPECT_NE(message(R"(["gpu", "portable"])", true).find("`recipe` names \"gpu\""),
            std::string::npos);
  EXPECT_NE(message(R"(["neutron", "portable"])", false).find("no backend without an NPU"),
            std::string::npos);
  EXPECT_NE(message(R"(["neutron"])", true).find("does not run every operator"), std::string::npos);
  EXPECT_NE(message(R"(["portable", "portable"])", true).find("\"portable\", twice"),
            std::string::npos);
}

}  // namespace
}  // namespace dtr
