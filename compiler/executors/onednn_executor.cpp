#include "compiler/executors/onednn_executor.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "compiler/ops/custom.h"
#include "compiler/ops/define.h"
#include "compiler/support/arena_planner.h"
#include "compiler/support/cancellation.h"

// oneDNN of Debian runs on GNU's OpenMP. Declared here because only g++ brings omp.h.
extern "C" void omp_set_num_threads(int threads);

namespace dtr {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Order : uint8_t { kLogical, kChannelsLast };

// Memory of a value, or of a copy of it in the other order.
struct Buffer {
  enum class Where : uint8_t { kInput, kConstant, kArena } where = Where::kArena;
  size_t input = 0;               // kInput: which
  std::byte* constant = nullptr;  // kConstant
  size_t offset = 0;              // kArena
  ArenaBuffer extent;             // kArena: bytes and live range in steps
};

// A convolution or linear layer of one shape.
struct Layer {
  dnnl::primitive primitive;
  memory::desc x, weight, bias, y, scratchpad;
};

struct Step {
  enum class Kind : uint8_t { kLayer, kReference, kTranspose } kind = Kind::kReference;
  OpId op;                    // kLayer, kReference
  std::vector<int> operands;  // buffers; -1 where an optional operand is absent
  std::vector<int> results;
  Order order = Order::kLogical;  // of the results
  const Layer* layer = nullptr;   // kLayer
  memory weight, bias;            // kLayer; bias empty if there is none
  Type type;                      // kTranspose
};

// NCHW ↔ channels-last of a rank 4 tensor, in tiles that stay in the first cache.
template <class Element>
void transpose_elements(const Element* from, Element* to, const Shape& shape, Order target) {
  constexpr int64_t kTile = 32;
  const int64_t channels = shape[1];
  const int64_t pixels = shape[2] * shape[3];
  const int64_t rows = target == Order::kChannelsLast
                           ? pixels
                           : channels;  // of the result, a matrix for each sample
  const int64_t columns = target == Order::kChannelsLast ? channels : pixels;
  for (int64_t n = 0; n < shape[0]; ++n, from += rows * columns, to += rows * columns)
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
      for (int64_t c0 = 0; c0 < columns; c0 += kTile)
        for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
          for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
            to[r * columns + c] = from[c * rows + r];
}

// Elements are moved as integers of their size: comparisons make booleans.
void transpose(const std::byte* from, std::byte* to, const Type& type, Order target) {
  const auto as = [&]<class Element>(Element) {
    transpose_elements(reinterpret_cast<const Element*>(from), reinterpret_cast<Element*>(to),
                       type.shape, target);
  };
  switch (byte_size(type.dtype)) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    default:
      DTR_CHECK(byte_size(type.dtype) == 8);
      return as(uint64_t{});
  }
}

bool same_in_both_orders(const Shape& shape) {
  return shape.size() != 4 || shape[1] == 1 || shape[2] * shape[3] == 1;
}

// How an op without a layer is evaluated: a model may take codes, which it dequantizes.
auto evaluation(const Graph& graph, const Op& op) {
  const bool reads_codes =
      !op.operands.empty() && op.operands[0].valid() && graph.type(op.operands[0]).quantized();
  return reads_codes ? op.def->evaluate_integer : op.def->evaluate_float;
}

// Runs `body`, which returns a Status. oneDNN throws where it gets no memory: that becomes a
// diagnostic at place(); its other errors are bugs and stay exceptions.
template <class PlaceOf, class Body>
Result<void> with_memory(const PlaceOf& place, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory) throw;
    return tl::unexpected(out_of_memory("the float model in oneDNN", place()));
  }
}

// oneDNN compiles primitives into pages that it does not check for having got: where this much is
// left, it gets them. malloc would keep what it got.
void require_pages_for_code() {
  constexpr size_t kBytes = size_t{8} << 20;
  void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw dnnl::error(dnnl_out_of_memory, "no memory for code");
  munmap(pages, kBytes);
}

// Turns a graph into steps over buffers.
class GraphPlan {
 public:
  GraphPlan(const Module& module, const Graph& graph)
      : module_(module), graph_(graph), buffer_of_(graph.value_slots(), {-1, -1}) {}

  Result<void> build(size_t most_packed_bytes) {
    packs_ = weight_bytes() <= most_packed_bytes;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      place(id, Order::kLogical, add_buffer({.where = Buffer::Where::kInput, .input = i}));
    }
    for (const OpId op : graph_.ops()) {
      if (Result<void> status = with_memory([] { return Place{}; }, [&] { return add_op(op); });
          !status) {
        Diagnostic diagnostic = std::move(status).error();
        diagnostic.place = place_of(module_, graph_, op);
        return tl::unexpected(std::move(diagnostic));
      }
    }
    for (const ValueId output : graph_.outputs()) fetch(output, Order::kLogical);
    for (const ValueId output : graph_.outputs()) use(buffer(output, Order::kLogical));
    assign_offsets();
    return {};
  }

  // Buffer that holds a value in that order, or -1.
  int buffer(ValueId value, Order order) const {
    return buffer_of_[value.index].at(static_cast<size_t>(order));
  }
  const Buffer& at(int buffer) const { return buffers_[static_cast<size_t>(buffer)]; }
  const std::vector<Step>& steps() const { return steps_; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  const dnnl::engine& engine() const { return engine_; }

 private:
  // Of linear layers.
  size_t weight_bytes() const {
    size_t bytes = 0;
    for (const OpId id : graph_.ops()) {
      const Op& op = graph_.op(id);
      if (op.def == &ops::kLinear && graph_.is_constant(op.operands[1]))
        bytes += static_cast<size_t>(graph_.type(op.operands[1]).bytes());
    }
    return bytes;
  }

  int add_buffer(Buffer buffer) {
    buffer.extent.alignment = 64;
    buffer.extent.first = buffer.extent.last = static_cast<int32_t>(steps_.size());
    buffers_.push_back(buffer);
    return static_cast<int>(buffers_.size()) - 1;
  }
  int add_arena_buffer(const Type& type) {
    const int id = add_buffer({});
    buffers_.back().extent.size = std::max<int64_t>(type.bytes(), 1);
    return id;
  }
  void place(ValueId value, Order order, int buffer) {
    std::array<int, 2>& both = buffer_of_[value.index];
    both.at(static_cast<size_t>(order)) = buffer;
    if (same_in_both_orders(graph_.type(value).shape)) both = {buffer, buffer};
  }
  void use(int buffer) {
    buffers_[static_cast<size_t>(buffer)].extent.last = static_cast<int32_t>(steps_.size());
  }

  // The buffer of a value in that order, transposed first where only the other is there.
  int fetch(ValueId value, Order order) {
    if (graph_.is_constant(value) && buffer(value, Order::kLogical) < 0) {
      // Evaluation only reads operands, so that the pool's memory may be viewed as a tensor.
      const std::span<const std::byte> bytes =
          module_.constants.bytes(graph_.value(value).constant);
      place(value, Order::kLogical,
            add_buffer({.where = Buffer::Where::kConstant,
                        .constant = const_cast<std::byte*>(bytes.data())}));
    }
    if (buffer(value, order) < 0) {
      const int from =
          buffer(value, order == Order::kLogical ? Order::kChannelsLast : Order::kLogical);
      const int to = add_arena_buffer(graph_.type(value));
      use(from);
      place(value, order, to);
      steps_.push_back({.kind = Step::Kind::kTranspose,
                        .operands = {from},
                        .results = {to},
                        .order = order,
                        .type = graph_.type(value)});
    }
    return buffer(value, order);
  }

  Result<void> add_op(OpId id) {
    const BoundOpView view(graph_, id);
    DTR_TRY(verify_op(*view));
    const Op& op = graph_.op(id);
    for (const ValueId result : op.results)
      if (graph_.type(result).quantized())
        return fail(DiagnosticId::kIrInvalid,
                    fmt::format("{} on quantized types cannot run in oneDNN", op.def->name));
    if (const Layer* layer = runs_as_layer(*view, op) ? find_layer(*view) : nullptr) {
      add_layer(id, *view, *layer);
      return {};
    }
    if (evaluation(graph_, op) == nullptr)
      return fail(DiagnosticId::kIrInvalid,
                  fmt::format("{} cannot be evaluated in float", op.def->name));
    // An elementwise op without broadcasting may work on elements in any order, as long as it is
    // one; batch_norm in both.
    Order order = Order::kLogical;
    const auto is_only_channels_last = [&](ValueId v) {
      return buffer(v, Order::kChannelsLast) >= 0 && buffer(v, Order::kLogical) < 0;
    };
    const bool is_elementwise =
        op.def->has_trait(kElementwise) && std::ranges::all_of(op.operands, [&](ValueId v) {
          return v.valid() && graph_.type(v).shape == view->result().shape;
        });
    if (is_elementwise ? std::ranges::any_of(op.operands, is_only_channels_last)
                       : op.def == &ops::kBatchNorm && is_only_channels_last(op.operands[0]))
      order = Order::kChannelsLast;
    Step step{.op = id, .order = order};
    for (const ValueId operand : op.operands)
      step.operands.push_back(operand.valid() ? fetch(operand, order) : -1);
    finish(std::move(step));
    return {};
  }

  // Appends a step of an op whose operands are fetched.
  void finish(Step step) {
    for (const int operand : step.operands)
      if (operand >= 0) use(operand);
    for (const ValueId result : graph_.op(step.op).results) {
      const int buffer = add_arena_buffer(graph_.type(result));
      place(result, step.order, buffer);
      step.results.push_back(buffer);
    }
    steps_.push_back(std::move(step));
  }

  // The forms that oneDNN gets: float, weights constant, convolutions over two axes.
  bool runs_as_layer(const OpView& view, const Op& op) const {
    const bool linear = op.def == &ops::kLinear;
    if (!linear && (op.def != &ops::kConvolution || view.operand(0).rank() != 4 ||
                    view.attribute<bool>("transposed")))
      return false;
    if (view.operand(0).dtype != DType::kFloat32 || view.result().elements() == 0) return false;
    return std::all_of(op.operands.begin() + 1, op.operands.end(),
                       [&](ValueId id) { return !id.valid() || graph_.is_constant(id); });
  }

  void add_layer(OpId id, const OpView& view, const Layer& layer) {
    const Op& op = graph_.op(id);
    const Order order = op.def == &ops::kLinear ? Order::kLogical : Order::kChannelsLast;
    Step step{.kind = Step::Kind::kLayer, .op = id, .order = order, .layer = &layer};
    const memory given(plain_weight_desc(view), engine_, constant_data(op.operands[1]));
    if (layer.weight == given.get_desc()) {
      step.weight = given;
    } else {
      step.weight = memory(layer.weight, engine_);
      require_pages_for_code();
      dnnl::reorder(given, step.weight)
          .execute(stream_, {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, step.weight}});
    }
    if (view.has(2)) step.bias = memory(layer.bias, engine_, constant_data(op.operands[2]));
    step.operands = {fetch(op.operands[0], order)};
    finish(std::move(step));
  }

  void* constant_data(ValueId value) const {
    return const_cast<std::byte*>(module_.constants.bytes(graph_.value(value).constant).data());
  }

  static memory::desc plain_weight_desc(const OpView& view) {
    const Shape& w = view.operand(1).shape;
    if (view.def == &ops::kLinear) return {w, memory::data_type::f32, Tag::ab};
    const int64_t groups = view.attribute<int64_t>("groups");
    if (groups == 1) return {w, memory::data_type::f32, Tag::abcd};
    return {{groups, w[0] / groups, w[1], w[2], w[3]}, memory::data_type::f32, Tag::abcde};
  }

  // The primitive for the op's shapes and attributes, made once; nullptr if oneDNN has none.
  const Layer* find_layer(const OpView& view) {
    std::string key = fmt::format("{} {} {} {}", view.def->name, to_string(view.operand(0).shape),
                                  to_string(view.operand(1).shape), view.has(2));
    for (const Attributes::Entry& entry : *view.attributes) {
      key += ' ';
      key += entry.first;
      if (const auto* ints = std::get_if<Ints>(&entry.second))
        key += fmt::format("={}", fmt::join(*ints, ","));
      if (const auto* number = std::get_if<int64_t>(&entry.second))
        key += fmt::format("={}", *number);
      if (const auto* text = std::get_if<std::string>(&entry.second)) key += *text;
    }
    const auto [at, inserted] = layers_.try_emplace(key);
    if (inserted) {
      require_pages_for_code();
      try {
        at->second = view.def == &ops::kLinear ? make_linear(view) : make_convolution(view);
        scratchpad_bytes_ = std::max(scratchpad_bytes_, at->second->scratchpad.get_size());
      } catch (const dnnl::error& error) {
        if (error.status == dnnl_out_of_memory) throw;
        // Not a form that oneDNN has: the reference evaluation runs it.
      }
    }
    return at->second ? &*at->second : nullptr;
  }

  static dnnl::primitive_attr attributes_of(const OpView& view) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // a primitive then has no state
                                                                  // and may run in several threads
    const ops::RealBounds bounds = ops::activation_bounds(view);
    dnnl::post_ops after;
    if (bounds.low == 0 && std::isinf(bounds.high))
      after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    else if (std::isfinite(bounds.low) && std::isfinite(bounds.high))
      after.append_eltwise(1.0F, dnnl::algorithm::eltwise_clip, static_cast<float>(bounds.low),
                           static_cast<float>(bounds.high));
    attributes.set_post_ops(after);
    return attributes;
  }

  template <class PrimitiveDesc>
  static Layer layer_of(const PrimitiveDesc& desc, dnnl::primitive primitive) {
    return {std::move(primitive), desc.src_desc(), desc.weights_desc(),
            desc.bias_desc(),     desc.dst_desc(), desc.scratchpad_desc()};
  }

  Layer make_convolution(const OpView& view) const {
    const auto type = memory::data_type::f32;
    const Ints& padding = view.attribute<Ints>("padding");
    const Ints padding_end = view.attribute_or("padding_end", padding);
    Ints dilation = view.attribute<Ints>("dilation");
    for (int64_t& d : dilation) --d;  // oneDNN counts the gaps
    const memory::desc x(view.operand(0).shape, type, Tag::acdb);
    const memory::desc y(view.result().shape, type, Tag::acdb);
    const memory::desc weight(plain_weight_desc(view).dims(), type, Tag::any);
    const memory::desc bias =
        view.has(2) ? memory::desc(view.operand(2).shape, type, Tag::a) : memory::desc();
    const dnnl::convolution_forward::desc wanted(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, weight, bias, y,
        view.attribute<Ints>("stride"), dilation, padding, padding_end);
    const dnnl::convolution_forward::primitive_desc desc(wanted, attributes_of(view), engine_);
    return layer_of(desc, dnnl::convolution_forward(desc));
  }

  Layer make_linear(const OpView& view) const {
    const auto type = memory::data_type::f32;
    const Shape& w = view.operand(1).shape;
    const int64_t rows = view.operand(0).elements() / w[1];
    const memory::desc x({rows, w[1]}, type, Tag::ab);
    const memory::desc y({rows, w[0]}, type, Tag::ab);
    const memory::desc weight(w, type, packs_ ? Tag::any : Tag::ab);
    const memory::desc bias =
        view.has(2) ? memory::desc(view.operand(2).shape, type, Tag::a) : memory::desc();
    const dnnl::inner_product_forward::desc wanted(dnnl::prop_kind::forward_inference, x, weight,
                                                   bias, y);
    const dnnl::inner_product_forward::primitive_desc desc(wanted, attributes_of(view), engine_);
    return layer_of(desc, dnnl::inner_product_forward(desc));
  }

  void assign_offsets() {
    std::vector<ArenaBuffer> extents;
    for (const Buffer& buffer : buffers_)
      if (buffer.where == Buffer::Where::kArena) extents.push_back(buffer.extent);
    const ArenaPlan arena = plan_arena_greedy(extents);
    size_t next = 0;
    for (Buffer& buffer : buffers_)
      if (buffer.where == Buffer::Where::kArena)
        buffer.offset = static_cast<size_t>(arena.offsets[next++]);
    arena_bytes_ = static_cast<size_t>(arena.total);
  }

  const Module& module_;
  const Graph& graph_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<std::array<int, 2>> buffer_of_;  // by value and order
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  std::map<std::string, std::optional<Layer>> layers_;
  size_t arena_bytes_ = 0;
  size_t scratchpad_bytes_ = 0;
  bool packs_ = true;  // weights of linear layers
};

class OneDnnExecutor final : public Executor {
 public:
  OneDnnExecutor(const Module& module, const Graph& graph, const OneDnnOptions& options)
      : module_(module), graph_(graph), options_(options), plan_(module, graph) {}

  Result<void> build() {
    omp_set_num_threads(1);
    return plan_.build(options_.most_packed_bytes);
  }

  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                  const ValueObserver& observer) override {
    DTR_CHECK(inputs.size() == graph_.inputs().size());
    omp_set_num_threads(1);  // of this thread: samples run in parallel, not loops
    Workspace workspace = take();
    const Run run{inputs, workspace.arena.view().data};
    if (observer)
      for (size_t i = 0; i < inputs.size(); ++i) observer(graph_.inputs()[i], inputs[i]);
    const dnnl::stream stream(plan_.engine());
    for (size_t i = 0; i < plan_.steps().size(); ++i) {
      const Step& step = plan_.steps()[i];
      check_cancelled();
      const auto place = [&] {
        return step.op.valid() ? place_of(module_, graph_, step.op) : Place{};
      };
      const auto executed = [&]() -> Result<void> {
        execute(step, run, stream, workspace.arguments[i]);
        return step.op.valid() ? ops::kernel_status(module_, graph_, step.op) : Result<void>{};
      };
      DTR_TRY(with_memory(place, executed));
      if (observer && step.kind != Step::Kind::kTranspose)
        for (const ValueId result : graph_.op(step.op).results)
          observe(result, step.order, run, observer);
    }
    std::vector<Tensor> outputs;
    for (const ValueId output : graph_.outputs()) {
      const TensorView view = view_of(output, Order::kLogical, run);
      outputs.push_back(Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()}));
    }
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
    return outputs;
  }

 private:
  // Memory of one run at a time.
  struct Workspace {
    Tensor arena;
    Tensor scratchpad;
    std::vector<std::unordered_map<int, memory>> arguments;  // by step; of layers
  };
  struct Run {
    std::span<const TensorView> inputs;
    std::byte* arena;
  };

  Workspace take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Workspace workspace = std::move(free_.back());
      free_.pop_back();
      return workspace;
    }
    const auto bytes = [](size_t count) {
      return Tensor(DType::kInt8, {static_cast<int64_t>(count)});
    };
    Workspace made{bytes(plan_.arena_bytes()), bytes(plan_.scratchpad_bytes()), {}};
    for (const Step& step : plan_.steps()) made.arguments.push_back(arguments_of(step, made));
    return made;
  }

  // An input has an address in a run alone.
  std::unordered_map<int, memory> arguments_of(const Step& step, const Workspace& workspace) const {
    if (step.kind != Step::Kind::kLayer) return {};
    const dnnl::engine& engine = plan_.engine();
    const auto in_arena = [&](const memory::desc& desc, int buffer) {
      const Buffer& at = plan_.at(buffer);
      return memory(desc, engine,
                    at.where == Buffer::Where::kInput
                        ? nullptr
                        : data(buffer, {{}, workspace.arena.view().data}));
    };
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, in_arena(step.layer->x, step.operands[0])},
        {DNNL_ARG_WEIGHTS, step.weight},
        {DNNL_ARG_DST, in_arena(step.layer->y, step.results[0])},
        {DNNL_ARG_SCRATCHPAD,
         memory(step.layer->scratchpad, engine, workspace.scratchpad.view().data)}};
    if (step.bias) arguments.emplace(DNNL_ARG_BIAS, step.bias);
    return arguments;
  }

  std::byte* data(int buffer, const Run& run) const {
    const Buffer& at = plan_.at(buffer);
    switch (at.where) {
      case Buffer::Where::kInput:
        return run.inputs[at.input].data;
      case Buffer::Where::kConstant:
        return at.constant;
      default:
        return run.arena + at.offset;
    }
  }
  TensorView view_of(ValueId value, Order order, const Run& run) const {
    return {graph_.type(value).dtype, graph_.type(value).shape,
            data(plan_.buffer(value, order), run)};
  }

  void execute(const Step& step, const Run& run, const dnnl::stream& stream,
               std::unordered_map<int, memory>& arguments) const {
    switch (step.kind) {
      case Step::Kind::kTranspose:
        return transpose(data(step.operands[0], run), data(step.results[0], run), step.type,
                         step.order);
      case Step::Kind::kLayer: {
        if (plan_.at(step.operands[0]).where == Buffer::Where::kInput)
          arguments.at(DNNL_ARG_SRC).set_data_handle(data(step.operands[0], run));
        return step.layer->primitive.execute(stream, arguments);
      }
      case Step::Kind::kReference: {
        const Op& op = graph_.op(step.op);
        std::vector<TensorView> operands, results;
        const auto view = [&](ValueId value) {
          if (!value.valid()) return TensorView{};
          TensorView tensor = view_of(value, step.order, run);
          // Channels that come last are dimension 1 of rows of pixels.
          if (op.def == &ops::kBatchNorm && step.order == Order::kChannelsLast &&
              tensor.shape.size() == 4)
            tensor.shape = {tensor.shape[0] * tensor.shape[2] * tensor.shape[3], tensor.shape[1]};
          return tensor;
        };
        std::ranges::transform(op.operands, std::back_inserter(operands), view);
        std::ranges::transform(op.results, std::back_inserter(results), view);
        return evaluation(graph_, op)(BoundOpView(graph_, step.op), operands, results);
      }
    }
  }

  void observe(ValueId value, Order order, const Run& run, const ValueObserver& observer) const {
    TensorView view = view_of(value, order, run);
    if (order == Order::kLogical || same_in_both_orders(view.shape)) return observer(value, view);
    const Shape channels_last{view.shape[0], view.shape[2], view.shape[3], view.shape[1]};
    if (options_.observe_any_layout && channels_last != view.shape) {
      view.shape = channels_last;
      return observer(value, view);
    }
    const Tensor logical(view.dtype, view.shape);
    transpose(view.data, logical.view().data, graph_.type(value), Order::kLogical);
    observer(value, logical.view());
  }

  const Module& module_;
  const Graph& graph_;
  OneDnnOptions options_;
  GraphPlan plan_;
  std::mutex mutex_;
  std::vector<Workspace> free_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_onednn_executor(const Module& module, const Graph& graph,
                                                       const OneDnnOptions& options) {
  std::unique_ptr<OneDnnExecutor> executor;
  const auto build = [&] {
    executor = std::make_unique<OneDnnExecutor>(module, graph, options);
    return executor->build();
  };
  DTR_TRY(with_memory([] { return Place{}; }, build));
  return executor;
}

}  // namespace dtr
