// Payloads of NeutronBackend that `deuteron convert` makes: header, transposition, hostile bytes.
#include "device/executorch/neutron_payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/program/reader.h"
#include "compiler/support/file_contents.h"
#include "device/pte/program_generated.h"
#include "host/commands/convert.h"
#include "host/session/session.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

namespace et = executorch;
using et::NeutronPayloadError;

using test::source_path;

std::vector<std::byte> payload_of(const PteFile& program) {
  const pte::BackendDelegate& delegate =
      *program.file().program().execution_plan()->Get(0)->delegates()->Get(0);
  const std::span<const std::byte> bytes = program.file().payload(delegate);
  return {bytes.begin(), bytes.end()};
}

runtime::Tensor tensor(std::vector<int8_t>& data, const std::vector<int32_t>& sizes,
                       const std::vector<uint8_t>& order) {
  return {.data = reinterpret_cast<std::byte*>(data.data()),
          .sizes = sizes.data(),
          .dim_order = order.data(),
          .dtype = ScalarType::kChar,
          .rank = static_cast<uint8_t>(sizes.size()),
          .writable = true};
}

TEST(NeutronPayload, TransposesToChannelsLastAndBack) {
  const std::vector<int32_t> sizes{1, 2, 1, 3};  // two channels of three columns
  std::vector<int8_t> contiguous{1, 2, 3, 4, 5, 6}, last{1, 4, 2, 5, 3, 6}, found(6);
  auto* to = reinterpret_cast<std::byte*>(found.data());
  ASSERT_TRUE(et::gather(tensor(contiguous, sizes, {0, 1, 2, 3}), true, to));
  EXPECT_EQ(found, last);
  ASSERT_TRUE(et::gather(tensor(last, sizes, {0, 2, 3, 1}), true, to));
  EXPECT_EQ(found, last);
  ASSERT_TRUE(et::gather(tensor(contiguous, sizes, {0, 1, 2, 3}), false, to));
  EXPECT_EQ(found, contiguous);
  const auto* from = reinterpret_cast<const std::byte*>(last.data());
  std::vector<int8_t> result(6);
  ASSERT_TRUE(et::scatter(from, true, tensor(result, sizes, {0, 1, 2, 3})));
  EXPECT_EQ(result, contiguous);
  // Three dimensions: (N, C, L) to (N, L, C).
  const std::vector<int32_t> line{1, 2, 3};
  ASSERT_TRUE(et::gather(tensor(contiguous, line, {0, 1, 2}), true, to));
  EXPECT_EQ(found, last);
}

TEST(NeutronPayload, RefusesOtherOrders) {
  const std::vector<int32_t> sizes{1, 2, 2, 3}, matrix{2, 3};
  std::vector<int8_t> data(12), found(12);
  auto* to = reinterpret_cast<std::byte*>(found.data());
  EXPECT_FALSE(et::gather(tensor(data, sizes, {0, 2, 3, 1}), false, to));
  EXPECT_FALSE(et::gather(tensor(data, sizes, {3, 1, 2, 0}), true, to));
  EXPECT_FALSE(et::gather(tensor(data, matrix, {0, 1}), true, to));
  // One channel: both orders are the same bytes.
  const std::vector<int32_t> single{1, 1, 2, 3};
  EXPECT_TRUE(et::gather(tensor(data, single, {0, 2, 3, 1}), false, to));
}

TEST(NeutronPayload, IsReadWholeOrNotAtAll) {
  const auto program = PteFile::open(source_path("test/data/eiq/convolution.pte"));
  ASSERT_TRUE(program);
  const std::vector<std::byte> good = payload_of(*program);
  et::NeutronProgram read;
  ASSERT_EQ(et::read_neutron_payload(good, &read), NeutronPayloadError::kNone);
  EXPECT_EQ(read.inputs, 1u);
  EXPECT_EQ(read.outputs, 1u);
  EXPECT_TRUE(read.channels_last(0));
  EXPECT_EQ(read.argument(1), 1u);
  EXPECT_TRUE(Session::load(read.program, "payload"));
  // Weights and kernels, 32 bytes at the end, are not read.
  for (size_t size = 0; size + 48 < good.size(); size += 7)
    EXPECT_EQ(et::read_neutron_payload(std::span(good).first(size), &read),
              NeutronPayloadError::kDamaged)
        << size;
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{value};
    return et::read_neutron_payload(bytes, &read);
  };
  EXPECT_EQ(with(3, 2), NeutronPayloadError::kDamaged);               // format
  EXPECT_EQ(with(5, 1), NeutronPayloadError::kDamaged);               // argument of an input
  EXPECT_EQ(with(7, 2), NeutronPayloadError::kDamaged);               // version
  EXPECT_EQ(with(16, 0), NeutronPayloadError::kDamaged);              // magic
  EXPECT_EQ(with(16 + 4, 0), NeutronPayloadError::kOfNxp);            // signature
  EXPECT_EQ(with(16 + 4 * 2 + 3, 9), NeutronPayloadError::kDamaged);  // size of the program
  EXPECT_EQ(with(16 + 4 * 6 + 3, 9), NeutronPayloadError::kDamaged);  // size of the microcode
  EXPECT_EQ(with(16 + 4 * 11, 2), NeutronPayloadError::kDamaged);     // number of inputs
}

// Operators that the NPU does not run stay, with their options, and read what the graph makes.
TEST(Convert, KeepsOtherOperators) {
  const auto bytes = FileContents::read(source_path("test/data/litert/indexed.tflite"));
  ASSERT_TRUE(bytes);
  const auto made = convert_model(bytes->bytes(), "indexed", {});
  ASSERT_TRUE(made) << to_text(made.error());
  EXPECT_GT(made->converted, 0u);
  EXPECT_LT(made->converted, made->operators);
  const AlignedBytes before(bytes->bytes()), after(made->tflite);
  const auto old = tflite::ModelFile::open(before.bytes(), "old");
  const auto now = tflite::ModelFile::open(after.bytes(), "new");
  ASSERT_TRUE(old && now);
  EXPECT_EQ(now->inputs, old->inputs);
  EXPECT_EQ(now->outputs, old->outputs);
  EXPECT_EQ(now->operators.size(), old->operators.size() - made->converted + made->graphs);
  size_t kept = 0;
  for (const tflite::OperatorInfo& op : now->operators) {
    if (op.name == "CUSTOM(NeutronGraph)") continue;
    ++kept;
    const auto same = std::ranges::find_if(old->operators, [&](const tflite::OperatorInfo& each) {
      return each.outputs == op.outputs;
    });
    ASSERT_NE(same, old->operators.end());
    EXPECT_EQ(same->name, op.name);
    EXPECT_EQ(same->inputs, op.inputs);
    EXPECT_EQ(same->options_type, op.options_type);
  }
  EXPECT_EQ(kept, made->operators - made->converted);
}

// A file with damaged bytes is refused, or converted.
TEST(Convert, SurvivesDamage) {
  const auto bytes =
      FileContents::read(source_path("test/data/conformance/conv_097/neutron_ir_0.tflite"));
  ASSERT_TRUE(bytes);
  for (size_t at = 8; at < bytes->bytes().size(); at += 61) {
    std::vector<std::byte> damaged(bytes->bytes().begin(), bytes->bytes().end());
    damaged[at] ^= std::byte{0x55};
    const auto made = convert_model(damaged, "damaged", {});
    EXPECT_TRUE(made || !made.error().reason.empty());
  }
}

}  // namespace
}  // namespace dtr
