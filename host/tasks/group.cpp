#include "host/tasks/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/support/cancellation.h"
#include "host/tasks/packing.h"

namespace dtr {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // for cancellation: ^C ends work within 0.2 s

}  // namespace

class Coordinator::Run {
 public:
  Run(Coordinator& all, const TaskJob& job, const TakeResult& take,
      const ProgressFunction& progress)
      : group_(all.group_),
        slots_(all.slots_),
        first_(all.first_),
        job_(job),
        take_(take),
        progress_(progress),
        schedule_(job, std::max<size_t>(group_.expected(), 1)),
        taken_(unknown_from(0)) {}

  Result<void> run() {
    while (!schedule_.done()) {
      check_cancelled();
      give();
      DTR_ASSIGN(const std::vector<WorkerEvent> events, group_.wait(kLook));
      for (const WorkerEvent& event : events) DTR_TRY(handle(event));
    }
    if (failure_) return tl::unexpected(*std::move(failure_));
    if (!schedule_.given_up().empty()) return lost();
    return {};
  }

 private:
  void give() {
    slots_.resize(group_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.is_there || slot.range) continue;
      const std::optional<TaskRange> range = schedule_.next();
      if (!range) return;
      slot.range = {first_ + range->begin, first_ + range->end};
      group_.give(i, *slot.range,
                  job_.inputs.empty()
                      ? std::vector<std::byte>()
                      : pack_inputs(job_.inputs.subspan(range->begin, range->end - range->begin)));
    }
  }

  // The range of a worker, if it is of this job, in the job's numbers.
  std::optional<TaskRange> own_range(const Slot& slot) const {
    if (!slot.range || slot.range->begin < first_) return std::nullopt;
    return TaskRange{slot.range->begin - first_, slot.range->end - first_};
  }

  Result<void> handle(const WorkerEvent& event) {
    slots_.resize(std::max(slots_.size(), event.worker + 1));
    Slot& slot = slots_[event.worker];
    const bool is_own = event.task >= first_;
    switch (event.kind) {
      case WorkerEvent::Kind::kResult:
        if (slot.range && event.task + 1 == slot.range->end) slot.range.reset();
        return is_own ? add(event.task - first_, event.bytes) : Result<void>();
      case WorkerEvent::Kind::kFailure:
        slot.range.reset();  // a worker ends its range there
        if (is_own && event.task - first_ < job_.count && schedule_.finish(event.task - first_))
          fail_at(event.task - first_, unpack_diagnostic(event.bytes));
        return {};
      case WorkerEvent::Kind::kDied:
        why_ = event.why;
        if (const auto range = own_range(slot)) schedule_.give_back(*range);
        slot.range.reset();
        return {};
      case WorkerEvent::Kind::kLost:
        if (const auto range = own_range(slot)) schedule_.lose_contact(*range);
        slot = {.range = std::nullopt, .is_there = false};
        return {};
      case WorkerEvent::Kind::kArrived:
        slot = {};
        return {};
    }
    return {};
  }

  Result<void> add(size_t task, const std::vector<std::byte>& result) {
    if (!schedule_.finish(task)) return {};
    if (job_.arrived) DTR_TRY(job_.arrived(task, result));
    if (progress_ && !failure_) progress_(schedule_.finished(), job_.count);
    waiting_.emplace(task, result);
    for (auto at = waiting_.begin(); at != waiting_.end() && at->first == taken_ && !failed(taken_);
         at = waiting_.erase(at)) {
      DTR_TRY(take_(taken_, at->second));
      taken_ = unknown_from(taken_ + 1);
    }
    return {};
  }

  void fail_at(size_t task, Diagnostic failure) {
    if (failed(task)) return;
    failed_at_ = task;
    failure_ = std::move(failure);
    schedule_.fail_at(task);
  }
  bool failed(size_t task) const { return failure_ && task >= failed_at_; }

  size_t unknown_from(size_t task) const {
    if (!job_.is_stream)
      while (task < job_.known.size() && job_.known[task]) ++task;
    return task;
  }

  Result<void> lost() const {
    std::vector<size_t> tasks = schedule_.given_up();
    std::ranges::sort(tasks);
    return fail(DiagnosticId::kResultsLost,
                fmt::format("{} of {} {} have no result, because each of {} processes that "
                            "ran one of them ended ({}): {}",
                            tasks.size(), job_.count, job_.noun, TaskSchedule::kMostDeaths, why_,
                            fmt::join(tasks, ", ")),
                "run them alone to see why; with a checkpoint, --resume runs only them again");
  }

  WorkerGroup& group_;
  std::vector<Slot>& slots_;
  const size_t first_;
  const TaskJob& job_;
  const TakeResult& take_;
  const ProgressFunction& progress_;
  TaskSchedule schedule_;
  std::map<size_t, std::vector<std::byte>> waiting_;
  size_t taken_;
  size_t failed_at_ = 0;
  std::optional<Diagnostic> failure_;
  std::string why_;
};

Result<void> Coordinator::run(const TaskJob& job, const TakeResult& take,
                              const ProgressFunction& progress) {
  // Also after an exception: what workers still run is of this job.
  struct Next {
    Coordinator& all;
    size_t tasks;
    ~Next() { all.first_ += tasks; }
  } const next{*this, job.count};
  return Run(*this, job, take, progress).run();
}

Result<std::vector<std::vector<std::byte>>> run_inputs(
    Coordinator& coordinator, const TaskJob& job, std::span<const std::vector<std::byte>> inputs) {
  std::vector<std::vector<std::byte>> results;
  TaskJob batch = job;
  batch.count = inputs.size();
  batch.inputs = inputs;
  const TakeResult take = [&](size_t, std::span<const std::byte> result) -> Result<void> {
    results.emplace_back(result.begin(), result.end());
    return {};
  };
  DTR_TRY(coordinator.run(batch, take, {}));
  return results;
}

std::vector<std::byte> pack_inputs(std::span<const std::vector<std::byte>> inputs) {
  Packer packer;
  for (const std::vector<std::byte>& input : inputs) packer.add_sized(input);
  return packer.take();
}

std::vector<std::byte> pack_diagnostic(const Diagnostic& diagnostic) {
  Packer packer;
  packer.add(diagnostic.id);
  packer.add(diagnostic.severity);
  for (const std::string* text :
       {&diagnostic.reason, &diagnostic.fix, &diagnostic.place.file, &diagnostic.place.node,
        &diagnostic.place.module_path, &diagnostic.place.source_line})
    packer.add_text(*text);
  return packer.take();
}

Diagnostic unpack_diagnostic(std::span<const std::byte> bytes) {
  Diagnostic diagnostic{};
  Unpacker unpacker(bytes);
  bool good = unpacker.take(diagnostic.id) && unpacker.take(diagnostic.severity) &&
              static_cast<size_t>(diagnostic.id) < all_diagnostics().size() &&
              diagnostic.severity <= Severity::kError;
  for (std::string* text :
       {&diagnostic.reason, &diagnostic.fix, &diagnostic.place.file, &diagnostic.place.node,
        &diagnostic.place.module_path, &diagnostic.place.source_line})
    good = good && unpacker.take_text(*text);
  if (good) return diagnostic;
  return {.id = DiagnosticId::kProcessFailed,
          .reason = "a worker sent a message that cannot be read",
          .fix = {}};
}

}  // namespace dtr
