// Payloads whose constants lie in SRAM: what the decoder accepts of them, what a run computes and
// costs.
#include <gtest/gtest.h>

#include "device/simulator/decoder.h"
#include "device/simulator/simulator.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::Simulator;
using test::AlignedBytes;
using test::decoded;
using test::kTarget;
using test::PayloadBuilder;

// A table that is read where the payload lies, 20 elements through it; `edit` changes the header.
AlignedBytes table_in_payload(const std::function<void(Header&)>& edit) {
  PayloadBuilder builder;
  const Address x = builder.input(20), y = builder.output(20);
  std::vector<int8_t> table(256);
  for (int i = 0; i < 256; ++i)
    table[static_cast<size_t>(i)] = static_cast<int8_t>(127 - i);  // y = -1 - x
  const Address from = builder.constant(std::as_bytes(std::span(table)));
  builder.add(test::lookup(x, y, from, 20));
  return builder.build(edit);
}
void in_sram(Header& header) { header.flags = kConstantsInSram; }

TEST(SimulatorConstants, AreReadInPlaceOnlyInSram) {
  EXPECT_EQ(decoded(table_in_payload({})).status, Status::kFlashAccess);
  EXPECT_EQ(decoded(table_in_payload(in_sram)).status, Status::kOk);
  EXPECT_EQ(decoded(table_in_payload([](Header& header) { header.flags = 2; })).status,
            Status::kBadArgument);
  EXPECT_EQ(decoded(table_in_payload([](Header& header) {
              header.flags = kConstantsInSram | 1u << 31;
            })).status,
            Status::kBadArgument);
  // Constants and scratch share SRAM: 256 bytes are left for constants, then 255.
  const auto with_scratch = [](uint32_t bytes) {
    return decoded(table_in_payload(
                       [=](Header& header) { in_sram(header), header.scratch_bytes = bytes; }))
        .status;
  };
  EXPECT_EQ(with_scratch(kTarget.sram_bytes - 256), Status::kOk);
  EXPECT_EQ(with_scratch(kTarget.sram_bytes - 255), Status::kOutOfBounds);

  const auto status =
      [](const std::function<void(PayloadBuilder&, Address constants, Address y)>& add) {
        PayloadBuilder builder;
        const Address y = builder.output(16);
        add(builder, builder.constant(std::vector<std::byte>(16)), y);
        return decoded(builder.build(in_sram)).status;
      };
  // There is nothing to copy, nothing writes constants, and they end where they end.
  EXPECT_EQ(status([](PayloadBuilder& builder, Address constants, Address y) {
              builder.copy(y, constants, 16);
            }),
            Status::kBadArgument);
  EXPECT_EQ(status([](PayloadBuilder& builder, Address constants, Address) {
              builder.add(Fill{constants, 16, 0});
            }),
            Status::kFlashAccess);
  EXPECT_EQ(status([](PayloadBuilder& builder, Address constants, Address y) {
              constants.offset = 1;
              builder.add(
                  Move{constants, y, {1, 1, 1, 1, 1, 16}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
            }),
            Status::kOutOfBounds);
}

TEST(SimulatorConstants, InSramAreReadWithoutACopy) {
  const AlignedBytes payload = table_in_payload(in_sram);
  AlignedBytes x(20), y(20), scratch(16);
  for (int i = 0; i < 20; ++i) x.int8()[i] = static_cast<int8_t>(13 * i - 128);
  const std::vector<Buffer> operands{x.buffer(), y.buffer()};
  const auto check = [&](const Report& report) {
    EXPECT_EQ(report.status, Status::kOk) << text(report.status);
    // docs/npu.md 3: the host's call, its start on the NPU, a table of 32 cycles, 20 elements in
    // blocks of 8.
    EXPECT_EQ(report.total_cycles, 8000u + 64 + 32 + 3);
    EXPECT_EQ(report.busy_cycles, 64u + 32 + 3);
    EXPECT_EQ(report.host_cycles, 8000u);
    EXPECT_EQ(report.stall_cycles, 0u);
    EXPECT_EQ(report.copied_bytes, 0u);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(y.int8()[i], -1 - x.int8()[i]) << i;
    y = AlignedBytes(20);
  };
  Simulator::Slot slots[1];
  Simulator core(kTarget, slots, {});
  uint32_t handle = 0;
  ASSERT_EQ(core.prepare(payload.data(), payload.size(), &handle), Status::kOk);
  check(core.run(handle, operands, scratch.buffer(), {}));
  simulator::HostSimulator host(kTarget);
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  check(host.run(handle, std::vector<Buffer>{x.buffer(), y.buffer()}, scratch.buffer()));
}

}  // namespace
}  // namespace dtr
