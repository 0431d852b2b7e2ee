// Records of a profile buffer: 16 bytes an event, as the NPU's driver writes them. Freestanding.
#pragma once

#include <cstdint>

namespace dtr::npu {

enum class ProfileEvent : uint8_t {
  kNone = 0,  // an event without its stop
  // On the NPU's clock, from the start of the delegate's call.
  kCall = 1,  // the NPU computes; the host's part of the call precedes it
  kCopy = 2,  // the copy engine, concurrent with everything else
  kWait = 3,  // the host waits for a copy
  // On the host's clock.
  kLoad = 16,
  kInit = 17,
  kRun = 18,
  kKernel = 19,
  kDelegate = 20,
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

// The unit of the recording host's times.
enum class ProfileUnit : uint8_t {
  kEstimate = 0,      // cycles that the compiler expects
  kInstructions = 1,  // executed instructions, as under QEMU: one cycle each on the timeline
  kCycles = 2,        // counted by the core
};

inline constexpr uint32_t kProfileMagic = 0x50525444;  // "DTRP"
inline constexpr uint16_t kProfileVersion = 1;         // readers reject another version

// The header that a device writes before the records of its start and of every run. A file may
// contain many of them.
struct ProfileHeader {
  uint32_t magic = kProfileMagic;
  uint16_t version = kProfileVersion;
  ProfileUnit unit = ProfileUnit::kCycles;
  uint8_t error = 0;           // pte::Error that ended the run
  uint32_t program = 0;        // its checksum: `deuteron.checksum` of its named data
  uint32_t records = 0;        // that follow
  uint32_t lost = 0;           // events for which there was no room
  uint32_t cost = 0;           // of recording `cost_events` events, in the clock's unit
  uint32_t cost_events = 0;    // 0: not measured
  uint32_t planned_bytes = 0;  // of memory; 0: not known
  uint32_t used_bytes = 0;     // of it, at most; 0: not watched
};
static_assert(sizeof(ProfileHeader) == 36);

// Bits of a time.
inline constexpr uint32_t kProfileTimeBits = 40;

constexpr void set_time(ProfileStamp& stamp, uint64_t time) {
  stamp.time_high = static_cast<uint8_t>(time >> 32);
  stamp.time = static_cast<uint32_t>(time);
}
constexpr uint64_t time_of(const ProfileStamp& stamp) {
  return uint64_t{stamp.time_high} << 32 | stamp.time;
}
// The time from one stamp to a later one, also if the counter wrapped in between.
constexpr uint64_t time_between(uint64_t from, uint64_t to) {
  return (to - from) & ((uint64_t{1} << kProfileTimeBits) - 1);
}

}  // namespace dtr::npu
