#include "device/npu/driver.h"

namespace dtr::npu {

const char* text(Status status) {
  static constexpr const char* kTexts[] = {
      "ok",
      "the NPU program is shorter than its header says",
      "the bytes are not an NPU program",
      "the NPU program has a version that this build does not know",
      "the NPU program was compiled for another machine",
      "the NPU program is damaged: its checksum does not match",
      "the NPU program uses an unknown command",
      "a command of the NPU program has an argument out of range",
      "a command of the NPU program addresses memory outside of its region",
      "a buffer of the NPU program is not aligned to 16 bytes",
      "a kernel call reads flash, which the NPU cannot",
      "a kernel call reads memory that nothing has written in this run",
      "a kernel call touches memory that a copy is still filling: a wait is missing",
      "number or size of the operands differ from what the NPU program expects",
      "the NPU did not finish in time",
      "the driver has no room for another program",
      "the NPU program would run for longer than the NPU takes one on",
      "an index is outside of the rows that the NPU program reads by index",
  };
  const auto index = static_cast<uint32_t>(status);
  return index < sizeof kTexts / sizeof kTexts[0] ? kTexts[index] : "unknown status";
}

}  // namespace dtr::npu
