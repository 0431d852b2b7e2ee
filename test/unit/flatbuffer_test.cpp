// The verifier that reads a table, held against flatc's: what it accepts, flatc's accepts; what
// only it refuses, it refuses for a stated reason.
#include "device/pte/flatbuffer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/pte/program_schema.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

bool generated(std::span<const std::byte> bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return verifier.VerifyBuffer<pte::Program>(nullptr);
}

// The table of the loader with what nobody reads, too.
std::vector<pte::SchemaField> whole_schema() {
  using enum pte::FieldKind;
  using namespace pte::program_schema;
  constexpr uint8_t kContainer = kNamedData + 1, kSpec = kNamedData + 2;
  std::vector<pte::SchemaField> fields = {
      {kPlan, pte::ExecutionPlan::VT_CONTAINER_META_TYPE, kTable, kContainer},
      {kDelegate, pte::BackendDelegate::VT_COMPILE_SPECS, kTables, kSpec},
      {kChain, pte::Chain::VT_INPUTS, kVector, 4},
      {kChain, pte::Chain::VT_OUTPUTS, kVector, 4},
      {kContainer, pte::ContainerMetadata::VT_ENCODED_INP_STR, kText},
      {kContainer, pte::ContainerMetadata::VT_ENCODED_OUT_STR, kText},
      {kSpec, pte::CompileSpec::VT_KEY, kText},
      {kSpec, pte::CompileSpec::VT_VALUE, kVector, 1},
  };
  fields.insert(fields.end(), std::begin(kFields), std::end(kFields));
  return fields;
}

// The FlatBuffer of a program, without its segments.
std::vector<std::byte> structure_of(const std::vector<std::byte>& program) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, program.data() + 16, sizeof bytes);
  return {program.begin(), program.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

// With the whole schema nothing is accepted that flatc's verifier refuses; the other way round
// there are fields that must be there, and elements that must be aligned.
TEST(Flatbuffer, FindsWhatTheGeneratedVerifierDoes) {
  const std::vector<pte::SchemaField> whole = whole_schema();
  for (const std::vector<std::byte>& program :
       {test::small_program(), test::read_bytes(test::source_path("test/data/pte/upstream.pte")),
        test::read_bytes(test::source_path("test/data/pte/delegate.pte")),
        test::read_bytes(test::source_path("test/data/states/cell.pte"))}) {
    const std::vector<std::byte> good = structure_of(program);
    const test::AlignedCopy bytes(good);
    ASSERT_TRUE(pte::verify_flatbuffer(pte::kProgramSchema, bytes.bytes()) &&
                generated(bytes.bytes()));
    size_t accepted = 0, stricter = 0;
    for (size_t i = 0; i < good.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        bytes.bytes()[i] ^= static_cast<std::byte>(1 << bit);
        const bool judge = generated(bytes.bytes()),
                   by_table = pte::verify_flatbuffer(whole, bytes.bytes());
        accepted += judge;
        stricter += judge && !by_table;
        EXPECT_TRUE(judge || !by_table) << "byte " << i << " bit " << bit;
        EXPECT_TRUE(!by_table || pte::verify_flatbuffer(pte::kProgramSchema, bytes.bytes()));
        bytes.bytes()[i] = good[i];
      }
    }
    EXPECT_GT(accepted, 0u);
    EXPECT_LT(stricter, accepted / 50);
  }
}

TEST(Flatbuffer, EveryTruncationIsSafe) {
  const std::vector<std::byte> good = structure_of(test::small_program());
  for (size_t size = 0; size < good.size(); ++size) {
    const test::AlignedCopy bytes(std::span<const std::byte>(good).first(size));
    EXPECT_EQ(generated(bytes.bytes()), pte::verify_flatbuffer(whole_schema(), bytes.bytes()))
        << size;
  }
}

}  // namespace
}  // namespace dtr
