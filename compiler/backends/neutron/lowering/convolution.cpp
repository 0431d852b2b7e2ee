// aten.convolution. One call computes one group, or several groups whose weights form a
// block-diagonal matrix if the array has spare lanes and pipelines; each call reads and writes its
// channels in place in the tensors of all groups. With one input channel per group, one depthwise
// call computes all groups.
//
// A transposed convolution is stride_h · stride_w ordinary ones: outputs that are a stride apart
// use the same taps of the kernel, at neighbouring inputs. Each such phase is a call with its part
// of the kernel, whose outputs are a stride apart.
#include <algorithm>
#include <numeric>

#include "compiler/backends/neutron/lowering/accumulation.h"
#include "compiler/backends/neutron/lowering/image.h"
#include "compiler/backends/neutron/lowering/padding.h"
#include "compiler/ops/convolution.h"

namespace dtr::neutron {
namespace {

// Outputs first, first + step, … of one axis as a convolution of its own.
struct Phase {
  int64_t first = 0, step = 1, count = 0;
  std::vector<int64_t> taps;  // of the kernel, in the order of their inputs in memory; none: no
                              // input reaches these outputs
  int64_t stride = 1, dilation = 1, pad = 0;
};

std::vector<int64_t> numbers(int64_t first, int64_t step, int64_t end) {
  std::vector<int64_t> result;
  for (int64_t value = first; value < end; value += step) result.push_back(value);
  return result;
}

// Output o = i · stride − pad + k · dilation of input i and tap k. With g = gcd(stride, dilation)
// the taps of one output are every (stride / g)-th, and from one to the next the input moves by
// −dilation / g.
std::vector<Phase> phases_of(const ops::WindowAxis& axis, bool transposed) {
  if (!transposed)
    return {{.count = axis.out,
             .taps = numbers(0, 1, axis.kernel),
             .stride = axis.stride,
             .dilation = axis.dilation,
             .pad = axis.pad}};
  const int64_t divisor = std::gcd(axis.stride, axis.dilation);
  std::vector<Phase> phases;
  for (int64_t first = 0; first < std::min(axis.stride, axis.in); ++first) {
    Phase phase{.first = first,
                .step = axis.stride,
                .count = (axis.in - first + axis.stride - 1) / axis.stride};
    phase.dilation = axis.dilation / divisor;
    const int64_t from = first + axis.pad;
    int64_t tap = 0;
    while (tap < axis.stride / divisor && (from - tap * axis.dilation) % axis.stride != 0) ++tap;
    if (tap < axis.stride / divisor) phase.taps = numbers(tap, axis.stride / divisor, axis.kernel);
    if (!phase.taps.empty()) {
      const int64_t reached = (from - tap * axis.dilation) /
                              axis.stride;  // input of the first output under the first tap
      phase.pad = (static_cast<int64_t>(phase.taps.size()) - 1) * phase.dilation - reached;
      std::ranges::reverse(phase.taps);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

// One call: groups [group, group + groups) of one phase of either axis.
struct Part {
  const Phase* h;
  const Phase* w;
  int64_t group = 0, groups = 1;
  npu::Window window;  // over dense tensors
  Mapping mapping;

  bool without_taps() const { return h->taps.empty() || w->taps.empty(); }
};

struct CallPlan {
  ops::ConvolutionShape shape;
  std::vector<Phase> rows, columns;
  std::vector<Part> parts;  // point into the phases
};

Part part_of(const Machine& machine, const ops::ConvolutionShape& shape, const Phase& h,
             const Phase& w, int64_t group, int64_t groups) {
  Part part{.h = &h, .w = &w, .group = group, .groups = groups, .window = {}, .mapping = {}};
  const auto& [rows, columns] = shape.window;
  const bool none = part.without_taps();  // then the bias alone: a tap of weight 0 over one channel
  npu::Window window{.batch = word(shape.batch),
                     .in_height = word(shape.transposed ? rows.out : rows.in),
                     .in_width = word(shape.transposed ? columns.out : columns.in),
                     .in_channels = none ? 1 : word(groups * shape.in),
                     .out_height = word(h.count),
                     .out_width = word(w.count),
                     .out_channels = word(groups * shape.out),
                     .kernel_height = none ? 1 : word(static_cast<int64_t>(h.taps.size())),
                     .kernel_width = none ? 1 : word(static_cast<int64_t>(w.taps.size())),
                     .stride_height = word(h.stride),
                     .stride_width = word(w.stride),
                     .dilation_height = word(h.dilation),
                     .dilation_width = word(w.dilation)};
  if (!none)
    window.pad_top = static_cast<int32_t>(h.pad), window.pad_left = static_cast<int32_t>(w.pad);
  part.window = npu::dense(window);
  part.mapping = choose_mapping(machine, part.window, none || (shape.in == 1 && groups > 1));
  return part;
}

uint64_t cost_of(const npu::Target& target, const Part& part) {
  return accumulation_cycles(target, part.window, part.mapping);
}

// As many groups in one call as take the least time together, if the sum fits an accumulator.
int64_t groups_a_call(const Machine& machine, const ops::ConvolutionShape& shape, const Phase& h,
                      const Phase& w) {
  if (shape.in == 1) return shape.groups;
  constexpr int64_t kMostJoined = 64;
  const npu::Target& target = machine.target;
  const int64_t taps = std::max<int64_t>(1, static_cast<int64_t>(h.taps.size() * w.taps.size()));
  int64_t best = 1;
  uint64_t best_cost = UINT64_MAX;
  for (int64_t joined = 1; joined <= std::min(shape.groups, kMostJoined); ++joined) {
    if (joined > 1 && (joined * shape.in + target.macs - 1) / target.macs * target.macs * taps >
                          target.max_reduction)
      break;
    const int64_t rest = shape.groups % joined;
    uint64_t cost = static_cast<uint64_t>(shape.groups / joined) *
                    cost_of(target, part_of(machine, shape, h, w, 0, joined));
    if (rest > 0) cost += cost_of(target, part_of(machine, shape, h, w, 0, rest));
    if (cost >= best_cost) continue;
    best = joined;
    best_cost = cost;
  }
  return best;
}

std::unique_ptr<CallPlan> plan_of(const Machine& machine, const OpView& view) {
  auto plan = std::make_unique<CallPlan>();
  plan->shape = ops::convolution_shape(view);
  const ops::ConvolutionShape& shape = plan->shape;
  plan->rows = phases_of(shape.window.h, shape.transposed);
  plan->columns = phases_of(shape.window.w, shape.transposed);
  for (const Phase& h : plan->rows)
    for (const Phase& w : plan->columns) {
      const int64_t joined = groups_a_call(machine, shape, h, w);
      for (int64_t group = 0; group < shape.groups; group += joined)
        plan->parts.push_back(
            part_of(machine, shape, h, w, group, std::min(joined, shape.groups - group)));
    }
  return plan;
}

// The weights of a part, from (groups · out, in, kH, kW), or transposed (groups · in, out, kH, kW).
Filters filters_of(const CallPlan& plan, const Part& part, std::span<const int8_t> weights) {
  const ops::ConvolutionShape& shape = plan.shape;
  if (part.without_taps())
    return {.out = part.groups * shape.out,
            .in = 1,
            .weights = std::vector<int8_t>(static_cast<size_t>(part.groups * shape.out))};
  const auto height = static_cast<int64_t>(part.h->taps.size()),
             width = static_cast<int64_t>(part.w->taps.size());
  const int64_t kernel_height = shape.window.h.kernel, kernel_width = shape.window.w.kernel;
  const int64_t joined =
      part.mapping.depthwise
          ? 1
          : part.groups;  // a depthwise filter sees the channels of its own group only
  Filters filters{.out = part.groups * shape.out,
                  .height = height,
                  .width = width,
                  .in = joined * shape.in,
                  .weights = {}};
  filters.weights.resize(static_cast<size_t>(filters.out * filters.reduction()));
  for (int64_t g = 0; g < part.groups; ++g)
    for (int64_t o = 0; o < shape.out; ++o)
      for (int64_t i = 0; i < shape.in; ++i) {
        const int64_t group = part.group + g;
        const int64_t plane = shape.transposed ? (group * shape.in + i) * shape.out + o
                                               : (group * shape.out + o) * shape.in + i;
        const int8_t* from = weights.data() + plane * kernel_height * kernel_width;
        const int64_t lane = joined == 1 ? i : g * shape.in + i;
        int8_t* to = filters.weights.data() + (g * shape.out + o) * filters.reduction() + lane;
        for (const int64_t y : part.h->taps)
          for (const int64_t x : part.w->taps) {
            *to = from[y * kernel_width + x];
            to += filters.in;
          }
      }
  return filters;
}

// Before a convolution of few channels NXP's converter lists a Pad where the kernel is larger than
// 3 × 3, none where it is not.
bool pads_separately(const Machine& machine, const ops::ConvolutionShape& shape) {
  const auto& [h, w] = shape.window;
  return machine.options.nxp_like() && !shape.transposed && shape.groups == 1 &&
         shape.in % machine.target.macs != 0 && (h.kernel > 3 || w.kernel > 3);
}

// Brings the input into memory with its padding and lanes that it does not fill: `window` then has
// none, and its filters have as many.
npu::Address pad_separately(Builder& builder, const Value& input, const Pixels& at,
                            const ops::ConvolutionShape& shape, const Origin& origin,
                            npu::Window& window, Filters& filters) {
  npu::Window pad = window;
  pad.in = at.strides;
  pad.out_height = word(shape.window.h.in + shape.window.h.pad + shape.window.h.pad_end);
  pad.out_width = word(shape.window.w.in + shape.window.w.pad + shape.window.w.pad_end);
  pad.out_channels = npu::round_up(window.in_channels, builder.target().macs);
  const npu::Address padded =
      emit_pad(builder, pad, at.address, input.type.quantization->zero_point(), input.name, origin);
  Filters wide{.out = filters.out,
               .height = filters.height,
               .width = filters.width,
               .in = pad.out_channels,
               .weights = {}};
  wide.weights.resize(static_cast<size_t>(wide.out * wide.reduction()));
  for (size_t tap = 0; tap * static_cast<size_t>(filters.in) < filters.weights.size(); ++tap)
    std::copy_n(filters.weights.begin() + static_cast<ptrdiff_t>(tap) * filters.in, filters.in,
                wide.weights.begin() + static_cast<ptrdiff_t>(tap) * wide.in);
  filters = std::move(wide);
  window.in_height = pad.out_height;
  window.in_width = pad.out_width;
  window.in_channels = pad.out_channels;
  window.pad_top = window.pad_left = 0;
  const npu::Strides out = window.out;
  window = npu::dense(window);
  window.out = out;
  return padded;
}

uint64_t cost(const Machine& machine, const OpView& view) {
  uint64_t sum = 0;
  const std::unique_ptr<CallPlan> plan = plan_of(machine, view);
  for (const Part& part : plan->parts) sum += cost_of(machine.target, part);
  return sum;
}

ops::Window window(const OpQuery& q) {
  ops::Window window = ops::convolution_shape(q.view).window;
  if (q.view.attribute<bool>("transposed"))
    window.h.stride = window.w.stride = 1;  // of its outputs, of which the machine knows nothing
  return window;
}
constexpr int64_t kMostCalls = 1024;

uint64_t staged(const OpQuery& q) {
  uint64_t most = 0;
  const std::unique_ptr<CallPlan> plan = plan_of(machine_of(q), q.view);
  for (const Part& part : plan->parts)
    most = std::max(most, least_staged_bytes(machine_of(q).target, part.window, part.mapping));
  return most;
}
// A transposed convolution writes rows of its result in turns, which do not run in stripes.
int64_t operand_rows(const OpQuery& q) {
  return q.view.attribute<bool>("transposed") ? 0 : rows_under(window(q).h);
}
// At most, were no groups to share a call.
int64_t calls(const OpQuery& q) {
  const ops::ConvolutionShape shape = ops::convolution_shape(q.view);
  const int64_t groups = shape.in == 1 ? 1 : shape.groups;
  const auto phases = [&](const ops::WindowAxis& axis) {
    return shape.transposed ? std::min(axis.stride, axis.in) : 1;
  };
  int64_t count = groups * phases(shape.window.h) * phases(shape.window.w);
  if (count > kMostCalls) return count;
  count = 0;
  for (const Phase& h : phases_of(shape.window.h, shape.transposed))
    for (const Phase& w : phases_of(shape.window.w, shape.transposed)) {
      const Part part = part_of(machine_of(q), shape, h, w, 0, shape.groups / groups);
      count += groups * static_cast<int64_t>(
                            shares_of(machine_of(q).target, part.window, part.mapping).size());
      if (count > kMostCalls) return count;
    }
  return count;
}
constexpr Condition kCalls{
    "npu-convolution-calls",
    "a convolution takes at most 1024 calls of the NPU: one for each group, times stride x stride "
    "if it is transposed, "
    "times how often a kernel over all channels exceeds {max_reduction} products",
    "use fewer groups, a smaller kernel, or a smaller stride of the transposed convolution",
    [](const OpQuery& q) -> std::optional<std::string> {
      const int64_t count = calls(q);
      return count <= kMostCalls ? std::nullopt
                                 : std::optional(fmt::format("this one would take {}", count));
    }};
constexpr Condition kPadding{"npu-padding", "the NPU takes padding of at most 16777216 per axis",
                             "choose less padding", [](const OpQuery& q) {
                               const ops::Window of = window(q);
                               return beyond(npu::kMaxPad / 2, of.h.pad, of.w.pad);
                             }};
constexpr const Condition* kConditions[] = {&kInt8Operand,
                                            &kNotEmpty,
                                            &kConstantWeight,
                                            &kConstantBias,
                                            &kKernelSize<window>,
                                            &kStride<window>,
                                            &kDilation<window>,
                                            &kPadding,
                                            &kCalls,
                                            &kRowFitsSram<staged, operand_rows>};

npu::Address moved(npu::Address address, int64_t bytes) {
  return {address.region, address.offset + word(bytes)};
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const std::unique_ptr<CallPlan> plan = plan_of(builder.machine(), *view);
  const ops::ConvolutionShape& shape = plan->shape;
  const auto weights =
      builder.module().constants.values<int8_t>(graph.value(op.operands[1]).constant);
  const ImageDims dims = view->operand(0).rank() == 4 ? kBatchOfImages : kBatchOfRows;
  const ValueId other = addend_of(graph, group);
  const int64_t macs = op.def->macs(*view) / (shape.groups * shape.taps());

  std::optional<Pixels> output;
  for (size_t i = 0; i < plan->parts.size(); ++i) {
    const Part& part = plan->parts[i];
    const Pixels input = read_image(builder, op.operands[0], dims);
    const Pixels addend = other.valid() ? read_image(builder, other, dims) : Pixels{};
    if (!output)
      output = define_image(builder, graph.op(group.root()).results[0], dims,
                            std::array{op.operands[0], other});
    // In a tensor like the result: the address of the part's first output, and the distances of its
    // outputs.
    const auto first = [&](const Pixels& of) {
      return moved(of.address, part.group * shape.out + part.h->first * of.strides.row +
                                   part.w->first * of.strides.pixel);
    };
    const auto with_pixel_gaps = [&](const npu::Strides& of) {
      return npu::Strides{of.pixel * word(part.w->step), of.row * word(part.h->step), of.batch};
    };
    Accumulation call{.window = part.window,
                      .mapping = part.mapping,
                      .input = moved(input.address, part.group * shape.in),
                      .output = first(*output),
                      .addend = first(addend),
                      .addend_strides = with_pixel_gaps(addend.strides),
                      .first_channel = part.group * shape.out,
                      .macs = macs * part.groups *
                              static_cast<int64_t>(part.h->taps.size() * part.w->taps.size()),
                      .part = static_cast<uint32_t>(i),
                      .parts = static_cast<uint32_t>(plan->parts.size())};
    call.window.in = input.strides;
    call.window.out = with_pixel_gaps(output->strides);
    Filters filters = filters_of(*plan, part, weights);
    if (pads_separately(builder.machine(), shape))
      call.input = pad_separately(builder, graph.value(op.operands[0]), input, shape, op.origin,
                                  call.window, filters);
    emit_accumulation(builder, group, call, filters);
  }
}

constexpr LoweringRule kRules[] = {
    {&ops::kConvolution, kConditions, channels_last, nullptr, lower, Absorbs::kEpilogue, cost}};

}  // namespace

std::span<const LoweringRule> convolution_rules() { return kRules; }

}  // namespace dtr::neutron
