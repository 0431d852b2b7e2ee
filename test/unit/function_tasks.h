// Tasks that are functions of their number, for tests of executors.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "host/tasks/tasks.h"

namespace dtr::test {

using Bytes = std::vector<std::byte>;

class FunctionWorker final : public TaskWorker {
 public:
  explicit FunctionWorker(std::function<Result<Bytes>(size_t)> run) : run_(std::move(run)) {}
  Result<Bytes> run(size_t task, std::span<const std::byte> /*input*/) override {
    return run_(task);
  }

 private:
  std::function<Result<Bytes>(size_t)> run_;
};

inline TaskJob job_of(size_t count, const std::function<Result<Bytes>(size_t)>& run) {
  return {.count = count, .open = [run]() -> Result<std::unique_ptr<TaskWorker>> {
            return std::make_unique<FunctionWorker>(run);
          }};
}

}  // namespace dtr::test
