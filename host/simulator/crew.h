// Threads that share the work of one call after the other. They wait for work by spinning shortly,
// since calls take microseconds, and then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace dtr::simulator {

class Crew {
 public:
  using Work = std::function<void(size_t member, uint32_t part)>;

  // `members`: with the thread that calls `run`. If threads cannot be created, there are fewer.
  explicit Crew(unsigned members);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  size_t members() const { return helpers_.size() + 1; }
  // Calls work(member, part) once for each part in [0, parts) and returns when all are done. The
  // calling thread is member 0; it waits only for helpers that have begun a part. An exception of
  // a part leaves out those that have not begun and is rethrown here. Not reentrant.
  void run(uint32_t parts, const Work& work);

 private:
  void help(size_t member);
  void take_parts(size_t member);

  // A round in the upper half; then whether it is open; then how many helpers have joined it.
  std::atomic<uint64_t> gate_{0};
  std::atomic<uint32_t> next_{0};  // part
  std::atomic<uint32_t> left_{0};  // helpers that joined the round and are done with it
  std::atomic<bool> ended_{false};
  std::atomic_flag failed_;
  std::exception_ptr failure_;  // of the first part that threw
  const Work* work_ = nullptr;
  uint32_t parts_ = 0;
  std::vector<std::jthread> helpers_;
};

}  // namespace dtr::simulator
