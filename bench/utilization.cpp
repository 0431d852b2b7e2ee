// How full the array is, kernel kind by kernel kind over a grid of shapes: one JSON object a shape
// on standard output, for bench/run.py. Each shape is lowered alone; its cycles are those of its
// calls on the NPU, copies and the host's share not counted.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/ir/parser.h"
#include "compiler/ops/ops.h"
#include "compiler/targets/target.h"

namespace dtr {
namespace {

struct Shape2d {
  int channels, height, width, out, kernel, stride;
};

// Share of the array that channels padded to its sides leave.
double padded_share(int in, int out) {
  const auto full = [](int channels) { return (channels + 7) / 8 * 8; };
  return static_cast<double>(in) * out / (static_cast<double>(full(in)) * full(out));
}

void measure(std::string_view kind, const std::string& shape, const std::string& text,
             double ceiling = 1) {
  Result<Module> module = parse_module(text, "bench.ir");
  if (!module) return fmt::print(stderr, "{}\n", to_text(module.error()));
  const auto backend = make_neutron_backend(dtr::find_target("imxrt700")->npu);
  Graph& graph = module->forward();
  if (const auto refused = backend->refuse(graph, graph.first_op())) {
    fmt::print("{{\"kind\": \"{}\", \"shape\": \"{}\", \"refused\": {}}}\n", kind, shape,
               json_quote(refused->reason));
    return;
  }
  const auto lowered = backend->lower(*module, graph);
  if (!lowered) return fmt::print(stderr, "{}\n", to_text(lowered.error()));
  const BoundOpView view(graph, graph.first_op());
  const int64_t macs = view->def->macs == nullptr ? 0 : view->def->macs(*view);
  uint64_t cycles = 0, most = 0;
  std::string limit, kernel;
  for (const StepInfo& step : (*lowered)->step_info) {
    if (step.cycles == 0) continue;
    cycles += step.cycles;
    if (step.cycles <= most) continue;
    most = step.cycles;
    limit = step.limit;
    kernel = step.kernel;
  }
  uint64_t bytes = 0;
  for (const ValueId input : graph.inputs())
    bytes += static_cast<uint64_t>(graph.type(input).bytes());
  for (const ValueId output : graph.outputs())
    bytes += static_cast<uint64_t>(graph.type(output).bytes());
  fmt::print(
      "{{\"kind\": \"{}\", \"shape\": \"{}\", \"kernel\": \"{}\", \"macs\": {}, \"bytes\": {}, "
      "\"cycles\": {}, \"limit\": \"{}\", "
      "\"ceiling\": {:.3f}}}\n",
      kind, shape, kernel, macs, bytes, cycles, limit, ceiling);
}

void convolution(std::string_view kind, const Shape2d& s, int groups, bool transposed = false) {
  const int pad = transposed ? 0 : s.kernel / 2;
  const auto extent = [&](int in) {
    return transposed ? (in - 1) * s.stride + s.kernel : (in + 2 * pad - s.kernel) / s.stride + 1;
  };
  const std::string weight = transposed ? fmt::format("{},{}", s.channels, s.out / groups)
                                        : fmt::format("{},{}", s.out, s.channels / groups);
  measure(kind,
          fmt::format("{}x{}x{} to {}, kernel {}, stride {}", s.channels, s.height, s.width, s.out,
                      s.kernel, s.stride),
          fmt::format(R"(graph @forward(%x: i8[1,{0},{1},{2}] channels_last quant<0.05>) {{
  %w: i8[{3},{4},{4}] quant<0.01> = constant seeded<1>
  %b: i32[{5}] quant<bias> = constant seeded<2>
  %y: i8[1,{5},{6},{7}] channels_last quant<0.05> = aten.convolution(%x, %w, %b) {{dilation = [1, 1], groups = {8}, output_padding = [0, 0], padding = [{9}, {9}], stride = [{10}, {10}], transposed = {11}}}
  return %y
}})",
                      s.channels, s.height, s.width, weight, s.kernel, s.out, extent(s.height),
                      extent(s.width), groups, pad, s.stride, transposed),
          groups == s.channels ? 1.0 / 8 : padded_share(s.channels / groups, s.out / groups));
}

void linear(int rows, int in, int out) {
  measure("linear", fmt::format("{} x {} to {}", rows, in, out),
          fmt::format(R"(graph @forward(%x: i8[{0},{1}] quant<0.05>) {{
  %w: i8[{2},{1}] quant<0.01> = constant seeded<1>
  %b: i32[{2}] quant<bias> = constant seeded<2>
  %y: i8[{0},{2}] quant<0.05> = aten.linear(%x, %w, %b)
  return %y
}})",
                      rows, in, out),
          padded_share(in, out));
}

void matmul(int batch, int rows, int inner, int columns) {
  measure("matmul", fmt::format("{} x {} x {} x {}", batch, rows, inner, columns),
          fmt::format(
              R"(graph @forward(%x: i8[{0},{1},{2}] quant<0.05>, %z: i8[{0},{2},{3}] quant<0.04>) {{
  %y: i8[{0},{1},{3}] quant<0.5> = aten.matmul(%x, %z)
  return %y
}})",
              batch, rows, inner, columns),
          padded_share(inner, columns));
}

void pool(std::string_view op, const Shape2d& s) {
  const bool max = op == "max_pool2d";
  measure(op,
          fmt::format("{}x{}x{}, kernel {}, stride {}", s.channels, s.height, s.width, s.kernel,
                      s.stride),
          fmt::format(R"(graph @forward(%x: i8[1,{0},{1},{2}] channels_last quant<0.05>) {{
  %y: i8[1,{0},{3},{4}] channels_last quant<0.05> = aten.{5}(%x) {{ceil_mode = false, {6}, kernel_size = [{7}, {7}], padding = [0, 0], stride = [{8}, {8}]}}
  return %y
}})",
                      s.channels, s.height, s.width, (s.height - s.kernel) / s.stride + 1,
                      (s.width - s.kernel) / s.stride + 1, op,
                      max ? "dilation = [1, 1]" : "count_include_pad = true", s.kernel, s.stride));
}

void elementwise(std::string_view op, int elements) {
  const bool binary = op.ends_with(".Tensor");
  measure(op, fmt::format("{} elements", elements),
          fmt::format(R"(graph @forward(%x: i8[1,{0}] quant<0.05>{3}) {{
  %y: i8[1,{0}] quant<0.06> = aten.{1}(%x{2})
  return %y
}})",
                      elements, op, binary ? ", %z" : "",
                      binary ? fmt::format(", %z: i8[1,{}] quant<0.04>", elements) : ""));
}

void softmax(int rows, int columns) {
  measure("softmax", fmt::format("{} x {}", rows, columns),
          fmt::format(R"(graph @forward(%x: i8[{0},{1}] quant<0.05>) {{
  %y: i8[{0},{1}] quant<0.00390625:-128> = aten.softmax(%x) {{dim = 1}}
  return %y
}})",
                      rows, columns));
}

}  // namespace
}  // namespace dtr

int main() {
  using namespace dtr;
  for (const int size : {7, 16, 33})
    for (const int channels : {3, 8, 17, 32, 64})
      for (const int out : {8, 20, 64}) {
        convolution("conv 3x3", {channels, size, size, out, 3, 1}, 1);
        convolution("conv 3x3, stride 2", {channels, size, size, out, 3, 2}, 1);
        convolution("conv 1x1", {channels, size, size, out, 1, 1}, 1);
      }
  for (const int channels : {4, 16, 64}) convolution("conv 5x5", {channels, 20, 20, 32, 5, 1}, 1);
  for (const int size : {7, 20, 48})
    for (const int channels : {8, 20, 64, 256})
      for (const int kernel : {3, 5})
        convolution("depthwise", {channels, size, size, channels, kernel, 1}, channels);
  for (const int groups : {2, 4, 8})
    convolution("grouped conv 3x3", {32, 16, 16, 64, 3, 1}, groups);
  for (const int channels : {8, 32})
    convolution("transposed conv", {channels, 12, 12, 16, 2, 2}, 1, true);
  for (const int rows : {1, 8, 49})
    for (const int in : {64, 250, 1024})
      for (const int out : {10, 128, 1000}) linear(rows, in, out);
  for (const int batch : {1, 4})
    for (const int rows : {17, 64})
      for (const int inner : {16, 50, 128})
        for (const int columns : {17, 64}) matmul(batch, rows, inner, columns);
  for (const std::string_view op : {"max_pool2d", "avg_pool2d"})
    for (const int channels : {8, 20, 64}) pool(op, {channels, 32, 32, channels, 2, 2});
  for (const std::string_view op : {"add.Tensor", "mul.Tensor", "sigmoid", "hardswish"})
    for (const int elements : {100, 1000, 65536}) elementwise(op, elements);
  for (const int columns : {10, 128, 1000}) softmax(16, columns);
  return 0;
}
