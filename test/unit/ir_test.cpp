// Graph, Rewriter, text form and verifier.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "test/unit/parse.h"

namespace dtr {
namespace {

using test::parse;

std::string reason_of(std::string_view text) {
  const Result<Module> module = parse_module(text);
  return module ? "no error" : module.error().reason;
}

// A graph of one relu around whatever the test is about.
std::string around_relu(std::string_view constant) {
  return "graph @forward() {\n  %c: " + std::string(constant) + "\n  return %c\n}\n";
}

TEST(Text, RoundTripsEverything) {
  const std::string_view text = R"(sources {
  0: "conv2d" "aten.conv2d.default" "features.0" "model.py:12"
  1: "we \"quote\" \\ \x0a" "CONV_2D" "" ""
}
graph @forward(%x: f32[2,3,5,7] channels_last, %q: i8[4,1] quant<0.05:-3>, %s: f32[]) {
  %x1: f32[2,3,5,7] channels_last = aten.relu(%x) loc(0, 1)
  %x2: f32[2,3,5,7] = aten.relu(%x1) loc(1, part 2 of 3)
  %x3: f32[2,3,5,7] = aten.relu(%x2) loc(0, 1, float)
  %x4: f32[2,3,5,7] = aten.relu(%x3) loc(1, part 0 of 2, float)
  %x5: f32[2,3,5,7] = aten.relu(%x4) loc(float)
  %w: i8[2,3] quant<axis=0, range=-127..127, 0.1, 1e-12:4> = constant dense<-128, 127, 0, 1, 2, 3>
  %f: f32[7] = constant dense<0.1, -0, inf, -inf, nan, nan:0x7fc00001, 1.1754944e-38>
  %d: f64[2] = constant dense<0.1, 1e+300>
  %i: i64[3] = constant splat<-9223372036854775808>
  %b: bool[] = constant dense<1>
  %e: f32[0,3] = constant dense<>
  %h: u8[17] = constant hex<000102030405060708090a0b0c0d0e0f10>
  return %x2, %q, %s, %w, %f, %d, %i, %b, %e, %h, %x2
}
graph @other() {
  return
}
)";
  const Module module = parse(text);
  EXPECT_EQ(print(module), text);
  EXPECT_TRUE(verify(module));
}

// The hash names programs in files that were written before: it is of the bytes, however they lie.
// What replaces several ops stays float if all of them do; an origin without sources is the start
// of a merge.
TEST(Origins, KeepFloatIfAllDo) {
  const Origin start, step{.sources = {0}, .keeps_float = true},
      next{.sources = {1}, .keeps_float = true}, other{.sources = {2}};
  EXPECT_TRUE(merge(step, next).keeps_float);
  EXPECT_TRUE(merge(start, step).keeps_float);
  EXPECT_TRUE(merge(step, start).keeps_float);
  EXPECT_FALSE(merge(step, other).keeps_float);
  EXPECT_FALSE(merge(other, step).keeps_float);
  EXPECT_FALSE(merge(start, other).keeps_float);
  EXPECT_FALSE(merge(start, start).keeps_float);
  EXPECT_EQ(merge(step, other).sources, (std::vector<uint32_t>{0, 2}));
}

TEST(Constants, AHashOfPartsIsThatOfTheWhole) {
  std::vector<std::byte> whole(1000);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<std::byte>(i * i + 7);
  EXPECT_EQ(content_hash(std::span(whole).first(0)), 0x58C8BD8350D538CAULL);
  EXPECT_EQ(content_hash(whole), 0x12350EC0EF915E93ULL);
  for (const size_t first : {0, 1, 31, 32, 33, 500})
    for (const size_t size : {0, 1, 7, 32, 100, 300}) {
      const std::span<const std::byte> bytes = whole;
      const std::vector<std::byte> first_part(bytes.begin() + first, bytes.begin() + first + size);
      std::vector<std::byte> hollow = whole;
      std::fill_n(hollow.begin() + first, size, std::byte{0});
      const size_t second = first + size + 5;
      const DetachedBytes parts[] = {{first, first_part}, {second, bytes.subspan(second, 40)}};
      std::fill_n(hollow.begin() + second, 40, std::byte{0});
      EXPECT_EQ(content_hash(hollow, parts), content_hash(whole)) << first << " " << size;
    }
}

TEST(Text, SeededIsTheSameOnEveryMachine) {
  const auto ints = seeded_values(DType::kInt8, 9, 7);
  const auto floats = seeded_values(DType::kFloat32, 3, 7);
  EXPECT_EQ(content_hash(ints), content_hash(seeded_values(DType::kInt8, 9, 7)));
  const auto* f = reinterpret_cast<const float*>(floats.data());
  // SplitMix64 of seed 7: first words 0x63cbe1e459320dd7, 0x044c3cd7f43c661c, 0xe698ff6aa8d62ca1
  // (Python, by hand of the definition).
  EXPECT_EQ(f[0], (float{0x63cbe1} - 0x800000) * 0x1p-23F);
  EXPECT_EQ(static_cast<int8_t>(ints[0]), static_cast<int8_t>(0xd7));
  for (const DType dtype : {DType::kBool, DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                            DType::kInt64, DType::kFloat32, DType::kFloat64})
    EXPECT_EQ(seeded_values(dtype, 1000, 3).size(), 1000 * byte_size(dtype));
  for (const std::byte value : seeded_values(DType::kInt8, 100000, 1))
    ASSERT_NE(static_cast<int8_t>(value), -128);
}

TEST(Text, ElidesBigConstantsOnly) {
  const Module module = parse(around_relu("f32[3] = constant dense<1, 2, 3>"));
  EXPECT_NE(print(module, {.inline_elements = 2, .elide_constants = true}).find("seeded<0x"),
            std::string::npos);
  EXPECT_NE(print(module, {.inline_elements = 3, .elide_constants = true}).find("dense<1, 2, 3>"),
            std::string::npos);
  EXPECT_NE(print(module, {.inline_elements = 2}).find("hex<0000803f0000004000004040>"),
            std::string::npos);
}

TEST(Text, ErrorsSayWhereAndWhatWasExpected) {
  EXPECT_EQ(reason_of(""), "1:1: expected `graph`, found the end of the text");
  EXPECT_EQ(reason_of("graph @f(%x: f33[1]) {\n"), "1:14: `f33` is not a dtype");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1]) {\n  %y: f32[1] = aten.rleu(%x)\n"),
            "2:16: there is no operator `aten.rleu`");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1]) {\n  %y: f32[1] = aten.relu(%z)\n"),
            "2:26: `z` is not defined");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1]) {\n  %y: f32[2] = aten.relu(%x)\n"),
            "2:3: `y` is written as f32[2], but aten.relu gives f32[1]");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1]) {\n  %y: f32[1] = aten.relu(_)\n"),
            "2:16: aten.relu: operand 0 is missing");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1], %x: f32[1])"), "1:22: `x` is defined twice");
  EXPECT_EQ(reason_of("graph @f() { return } graph @f() { return }"),
            "1:23: there is a graph `f` already");
  EXPECT_EQ(reason_of("sources { 1: \"\" \"\" \"\" \"\" } graph @f() { return }"),
            "1:11: expected source operator 0");
  EXPECT_EQ(reason_of("graph @f(%x: f32[1]) {\n  %y: f32[1] = aten.relu(%x) loc(0)\n"),
            "2:16: `y` (aten.relu): origin 0 is not in the table of sources");
  EXPECT_EQ(reason_of(around_relu("i8[2] = constant dense<1, 128>")),
            "2:33: 128 does not fit the dtype");
  EXPECT_EQ(reason_of(around_relu("i8[2] = constant hex<00>")),
            "2:30: expected 4 hexadecimal digits, found \">\"");
  EXPECT_EQ(reason_of(around_relu("f32[9999999999,9999999999] = constant splat<0>")),
            "2:7: impossible shape 9999999999x9999999999");
  EXPECT_EQ(reason_of(around_relu("f32[1000000,1000000] = constant splat<0>")),
            "2:3: constants of more than 256 MiB");
  EXPECT_EQ(reason_of(around_relu("f32[-1] = constant splat<0>")), "2:7: impossible shape -1");
  EXPECT_EQ(reason_of(around_relu("f32[1] = constant dense<1e99>")),
            "2:31: a number is out of range");
  EXPECT_EQ(reason_of(around_relu("f32[1] = constant dense<infinity>")),
            "2:31: expected a number, found \"infinity\"");
}

TEST(Text, RefusesInsaneQuantization) {
  const auto quantized = [](std::string_view type) {
    return reason_of(around_relu(std::string(type) + " = constant splat<0>"));
  };
  EXPECT_EQ(quantized("i8[2] quant<0>"), "2:7: scale 0 is not finite and positive");
  EXPECT_EQ(quantized("i8[2] quant<-1>"), "2:7: scale -1 is not finite and positive");
  EXPECT_EQ(quantized("i8[2] quant<inf>"), "2:7: scale inf is not finite and positive");
  for (const char* nan : {"i8[2] quant<nan>", "i8[2] quant<nan:0>", "i8[2] quant<nan:-3>",
                          "i8[2] quant<nan:0xffc00000:-3>"})
    EXPECT_EQ(quantized(nan), "2:7: scale nan is not finite and positive") << nan;
  EXPECT_EQ(quantized("i8[2] quant<nan:0x3f800000>"), "2:23: these are not the bits of a NaN");
  EXPECT_EQ(quantized("i8[2] quant<1:128>"), "2:7: zero point 128 is not in -128..127");
  EXPECT_EQ(quantized("i8[2] quant<range=-8..7, 1:8>"), "2:7: zero point 8 is not in -8..7");
  EXPECT_EQ(quantized("i8[2] quant<range=-129..127, 1>"),
            "2:7: quantized range -129..127 is not inside i8");
  EXPECT_EQ(quantized("i8[2] quant<range=7..7, 1>"), "2:7: quantized range 7..7 is not inside i8");
  EXPECT_EQ(quantized("i8[2] quant<axis=0, 1>"), "2:7: 1 scales and 1 zero points, expected 2");
  EXPECT_EQ(quantized("i8[2] quant<axis=1, 1>"), "2:7: quantization axis 1 of a tensor of rank 1");
  EXPECT_EQ(quantized("i8[2] quant<axis=-1, 1>"), "2:24: the axis is negative");
  EXPECT_EQ(quantized("f32[2] quant<1>"), "2:7: quantization on f32");
  EXPECT_EQ(quantized("i64[2] quant<1>"), "2:7: quantization on i64");
  EXPECT_EQ(quantized("i32[2] quant<bias>"), "3:10: `c` has `quant<bias>`, but is no bias here");
}

// A chain x → relu → … → relu of `length` ops.
Module relu_chain(int length) {
  Module module;
  Graph& graph = module.graphs.emplace_back();
  Rewriter rewriter(graph);
  ValueId value = rewriter.add_input({.shape = {2, 3}}, "x");
  for (int i = 0; i < length; ++i)
    value = *rewriter.append({.def = &ops::kRelu, .operands = {value}});
  rewriter.set_outputs({value});
  return module;
}

TEST(Rewriter, ReplacesErasesAndNames) {
  Module module = relu_chain(3);
  Graph& graph = module.forward();
  Rewriter rewriter(graph);
  const OpId middle = graph.op(graph.first_op()).next;
  const ValueId first = graph.op(graph.first_op()).results[0];
  rewriter.replace(middle, first);
  EXPECT_TRUE(verify(module));
  EXPECT_EQ(print(module),
            "graph @forward(%x: f32[2,3]) {\n  %relu: f32[2,3] = aten.relu(%x)\n  %relu_2: "
            "f32[2,3] = aten.relu(%relu)\n  return %relu_2\n}\n");
  rewriter.rename(first, "relu_2");
  EXPECT_EQ(graph.value(first).name, "relu_2_1");
  EXPECT_EQ(graph.op_count(), 2U);
  rewriter.replace_uses(graph.outputs()[0], first);
  EXPECT_EQ(graph.outputs()[0], first);
  EXPECT_TRUE(verify(module));
}

TEST(Rewriter, RefusesWhatTheOperatorRefuses) {
  Module module = relu_chain(1);
  Rewriter rewriter(module.forward());
  EXPECT_FALSE(rewriter.append({.def = &ops::kRelu}));
  EXPECT_FALSE(rewriter.append({.def = &ops::kRelu,
                                .operands = {module.forward().inputs()[0]},
                                .attributes = {{"nonsense", true}}}));
}

TEST(Verifier, SeesBrokenOrder) {
  Module module = relu_chain(2);
  Graph& graph = module.forward();
  Rewriter(graph).move_before(graph.last_op(), graph.first_op());
  const Result<void> status = verify(module);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().reason.find("used before it is defined"), std::string::npos);
}

TEST(Verifier, SeesWrongTypesAndConstants) {
  Module module = relu_chain(1);
  Rewriter rewriter(module.forward());
  rewriter.set_element_type(module.forward().outputs()[0], DType::kInt32, std::nullopt);
  EXPECT_FALSE(verify(module));
  rewriter.set_element_type(module.forward().outputs()[0], DType::kFloat32, std::nullopt);
  EXPECT_TRUE(verify(module));
  const float value = 1;
  rewriter.add_constant({.shape = {2}},
                        module.constants.add_values<float>(DType::kFloat32, {&value, 1}), "c");
  EXPECT_FALSE(verify(module));
}

TEST(Scaling, LongChainsAndWideBranchesAreLinear) {
  // 50 times the size must not take 50² times the time: processor time, compared with generous
  // slack for caches.
  const auto milliseconds = [](int length) {
    const std::clock_t start = std::clock();
    const std::string text = print(relu_chain(length));
    EXPECT_EQ(print(parse(text)), text);
    return 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  milliseconds(400);
  EXPECT_LT(milliseconds(20000), 500 * std::max(milliseconds(400), 0.2));
}

// Random edits of valid text: the parser gives a program that verifies and reads back, or an error,
// and nothing else.
TEST(Fuzz, ParserSurvivesMutations) {
  const std::string seed = R"(sources {
  0: "conv2d" "aten.conv2d.default" "features.0" "model.py:12"
}
graph @forward(%x: f32[2,3,5,7] channels_last, %q: i8[4,1] quant<0.05:-3>) {
  %x1: f32[2,3,5,7] channels_last = aten.relu(%x) {} loc(0, part 0 of 2)
  %w: i8[2,3] quant<axis=0, range=-127..127, 0.1, 1e-12:4> = constant dense<-128, 127, 0, 1, 2, 3>
  %f: f32[2] = constant dense<nan:0x7fc00001, -inf>
  %h: u8[2] = constant hex<00ff>
  %s: f32[3] = constant seeded<0x12>
  return %x1, %q, %w, %f, %h, %s
}
)";
  const std::string_view tokens[] = {
      "%",      ":",         "[",        "]",     "<",     ">",      "(",   ")",
      "{",      "}",         ",",        "=",     "\"",    "\\",     "//",  "\n",
      "graph",  "return",    "constant", "quant", "loc",   "nan",    "inf", "99999999999999999999",
      "-1",     "0x",        "1e",       "bias",  "axis=", "range=", "..",  "_",
      "floats", "seeded<1>", "splat<0>", "i32"};
  std::mt19937 random(1);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      if (text.empty()) break;
      const size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, tokens[below(std::size(tokens))]);
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
        default:
          text.resize(std::max<size_t>(at, 1));
          break;
      }
    }
    const Result<Module> module = parse_module(text);
    if (!module) {
      ASSERT_FALSE(module.error().reason.empty());
      continue;
    }
    ++parsed;
    ASSERT_TRUE(verify(*module)) << text;
    const std::string printed = print(*module);
    ASSERT_EQ(print(parse(printed)), printed) << text;
  }
  EXPECT_GT(parsed, 500);
}

TEST(Constants, UnusedOnesAreReleased) {
  ConstantPool pool;
  const float used[] = {1, 2}, unused[] = {3, 4, 5};
  const ConstantId a = pool.add_values<float>(DType::kFloat32, used);
  const ConstantId b = pool.add_values<float>(DType::kFloat32, unused);
  EXPECT_EQ(pool.owned_bytes(), 20U);
  const uint64_t hash = pool.hash(b);
  pool.release_unused({true, false});
  EXPECT_EQ(pool.owned_bytes(), 8U);
  EXPECT_EQ(pool.values<float>(a)[1], 2.0F);
  EXPECT_EQ(pool.hash(b), hash);
  EXPECT_EQ(pool.dtype(b), DType::kFloat32);
  EXPECT_DEATH(pool.bytes(b), "released");
  const ConstantId again = pool.add_values<float>(DType::kFloat32, unused);
  EXPECT_NE(again, b);
  EXPECT_EQ(pool.values<float>(again)[2], 5.0F);
  EXPECT_EQ(pool.add_values<float>(DType::kFloat32, used), a);
  pool.release_unused({true, false, true});  // b once more
  EXPECT_EQ(pool.owned_bytes(), 20U);
}

TEST(Constants, GraphMarksThoseOfOperatorsOutputsAndStates) {
  Module module;
  module.graphs.emplace_back();
  Rewriter rewriter(module.forward());
  std::vector<ConstantId> ids;
  for (const float value : {0.0F, 1.0F, 2.0F, 3.0F})
    ids.push_back(module.constants.add_values<float>(DType::kFloat32, {&value, 1}));
  const Type scalar{.dtype = DType::kFloat32, .shape = {1}};
  const ValueId read = rewriter.add_constant(scalar, ids[0], "read");
  rewriter.add_constant(scalar, ids[1], "unread");
  const ValueId returned = rewriter.add_constant(scalar, ids[2], "returned");
  rewriter.add_state(scalar, ids[3], "state");
  const auto result = rewriter.append({.def = &ops::kRelu, .operands = {read}});
  ASSERT_TRUE(result.has_value());
  rewriter.set_outputs({returned, *result});
  std::vector<bool> used(4);
  module.forward().mark_constants(used);
  EXPECT_EQ(used, (std::vector<bool>{true, false, true, true}));
}

}  // namespace
}  // namespace dtr
