// Records of a profile buffer: 16 bytes an event, as the NPU's driver writes them. Freestanding.
#pragma once

#include <cstdint>

namespace dtr::npu {

enum class ProfileEvent : uint8_t {
  kNone = 0,  // a stop that was not reached
  // On the NPU's clock, from the start of the delegate's call.
  kCall = 1,  // the NPU computes; what its host spends on the call lies before it
  kCopy = 2,  // the copy engine, beside everything else
  kWait = 3,  // the host stands still until a copy is done
  // On the host's clock.
  kLoad = 16,
  kInit = 17,
  kRun = 18,
  kKernel = 19,
  kDelegate = 20,
  kMemory = 21,  // no times: bytes of planned memory, and of it bytes in use
};

// opCode of the stop of a kernel call.
inline constexpr uint8_t kCallArguments = 6;

struct ProfileStamp {
  ProfileEvent event = ProfileEvent::kNone;
  uint8_t op = 0;
  uint8_t function = 0;   // the opcode of a kernel call
  uint8_t time_high = 0;  // bits 32 to 39 of the time
  uint32_t time = 0;
};

struct ProfileRecord {
  ProfileStamp start, stop;
};
static_assert(sizeof(ProfileRecord) == 16);

constexpr void set_time(ProfileStamp& stamp, uint64_t time) {
  stamp.time_high = static_cast<uint8_t>(time >> 32);
  stamp.time = static_cast<uint32_t>(time);
}
constexpr uint64_t time_of(const ProfileStamp& stamp) { return uint64_t{stamp.time_high} << 32 | stamp.time; }

}  // namespace dtr::npu
