// The profile of deuteron.h: apart from the rest, so that an image without one has none of it.
#include <bit>
#include <new>

#include "device/runtime/deuteron_model.h"
#include "device/runtime/profiler.h"

namespace {

using dtr::npu::ProfileEvent;
using dtr::npu::ProfileHeader;
using dtr::npu::ProfileRecord;
using dtr::npu::ProfileUnit;
using dtr::runtime::Method;
using dtr::runtime::Profiler;

static_assert(sizeof(Profiler) <= sizeof(dtr_profile) && alignof(Profiler) <= alignof(dtr_profile));
static_assert(sizeof(ProfileRecord) == sizeof(dtr_profile_record) &&
              alignof(ProfileRecord) == alignof(dtr_profile_record));
static_assert(DTR_PROFILE_LOAD == static_cast<int>(ProfileEvent::kLoad) &&
              DTR_PROFILE_INIT == static_cast<int>(ProfileEvent::kInit));
static_assert(DTR_PROFILE_INSTRUCTIONS == static_cast<int>(ProfileUnit::kInstructions) &&
              DTR_PROFILE_CYCLES == static_cast<int>(ProfileUnit::kCycles));

Profiler& of(dtr_profile* profile) { return *std::launder(reinterpret_cast<Profiler*>(profile)); }
const Profiler& of(const dtr_profile* profile) {
  return *std::launder(reinterpret_cast<const Profiler*>(profile));
}

// Both observe every step: the profile first and last.
struct Watchers {
  Profiler& profiler;
  const dtr_observer* observer;
};

bool before(void* context, const Method& method, uint32_t step) {
  const auto& [profiler, observer] = *static_cast<const Watchers*>(context);
  profiler.observer().before(&profiler, method, step);
  return dtr::runtime::before(observer, step);
}

void after(void* context, const Method& method, uint32_t step) {
  const auto& [profiler, observer] = *static_cast<const Watchers*>(context);
  dtr::runtime::after(observer, step);
  profiler.observer().after(&profiler, method, step);
}

}  // namespace

void dtr_profile_begin(dtr_profile* profile, dtr_profile_record* records, uint32_t count,
                       dtr_clock clock) {
  new (profile)
      Profiler({reinterpret_cast<ProfileRecord*>(records), records == nullptr ? 0 : count},
               {clock.now, clock.context, clock.bits});
}

dtr_status dtr_run_profiled(dtr_model* model, const dtr_observer* observer, dtr_profile* profile) {
  Profiler& profiler = of(profile);
  Watchers watchers{profiler, observer};
  const dtr::runtime::Observer both{&watchers, before, after};
  const size_t run = profiler.start(ProfileEvent::kRun);
  dtr::runtime::Model* found = dtr::runtime::opened(model);
  const dtr::runtime::Status status = found == nullptr
                                          ? dtr::runtime::Status{dtr::runtime::Error::kNotPrepared}
                                          : found->method.run(&both);
  if (status.ok()) profiler.stop(run);
  return dtr::runtime::to_c(status);
}

size_t dtr_profile_start(dtr_profile* profile, dtr_profile_event event) {
  return of(profile).start(static_cast<ProfileEvent>(event));
}
void dtr_profile_stop(dtr_profile* profile, size_t started) { of(profile).stop(started); }

uint32_t dtr_profile_count(const dtr_profile* profile) { return of(profile).header().records; }
uint32_t dtr_profile_lost(const dtr_profile* profile) { return of(profile).header().lost; }
void dtr_profile_clear(dtr_profile* profile) { of(profile).clear(); }

dtr_profile_header dtr_profile_header_of(const dtr_profile* profile, uint32_t program,
                                         dtr_status status, dtr_profile_unit unit) {
  ProfileHeader header = of(profile).header();
  header.program = program;
  header.error = static_cast<uint8_t>(status.error);
  header.unit = static_cast<ProfileUnit>(unit);
  return std::bit_cast<dtr_profile_header>(header);
}
