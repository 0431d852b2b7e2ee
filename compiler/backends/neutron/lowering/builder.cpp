#include "compiler/backends/neutron/lowering/builder.h"

#include <algorithm>

#include "compiler/backends/neutron/lowering/readers.h"

namespace dtr::neutron {
namespace {

std::vector<int64_t> key_of(const StridedLayout& layout, const Shape& shape) {
  std::vector<int64_t> key(shape);
  for (const Mode& mode : layout)
    key.insert(key.end(), {mode.extent, mode.logical_stride, mode.byte_stride});
  return key;
}

npu::Move move_of(npu::Address from, npu::Address to, std::span<const CopyLoop> loops) {
  npu::Move move{.input = from, .output = to};
  std::fill(std::begin(move.extent), std::end(move.extent), 1u);
  DTR_CHECK(loops.size() <= npu::kMoveRank);
  const size_t first = npu::kMoveRank - loops.size();
  for (size_t i = 0; i < loops.size(); ++i) {
    move.extent[first + i] = static_cast<uint32_t>(loops[i].extent);
    move.input_stride[first + i] = static_cast<int32_t>(loops[i].from_step);
    move.output_stride[first + i] = static_cast<int32_t>(loops[i].to_step);
  }
  return move;
}

// An order of elements of that many bytes as one of bytes.
StridedLayout in_bytes(const StridedLayout& layout, int64_t size) {
  if (size == 1) return layout;
  StridedLayout bytes;
  for (const Mode& mode : layout)
    bytes.push_back({mode.extent, mode.logical_stride * size, mode.byte_stride * size});
  bytes.push_back({size, 1, 1});
  return normalized(std::move(bytes));
}

bool fits_one_move(const std::optional<std::vector<CopyLoop>>& loops) {
  return loops && loops->size() <= npu::kMoveRank;
}

}  // namespace

Builder::Builder(const Machine& machine, const Module& module, const Graph& graph, bool join)
    : machine_(machine), module_(module), graph_(graph) {
  if (join) subviews_ = plan_subviews(graph);
  built_.values.resize(graph.value_slots());
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    const uint32_t storage =
        add_storage({Storage::Kind::kInput, i, bytes_of(value.type), value.name});
    built_.values[graph.inputs()[i].index] = Location{storage, 0, strided_layout(value.type)};
  }
}

uint32_t Builder::add_storage(Storage storage) {
  built_.storages.push_back(std::move(storage));
  return static_cast<uint32_t>(built_.storages.size() - 1);
}

const Location& Builder::location(ValueId value) const {
  const std::optional<Location>& at = built_.values[value.index];
  DTR_CHECK(at.has_value());
  return *at;
}

Origin Builder::origin_of(ValueId value) const {
  const OpId op = graph_.producer(value);
  return op.valid() ? graph_.op(op).origin : Origin{};
}

StridedLayout Builder::layout_of(ValueId value) const {
  return graph_.is_constant(value) ? contiguous_layout(graph_.type(value).elements())
                                   : location(value).layout;
}

Placed Builder::placed(ValueId value) {
  if (graph_.is_constant(value)) {
    const StridedLayout plain = contiguous_layout(graph_.type(value).elements());
    return {read(value, plain), plain};
  }
  const Location& at = location(value);
  return {{at.storage, at.offset}, at.layout};
}

npu::Address Builder::constant(std::span<const std::byte> bytes) {
  const auto offset = npu::round_up(static_cast<uint32_t>(block_.size()), npu::kAlignment);
  block_.reserve(npu::round_up(offset + static_cast<uint32_t>(bytes.size()), npu::kAlignment));
  block_.resize(offset);
  block_.insert(block_.end(), bytes.begin(), bytes.end());
  return {kOwnConstants, offset};
}

npu::Address Builder::read(ValueId value, const StridedLayout& wanted) {
  if (graph_.is_constant(value))
    return constant(rearranged(module_.constants.bytes(graph_.value(value).constant), wanted));
  const Location at = location(value);
  const npu::Address address{at.storage, at.offset};
  if (at.layout == wanted) return address;
  const Type& type = graph_.type(value);
  const auto [known, added] = rearranged_.try_emplace({value.index, key_of(wanted, {})});
  if (added) {
    known->second = temporary(bytes_of(type), graph_.value(value).name);
    rearrange(value, address, at.layout, known->second, wanted);
  }
  return known->second;
}

uint32_t Builder::storage_of(ValueId whole) {
  const auto [known, added] = wholes_.try_emplace(whole);
  if (added)
    known->second = add_storage(
        {Storage::Kind::kInterior, 0, bytes_of(graph_.type(whole)), graph_.value(whole).name});
  return known->second;
}

npu::Address Builder::define(ValueId value, StridedLayout layout) {
  const Value& of = graph_.value(value);
  Location at{0, 0, std::move(layout)};
  if (const Subview* part = planned_subview(value); part != nullptr && part->layout == at.layout) {
    at.storage = storage_of(part->whole);
    at.offset = static_cast<uint32_t>(part->offset);
  } else if (started(value)) {
    at.storage = storage_of(value);
  } else {
    at.storage = add_storage({Storage::Kind::kInterior, 0, bytes_of(of.type), of.name});
  }
  built_.values[value.index] = at;
  defined_.push_back(value);
  return {at.storage, at.offset};
}

const Subview* Builder::planned_subview(ValueId value) const {
  const auto part = subviews_.find(value);
  return part == subviews_.end() ? nullptr : &part->second;
}

bool Builder::may_write(const Subview& part, std::span<const ValueId> read) const {
  const auto whole = wholes_.find(part.whole);
  if (whole == wholes_.end()) return true;
  return std::ranges::all_of(read, [&](ValueId value) {
    if (!value.valid() || graph_.is_constant(value)) return true;
    const Location& at = location(value);
    return at.storage != whole->second || disjoint(at.layout, part.layout, part.offset - at.offset);
  });
}

std::optional<StridedLayout> Builder::preferred_layout(ValueId value) const {
  return machine_.options.nxp_like() ? std::nullopt : layout_preferred_by_readers(graph_, value);
}

StridedLayout Builder::layout_to_write(ValueId value, StridedLayout own,
                                       std::span<const ValueId> read) const {
  if (const Subview* part = planned_subview(value))
    return may_write(*part, read) ? part->layout : own;
  return preferred_layout(value).value_or(std::move(own));
}

bool Builder::in_place(ValueId value) const {
  const Subview* part = planned_subview(value);
  if (part == nullptr || !started(part->whole)) return false;
  const Location& at = location(value);
  return at.storage == wholes_.at(part->whole) && at.offset == part->offset &&
         at.layout == part->layout;
}

void Builder::alias(ValueId value, ValueId of) {
  Location at = location(of);
  built_.values[value.index] = std::move(at);
}

void Builder::place(ValueId value, const Placed& at) {
  DTR_CHECK(at.address.region != kOwnConstants);
  const auto calls = static_cast<uint32_t>(built_.calls.size());
  built_.values[value.index] =
      Location{at.address.region, at.address.offset, at.layout, calls == 0 ? 0 : calls - 1};
}

npu::Address Builder::temporary(uint32_t bytes, std::string name) {
  return {add_storage({Storage::Kind::kInterior, 0, bytes, std::move(name)}), 0};
}

void Builder::emit(Kernel kernel, Origin origin, int64_t macs) {
  block_.resize(npu::round_up(static_cast<uint32_t>(block_.size()), npu::kAlignment));
  built_.calls.push_back(
      {kernel, ConstantBlock(std::exchange(block_, {})), std::move(origin), macs});
}

void Builder::copy(npu::Address from, const StridedLayout& from_layout, npu::Address to,
                   const StridedLayout& to_layout, int64_t elements, const Origin& origin) {
  const auto push = [&](const npu::Move& move) {
    // Constants of the call being built wait, unless they are what is copied.
    if (move.input.region == kOwnConstants) return emit(move, origin);
    built_.calls.push_back({move, {}, origin});
  };
  const auto loops = copy_loops(from_layout, to_layout);
  if (fits_one_move(loops)) return push(move_of(from, to, *loops));
  const StridedLayout between = contiguous_layout(elements);
  const npu::Address middle = temporary(static_cast<uint32_t>(elements), "contiguous");
  const auto first = copy_loops(from_layout, between);
  const auto second = copy_loops(between, to_layout);
  DTR_CHECK(fits_one_move(first) &&
            fits_one_move(second));  // no order has more than kMoveRank digits
  push(move_of(from, middle, *first));
  push(move_of(middle, to, *second));
}

void Builder::rearrange(ValueId value, npu::Address from, const StridedLayout& from_layout,
                        npu::Address to, const StridedLayout& to_layout) {
  const size_t first = built_.calls.size();
  const Type& type = graph_.type(value);
  const auto size = static_cast<int64_t>(byte_size(type.dtype));
  copy(from, in_bytes(from_layout, size), to, in_bytes(to_layout, size), type.bytes(),
       origin_of(value));
  if (from_layout == to_layout) return;
  for (size_t i = first; i < built_.calls.size(); ++i)
    built_.calls[i].rearranges = graph_.value(value).name;
}

void Builder::end_op() {
  for (const ValueId value : defined_)
    built_.values[value.index]->after_call = static_cast<uint32_t>(built_.calls.size() - 1);
  defined_.clear();
}

LoweredGraph Builder::finish() {
  for (uint32_t i = 0; i < graph_.outputs().size(); ++i) {
    const ValueId id = graph_.outputs()[i];
    const Value& value = graph_.value(id);
    const StridedLayout wanted = strided_layout(value.type);
    const std::optional<Location>& at = built_.values[id.index];
    if (at && at->offset == 0 && at->layout == wanted &&
        built_.storages[at->storage].kind == Storage::Kind::kInterior &&
        built_.storages[at->storage].bytes == bytes_of(value.type)) {
      built_.storages[at->storage].kind = Storage::Kind::kOutput;
      built_.storages[at->storage].operand = i;
      continue;
    }
    const npu::Address target{
        add_storage({Storage::Kind::kOutput, i, bytes_of(value.type), value.name}), 0};
    if (graph_.is_constant(id)) {
      copy(read(id, wanted), wanted, target, wanted, value.type.elements(), origin_of(id));
    } else {
      rearrange(id, {at->storage, at->offset}, at->layout, target, wanted);
    }
  }
  return std::move(built_);
}

}  // namespace dtr::neutron
