#include "test/fuzz/depth.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <new>

#include "compiler/support/result.h"

namespace dtr::fuzz {
namespace {

struct Counts {
  std::atomic<uint64_t> executed{0};
  std::array<std::atomic<uint64_t>, kMaxStages> reached{};
  std::atomic<uint32_t> last{0};  // stages that the last input reached, a bit each
};

Counts& counts() {
  static Counts* const shared = [] {
    DTR_CHECK(stages().size() <= kMaxStages);
    void* memory =
        mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DTR_CHECK(memory != MAP_FAILED);
    return new (memory) Counts;
  }();
  return *shared;
}

double share(size_t stage) {
  return executed() == 0 ? 0
                         : static_cast<double>(reached(stage)) / static_cast<double>(executed());
}

}  // namespace

Depth::Depth() { ++counts().executed; }

Depth::~Depth() {
  counts().last = reached_;
  for (size_t i = 0; i < stages().size(); ++i)
    if ((reached_ >> i & 1U) != 0) ++counts().reached[i];
}

void clear_counts() {
  counts().executed = 0;
  for (std::atomic<uint64_t>& count : counts().reached) count = 0;
}

uint64_t executed() { return counts().executed; }
uint64_t reached(size_t stage) { return counts().reached[stage]; }
bool last_was_deep() { return counts().last == (1U << stages().size()) - 1; }

std::string depth_line() {
  std::string line = fmt::format("{} inputs", executed());
  const char* separator = ": ";
  for (size_t i = 0; i < stages().size(); ++i) {
    line += fmt::format("{}{} {} ({:.1f} %, floor {:g} %)", separator, stages()[i].name, reached(i),
                        100 * share(i), 100 * stages()[i].floor);
    separator = ", ";
  }
  return line;
}

bool deep_enough() {
  for (size_t i = 0; i < stages().size(); ++i)
    if (share(i) < stages()[i].floor) return false;
  return true;
}

}  // namespace dtr::fuzz
