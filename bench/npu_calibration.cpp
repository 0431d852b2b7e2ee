// The machine of docs/npu.md against the latencies that NXP publishes for i.MX RT700 (shared hardware notes, B.4): builds the three
// models with seeded weights, lowers them as NXP's runtime would, one call a kernel, and prints the model's error.
//
// What is known of those runs: CIFARNet and MobileNetV1-0.25 fit SRAM with their weights; MobileNetV1-1.0 streams them from flash
// through a buffer of 1,082,368 bytes. That is, to the byte, weights and parameters (12 bytes a channel) of its last depthwise and
// pointwise layers together: constants are copied one call ahead.
#include <fmt/core.h>

#include <cmath>

#include "backends/neutron/partition.h"
#include "ir/parser.h"

namespace {

using namespace dtr;  // NOLINT(google-build-using-namespace): a program

// Appends quantized ops to the text of a graph, channels-last.
class Network {
 public:
  Network(int channels, int size) : channels_(channels), size_(size) {
    text_ = fmt::format("graph @forward(%v0: i8[1,{},{},{}] channels_last quant<0.05>) {{\n", channels, size, size);
  }

  void convolution(int out, int kernel, int stride, int padding, int groups = 1) {
    const int size = (size_ + 2 * padding - kernel) / stride + 1;
    // TFLite's SAME padding of an even input at stride 2 is all at the end.
    const int begin = stride == 2 && padding == 1 ? 0 : padding;
    text_ += fmt::format("  %w{0}: i8[{1},{2},{3},{3}] quant<0.01> = constant seeded<{0}>\n", next_, out, channels_ / groups, kernel);
    text_ += fmt::format("  %b{0}: i32[{1}] quant<bias> = constant seeded<{0}>\n", next_, out);
    add(fmt::format(
            "aten.convolution(%v{0}, %w{1}, %b{1}) {{activation = \"relu6\", dilation = [1, 1], groups = {2}, output_padding = [0, 0], "
            "padding = [{3}, {3}], padding_end = [{4}, {4}], stride = [{5}, {5}], transposed = false}}",
            next_ - 1, next_, groups, begin, padding, stride),
        fmt::format("1,{},{},{}", out, size, size), " channels_last");
    channels_ = out;
    size_ = size;
  }
  void max_pool(int kernel, int stride) {
    size_ = (size_ - kernel) / stride + 1;
    add(fmt::format("aten.max_pool2d(%v{0}) {{ceil_mode = false, dilation = [1, 1], kernel_size = [{1}, {1}], padding = [0, 0], stride = "
                    "[{2}, {2}]}}",
                    next_ - 1, kernel, stride),
        fmt::format("1,{0},{1},{1}", channels_, size_), " channels_last");
  }
  void global_average() {
    add(fmt::format("aten.mean.dim(%v{}) {{dim = [2, 3], keepdim = true}}", next_ - 1), fmt::format("1,{},1,1", channels_), "");
    size_ = 1;
  }
  void classifier(int classes) {
    const int features = channels_ * size_ * size_;
    add(fmt::format("aten.view(%v{}) {{size = [1, {}]}}", next_ - 1, features), fmt::format("1,{}", features), "");
    text_ += fmt::format("  %w{0}: i8[{1},{2}] quant<0.01> = constant seeded<{0}>\n", next_, classes, features);
    text_ += fmt::format("  %b{0}: i32[{1}] quant<bias> = constant seeded<{0}>\n", next_, classes);
    add(fmt::format("aten.linear(%v{0}, %w{1}, %b{1})", next_ - 1, next_), fmt::format("1,{}", classes), "");
    add(fmt::format("aten.softmax(%v{}) {{dim = 1}}", next_ - 1), fmt::format("1,{}", classes), "", "0.00390625:-128");
  }
  std::string text() const { return text_ + fmt::format("  return %v{}\n}}\n", next_ - 1); }

 private:
  void add(const std::string& op, const std::string& shape, const char* layout, const char* quantization = "0.05") {
    text_ += fmt::format("  %v{}: i8[{}]{} quant<{}> = {}\n", next_, shape, layout, quantization, op);
    ++next_;
  }
  int channels_, size_;
  int next_ = 1;
  std::string text_;
};

std::string cifar_net() {
  Network net(3, 32);
  net.convolution(32, 5, 1, 2);
  net.max_pool(2, 2);
  net.convolution(32, 5, 1, 2);
  net.max_pool(2, 2);
  net.convolution(64, 5, 1, 2);
  net.max_pool(1, 2);
  net.classifier(10);
  return net.text();
}

std::string mobilenet_v1(int quarters, int size) {
  const auto channels = [&](int full) { return full * quarters / 4; };
  Network net(3, size);
  net.convolution(channels(32), 3, 2, 1);
  constexpr int kOut[] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
  constexpr int kStride[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
  int in = 32;
  for (int i = 0; i < 13; ++i) {
    net.convolution(channels(in), 3, kStride[i], 1, channels(in));
    net.convolution(channels(kOut[i]), 1, 1, 0);
    in = kOut[i];
  }
  net.global_average();
  net.classifier(1001);
  return net.text();
}

struct Published {
  const char* model;
  std::string text;
  bool streams_weights;
  double cycles;
};

void report(const Published& run, const npu::Target& target) {
  Result<Program> program = parse_program(run.text, run.model);
  if (!program) return fmt::print(stderr, "{}\n", to_text(program.error()));
  const auto backend = make_neutron_backend(target, {.prefetch_calls = 1});
  const auto lowered = backend->lower(*program, program->forward());
  if (!lowered) return fmt::print(stderr, "{}\n", to_text(lowered.error()));
  const auto& partition = dynamic_cast<const neutron::Partition&>(**lowered);
  const neutron::Timeline timeline = partition.timeline();
  // Where weights lie in SRAM from the start, nothing is copied and nobody waits.
  const uint64_t total = run.streams_weights ? timeline.total : timeline.busy + partition.calls().size() * target.call_host_cycles;
  uint64_t block = 0;
  std::vector<uint64_t> staging(partition.steps, 0);
  for (const InteriorBuffer& buffer : partition.buffers)
    if (buffer.role == BufferRole::kStaging)
      for (uint32_t step = buffer.first_step; step <= buffer.last_step; ++step) block = std::max(block, staging[step] += buffer.bytes);
  fmt::print("| {} | {} | {} | {} | {} | {:.0f} | {} | {:+.1f} % |\n", run.model, partition.calls().size(), timeline.busy, block,
             timeline.stall, run.cycles, total, 100 * (static_cast<double>(total) / run.cycles - 1));
}

}  // namespace

int main() {
  const npu::Target target;
  constexpr double kMegahertz = 324;
  fmt::print(
      "| model | calls | busy | largest staging, bytes | stall if streamed | published cycles | model | error "
      "|\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
  report({"CIFARNet", cifar_net(), false, 1027 * kMegahertz}, target);
  report({"MobileNetV1-0.25-128", mobilenet_v1(1, 128), false, 2759 * kMegahertz}, target);
  report({"MobileNetV1-1.0-224", mobilenet_v1(4, 224), true, 53376 * kMegahertz}, target);
  return 0;
}
