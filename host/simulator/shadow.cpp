#include "host/simulator/shadow.h"

#include <algorithm>
#include <deque>
#include <type_traits>

#include "device/simulator/functional.h"
#include "device/simulator/loops.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

// State of a byte: uninitialized, destination of a copy in flight, an input's first value, or 3 +
// the region through which it was written last (the last of 65,000 regions stands for all that
// follow).
using State = uint16_t;
constexpr State kNobody = 0, kInFlight = 1, kGiven = 2;
constexpr State written_by(uint32_t region) {
  return static_cast<State>(3 + std::min(region, 65000U));
}

struct Range {
  uint64_t first, bytes;
  uint64_t end() const { return first + bytes; }
};

// Rows (or columns) of an image that the windows of a command read, those in the padding left out:
// `count` neighbours from `first` on.
struct Interval {
  uint32_t first, count;
};
// As few as there are rows between the first and the last, or as there are taps of all windows,
// whichever is less; one where all rows of the input are the same bytes (`step` is 0).
std::vector<Interval> rows_read(uint32_t in, uint32_t step, uint32_t out, uint32_t kernel,
                                uint32_t stride, uint32_t dilation, int64_t pad) {
  const int64_t reach = int64_t{kernel - 1} * dilation, last_window = int64_t{out - 1} * stride;
  const int64_t first = std::max<int64_t>(-pad, 0),
                last = std::min<int64_t>(last_window + reach - pad, int64_t{in} - 1);
  if (first > last) return {};
  if (step == 0) return {{static_cast<uint32_t>(first), 1}};
  if (static_cast<uint64_t>(last - first) < uint64_t{out} * kernel)
    return {{static_cast<uint32_t>(first), static_cast<uint32_t>(last - first + 1)}};
  std::vector<Interval> rows;
  for (uint32_t window = 0; window < out; ++window)
    for (uint32_t tap = 0; tap < kernel; ++tap)
      if (const int64_t at = int64_t{window} * stride + int64_t{tap} * dilation - pad;
          at >= 0 && at < in)
        rows.push_back({static_cast<uint32_t>(at), 1});
  return rows;
}

class Watch {
 public:
  Watch(const Target& target, const Payload& payload, const RegionLayout& layout)
      : target_(target), payload_(payload), layout_(layout), states_(layout.bytes, kNobody) {
    for (uint32_t i = 0; i < payload.header.operand_count; ++i)
      if (payload.operand(i).kind == OperandKind::kInput)
        fill(range({kFirstOperand + i, 0}, payload.operand(i).bytes), kGiven);
  }

  Status operator()(uint32_t, const End&) {
    if (!in_flight_.empty()) return Status::kReadsInFlight;
    for (uint32_t i = 0; i < payload_.header.operand_count; ++i) {
      const Address address{kFirstOperand + i, 0};
      if (payload_.operand(i).kind != OperandKind::kOutput) continue;
      if (const Status status = readable(address.region, range(address, payload_.operand(i).bytes));
          status != Status::kOk)
        return status;
    }
    return Status::kOk;
  }
  Status operator()(uint32_t, const Copy& command) {
    const Range to = range(command.destination, command.bytes);
    if (writable(to) != Status::kOk) return Status::kReadsInFlight;
    fill(to, kInFlight);
    in_flight_.push_back({command.ticket, command.destination.region, to});
    return Status::kOk;
  }
  Status operator()(uint32_t, const Wait& command) {
    while (!in_flight_.empty() && in_flight_.front().ticket <= command.ticket) {
      fill(in_flight_.front().range, written_by(in_flight_.front().region));
      in_flight_.pop_front();
    }
    return Status::kOk;
  }
  Status operator()(uint32_t, const Move& command) {
    Status status = Status::kOk;
    for_runs(command.extent, command.input, command.input_stride, [&](const Range& run) {
      if (status == Status::kOk) status = readable(command.input.region, run);
    });
    return status == Status::kOk ? write_box(command) : status;
  }
  Status operator()(uint32_t, const Reduce& command) {
    const Access input = accesses(target_, command).list[0];
    const Status status = readable(input.address.region, range(input));
    return status == Status::kOk ? write_box(command) : status;
  }
  Status operator()(uint32_t, const Binary& command) {
    Status status = Status::kOk;
    const auto check = [&](Address address, const int32_t(&stride)[kMoveRank]) {
      uint32_t extent[kMoveRank];  // dimensions of stride 0 are visited once
      for (uint32_t d = 0; d < kMoveRank; ++d) extent[d] = stride[d] == 0 ? 1 : command.extent[d];
      for_runs(extent, address, stride, [&](const Range& run) {
        if (status == Status::kOk) status = readable(address.region, run);
      });
    };
    check(command.input_0, command.stride_0);
    check(command.input_1, command.stride_1);
    return status == Status::kOk ? write_walk(command) : status;
  }
  // Operands may be parts of larger tensors, whose rest has not been written.
  Status operator()(uint32_t, const Matmul& command) {
    Status status = Status::kOk;
    const auto check = [&](Address address, const uint32_t(&batch_stride)[kMatmulBatchRank],
                           std::array<uint32_t, 2> extents, std::array<uint32_t, 2> strides) {
      static_assert(kMatmulBatchRank + 2 == kMoveRank);
      uint32_t extent[kMoveRank];
      int32_t stride[kMoveRank];
      for (uint32_t d = 0; d < kMoveRank; ++d) {
        const bool batch = d < kMatmulBatchRank;
        stride[d] = static_cast<int32_t>(batch ? batch_stride[d] : strides[d - kMatmulBatchRank]);
        extent[d] = stride[d] == 0 ? 1 : batch ? command.batch[d] : extents[d - kMatmulBatchRank];
      }
      for_runs(extent, address, stride, [&](const Range& run) {
        if (status == Status::kOk) status = readable(address.region, run);
      });
    };
    check(command.left, command.left_batch_stride, {command.rows, command.inner},
          {command.left_row_stride, command.left_inner_stride});
    check(command.right, command.right_batch_stride, {command.inner, command.columns},
          {command.right_inner_stride, command.right_column_stride});
    if (status == Status::kOk && (command.flags & kWithTable) != 0)
      status = readable(command.table.region, range(command.table, 256));
    return status == Status::kOk ? write_disjoint(accesses(target_, command)) : status;
  }
  Status operator()(uint32_t, const Lookup& command) {
    Status status = readable(command.table.region, range(command.table, 256));
    for_runs(command.extent, command.input, command.input_stride, [&](const Range& run) {
      if (status == Status::kOk) status = readable(command.input.region, run);
    });
    return status == Status::kOk ? write_walk(command) : status;
  }
  template <class Call>
  Status operator()(uint32_t, const Call& command) {
    const Accesses touched = accesses(target_, command);
    std::span<const Access> inputs = touched.all().first(touched.count - 1);
    Status status = Status::kOk;
    // The first input of a command with windows is their image.
    if constexpr (requires { command.window; }) {
      status = image_readable(command.input, command.window);
      inputs = inputs.subspan(1);
    }
    for (const Access& input : inputs)
      for_runs(input, [&](const Range& run) {
        if (status == Status::kOk) status = readable(input.address.region, run);
      });
    return status == Status::kOk ? write_disjoint(touched) : status;
  }

 private:
  // The output may be an input only where the command allows it.
  Status check_apart(const Accesses& touched) const {
    const Access& output = touched.list[touched.count - 1];
    for (const Access& input : touched.all().first(touched.count - 1)) {
      const auto distance =
          static_cast<int64_t>(range(output).first) - static_cast<int64_t>(range(input).first);
      const bool same = input.in_place && distance == 0 && same_box(input, output);
      if (!same && !disjoint(input, output, distance)) return Status::kBadArgument;
    }
    return Status::kOk;
  }
  Status write_disjoint(const Accesses& touched) {
    const Access& output = touched.list[touched.count - 1];
    Status status = check_apart(touched);
    for_runs(output, [&](const Range& run) {
      if (status == Status::kOk) status = writable(run);
    });
    if (status != Status::kOk) return status;
    for_runs(output, [&](const Range& run) { fill(run, written_by(output.address.region)); });
    return Status::kOk;
  }

  struct Flight {
    uint32_t ticket, region;
    Range range;
  };

  // Constants lie apart from all that is watched.
  Range range(Address address, uint64_t bytes) const {
    const uint64_t start =
        address.region == kConstants ? layout_.bytes : layout_.starts[address.region];
    return {start + address.offset, bytes};
  }
  Range range(const Access& access) const { return range(access.address, access.bytes); }
  std::span<const State> states(const Range& range) const {
    return std::span(states_).subspan(static_cast<size_t>(range.first),
                                      static_cast<size_t>(range.bytes));
  }
  void fill(const Range& range, State state) {
    std::fill_n(states_.begin() + static_cast<int64_t>(range.first), range.bytes, state);
  }

  // What the windows read, and no more: an image may be large, or repeat itself, where little of it
  // is read.
  Status image_readable(Address address, const Window& w) const {
    const auto rows = rows_read(w.in_height, w.in.row, w.out_height, w.kernel_height,
                                w.stride_height, w.dilation_height, w.pad_top);
    const auto columns = rows_read(w.in_width, w.in.pixel, w.out_width, w.kernel_width,
                                   w.stride_width, w.dilation_width, w.pad_left);
    const uint64_t start = range(address, 0).first;
    Status status = Status::kOk;
    for (uint32_t b = 0; b < (w.in.batch == 0 ? 1 : w.batch); ++b)
      for (const Interval& row : rows)
        for (uint32_t y = row.first; y - row.first < row.count; ++y)
          for (const Interval& column : columns) {
            const uint64_t first = start + place(w.in, b, y, column.first);
            const bool dense = w.in.pixel == w.in_channels;
            for (uint32_t x = 0; x < (dense ? 1 : column.count) && status == Status::kOk; ++x)
              status =
                  readable(address.region, {first + uint64_t{x} * w.in.pixel,
                                            uint64_t{w.in_channels} * (dense ? column.count : 1)});
            if (status != Status::kOk) return status;
          }
    return status;
  }

  // Of a Move or Reduce, whose input has been found readable.
  template <class Strided>
  Status write_box(const Strided& command) {
    const Accesses touched = accesses(target_, command);
    const Range from = range(touched.list[0]), to = range(touched.list[1]);
    return from.first < to.end() && to.first < from.end() ? Status::kBadArgument
                                                          : write_runs(command);
  }
  // Of a command whose inputs have been found readable and whose output is a walk.
  template <class Strided>
  Status write_walk(const Strided& command) {
    const Status status = check_apart(accesses(target_, command));
    return status == Status::kOk ? write_runs(command) : status;
  }
  template <class Strided>
  Status write_runs(const Strided& command) {
    Status status = Status::kOk;
    uint32_t element = 1;
    if constexpr (std::is_same_v<Strided, Reduce>) element = result_bytes(command);
    const auto visit = [&](auto body) {
      for_runs(command.extent, command.output, command.output_stride, body, element);
    };
    visit([&](const Range& run) {
      if (status == Status::kOk) status = writable(run);
    });
    if (status != Status::kOk) return status;
    visit([&](const Range& run) { fill(run, written_by(command.output.region)); });
    return Status::kOk;
  }
  // Nothing writes to the target of a copy in flight, so its bytes are marked until it is waited
  // for.
  bool touches_flight(const Range& range) const {
    return std::ranges::find(states(range), kInFlight) != states(range).end();
  }
  Status writable(const Range& range) const {
    return !in_flight_.empty() && touches_flight(range) ? Status::kReadsInFlight : Status::kOk;
  }
  Status readable(uint32_t region, const Range& range) const {
    if (region == kConstants) return Status::kOk;
    const State good = written_by(region);
    const bool is_input = region >= kFirstOperand &&
                          payload_.operand(region - kFirstOperand).kind == OperandKind::kInput;
    const State also_good = is_input ? kGiven : good;
    State bad = 0;  // without a branch: one pass of vectors
    for (const State state : states(range))
      bad = static_cast<State>(bad | ((state != good) & (state != also_good)));
    if (bad == 0) return Status::kOk;
    return touches_flight(range) ? Status::kReadsInFlight : Status::kReadsUninitialized;
  }

  template <class Body>
  void for_runs(const Access& access, Body body) const {
    const auto& [inner, middle, outer] = access.repeats;
    for (uint64_t i = 0; i < outer.count; ++i)
      for (uint64_t j = 0; j < middle.count; ++j)
        for (uint64_t k = 0; k < inner.count; ++k)
          body(Range{range(access).first + i * outer.stride + j * middle.stride + k * inner.stride,
                     access.run});
  }
  // The dense runs of a strided box of elements of that many bytes.
  template <class Body>
  void for_runs(const uint32_t (&extent)[kMoveRank], Address address,
                const int32_t (&stride)[kMoveRank], Body body, uint32_t element = 1) const {
    constexpr uint32_t kInner = kMoveRank - 1;
    const bool dense = stride[kInner] == static_cast<int32_t>(element) || extent[kInner] == 1;
    uint32_t index[kMoveRank] = {};
    Stream stream{stride, static_cast<int64_t>(range(address, 0).first)};
    do
      body(Range{static_cast<uint64_t>(stream.at), uint64_t{dense ? extent[kInner] : 1} * element});
    while (advance(extent, dense ? kInner : kMoveRank, index, stream));
  }

  const Target& target_;
  const Payload& payload_;
  const RegionLayout& layout_;
  std::vector<State> states_;
  std::deque<Flight> in_flight_;  // in order of tickets
};

}  // namespace

RegionLayout layout_of(std::span<const Buffer> operands, Buffer scratch) {
  struct Place {
    uintptr_t first;
    uint64_t bytes;
    size_t entry;
  };
  std::vector<Place> places{{reinterpret_cast<uintptr_t>(scratch.data), scratch.bytes, kScratch}};
  for (size_t i = 0; i < operands.size(); ++i)
    places.push_back(
        {reinterpret_cast<uintptr_t>(operands[i].data), operands[i].bytes, kFirstOperand + i});
  std::ranges::sort(places, {}, &Place::first);

  RegionLayout layout;
  layout.starts.assign(kFirstOperand + operands.size(), 0);
  uintptr_t cluster = places.front().first, cluster_end = cluster;  // regions that touch each other
  uint64_t cluster_start = 0;
  for (const Place& place : places) {
    if (place.first >= cluster_end) {
      cluster = place.first;
      cluster_start = layout.bytes;
    }
    layout.starts[place.entry] = cluster_start + (place.first - cluster);
    layout.bytes = std::max(layout.bytes, layout.starts[place.entry] + place.bytes);
    cluster_end = std::max<uintptr_t>(cluster_end, place.first + place.bytes);
  }
  return layout;
}

Fault watch_memory(const Target& target, const Payload& payload, const RegionLayout& layout) {
  return visit(payload, Watch(target, payload, layout));
}

}  // namespace dtr::simulator
