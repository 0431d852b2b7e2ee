// Functional simulation of single kernels and of whole networks' sequences of calls, on each kernel
// set of kernels: ms and GMAC/s on one thread. Weights are random, since time does not depend on
// them; shapes are those of the networks.
#include <benchmark/benchmark.h>

#include <string>

#include "host/simulator/host_simulator.h"
#include "test/unit/machine.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

const Target kTarget = dtr::test::machine();

struct Shape {
  uint32_t height, width, channels;
  uint32_t bytes() const { return height * width * channels; }
};

// A chain of calls, each on the one's output before it.
class Network {
 public:
  explicit Network(Shape input) : shape_(input), at_(builder_.input(input.bytes())) {}

  Network& conv(uint32_t channels, uint32_t kernel_height, uint32_t kernel_width, uint32_t stride) {
    const Window w = window(channels, kernel_height, kernel_width, stride);
    macs_ += uint64_t{w.out_height} * w.out_width * channels * kernel_height * kernel_width *
             w.in_channels;
    const Address weights = builder_.stage(test::pack_conv2d(
        kTarget, w, Packing::kChannels,
        random_.int8(size_t{channels} * kernel_height * kernel_width * w.in_channels)));
    const Address parameters = stage_parameters(channels);
    builder_.add(Conv2d{w, at_, next(w), weights, parameters, -1, Packing::kChannels, kEpilogue});
    return *this;
  }
  Network& conv(uint32_t channels, uint32_t kernel, uint32_t stride = 1) {
    return conv(channels, kernel, kernel, stride);
  }
  Network& depthwise(uint32_t stride = 1) {
    const Window w = window(shape_.channels, 3, 3, stride);
    macs_ += uint64_t{w.out_height} * w.out_width * w.out_channels * 9;
    const Address weights =
        builder_.stage(test::pack_depthwise(kTarget, w, random_.int8(size_t{w.out_channels} * 9)));
    const Address parameters = stage_parameters(w.out_channels);
    builder_.add(Depthwise{w, at_, next(w), weights, parameters, -1, kEpilogue});
    return *this;
  }
  Network& average() {
    const Window w = dense({1, shape_.height, shape_.width, shape_.channels, 1, 1, shape_.channels,
                            shape_.height, shape_.width, 1, 1, 1, 1, 0, 0});
    builder_.add(Pool{w, at_, next(w), PoolKind::kAverage, 0, 0, 0, {}, -128, 127});
    return *this;
  }
  Network& linear(uint32_t features) {
    shape_ = {1, 1, shape_.bytes()};
    return conv(features, 1);
  }
  Network& softmax() {
    const Address to = builder_.scratch(shape_.bytes());
    builder_.add(test::probability(at_, to, 1, shape_.bytes(), 20));
    at_ = to;
    return *this;
  }
  struct Point {
    Shape shape;
    Address at;
  };
  Point here() const { return {shape_, at_}; }
  void go(const Point& point) { shape_ = point.shape, at_ = point.at; }
  Network& add(const Point& other) {
    const Address to = builder_.scratch(shape_.bytes());
    builder_.add(test::binary(BinaryKind::kAdd, at_, other.at, to, shape_.bytes(),
                              {0, 0, 0, {1 << 30, 0}, {1 << 30, 0}, {1 << 30, -18}, -128, 127}));
    at_ = to;
    return *this;
  }

  // Simulates, or with `prepare` only checks the payload and packs its weights.
  void run(benchmark::State& state, const simulator::KernelSet& kernel_set, bool prepare) {
    const uint32_t bytes = shape_.bytes();
    const Address output = builder_.output(bytes);
    builder_.add(Move{at_, output, {1, 1, 1, 1, 1, bytes}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
    Target roomy = dtr::test::machine();  // nothing here is placed with care
    roomy.sram_bytes = 1u << 30;
    const test::AlignedBytes payload =
        builder_.build([&](Header& header) { header.target_hash = format_hash(roomy); });
    simulator::HostSimulator host(roomy, kernel_set);
    uint32_t handle = 0;
    if (prepare) {
      for ([[maybe_unused]] auto _ : state) {
        host.prepare(payload.bytes(), handle);
        host.unprepare(handle);
      }
      return;
    }
    if (const simulator::Fault fault = host.prepare(payload.bytes(), handle);
        fault.status != Status::kOk)
      return state.SkipWithError(text(fault.status));
    std::vector<test::AlignedBytes> operands;
    for (const Operand& operand : builder_.operands())
      operands.emplace_back(operand.bytes, uint8_t{17});
    std::vector<Buffer> buffers;
    for (test::AlignedBytes& operand : operands) buffers.push_back(operand.buffer());
    test::AlignedBytes scratch(builder_.scratch_bytes());
    for ([[maybe_unused]] auto _ : state) {
      const Report report = host.run(handle, buffers, scratch.buffer());
      if (report.status != Status::kOk) return state.SkipWithError(text(report.status));
    }
    state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(macs_),
                                                 benchmark::Counter::kIsIterationInvariantRate);
    state.counters["MAC"] = static_cast<double>(macs_);
  }

 private:
  static constexpr Epilogue kEpilogue{3, -128, 127, 0, {}, {}, {}, {}};

  // "Same" padding.
  Window window(uint32_t channels, uint32_t kernel_height, uint32_t kernel_width,
                uint32_t stride) const {
    Window w{1, shape_.height, shape_.width, shape_.channels};
    w.out_height = div_up(shape_.height, stride), w.out_width = div_up(shape_.width, stride),
    w.out_channels = channels;
    w.kernel_height = kernel_height, w.kernel_width = kernel_width;
    w.stride_height = w.stride_width = stride, w.dilation_height = w.dilation_width = 1;
    w.pad_top = static_cast<int32_t>(kernel_height - 1) / 2,
    w.pad_left = static_cast<int32_t>(kernel_width - 1) / 2;
    return dense(w);
  }
  Address next(const Window& w) {
    shape_ = {w.out_height, w.out_width, w.out_channels};
    return at_ = builder_.scratch(shape_.bytes());
  }
  Address stage_parameters(uint32_t channels) {
    std::vector<test::Channel> list(channels);
    for (test::Channel& channel : list)
      channel = {random_.between(-1000, 1000), random_.between(1 << 30, INT32_MAX), -9};
    return builder_.stage(test::pack_parameters(kTarget, list));
  }

  test::PayloadBuilder builder_{kTarget};
  test::Random random_{1};
  Shape shape_;
  Address at_;
  uint64_t macs_ = 0;
};

Network kws_dscnn() {
  Network n({49, 10, 1});
  n.conv(64, 10, 4, 2);
  for (int i = 0; i < 4; ++i) n.depthwise().conv(64, 1);
  n.average().linear(12).softmax();
  return n;
}

Network ic_resnet8() {
  Network n({32, 32, 3});
  n.conv(16, 3);
  for (const uint32_t channels : {16U, 32U, 64U}) {
    const uint32_t stride = channels == 16 ? 1 : 2;
    const Network::Point start = n.here();
    n.conv(channels, 3, stride).conv(channels, 3);
    const Network::Point end = n.here();
    n.go(start);
    if (stride != 1) n.conv(channels, 1, stride);
    const Network::Point shortcut = n.here();
    n.go(end);
    n.add(shortcut);
  }
  n.average().linear(10).softmax();
  return n;
}

Network vww_mobilenetv1() {
  Network n({96, 96, 3});
  n.conv(8, 3, 2);
  struct Block {
    uint32_t stride, channels;
  };
  for (const Block block : {Block{1, 16},
                            {2, 32},
                            {1, 32},
                            {2, 64},
                            {1, 64},
                            {2, 128},
                            {1, 128},
                            {1, 128},
                            {1, 128},
                            {1, 128},
                            {1, 128},
                            {2, 256},
                            {1, 256}})
    n.depthwise(block.stride).conv(block.channels, 1);
  n.average().linear(2).softmax();
  return n;
}

Network mobilenet_v2() {
  Network n({224, 224, 3});
  n.conv(32, 3, 2).depthwise().conv(16, 1);
  uint32_t before = 16;
  struct Stage {
    uint32_t channels, blocks, stride;
  };
  for (const Stage stage :
       {Stage{24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}})
    for (uint32_t i = 0; i < stage.blocks; ++i) {
      const Network::Point start = n.here();
      n.conv(before * 6, 1).depthwise(i == 0 ? stage.stride : 1).conv(stage.channels, 1);
      if (i != 0) n.add(start);
      before = stage.channels;
    }
  n.conv(1280, 1).average().linear(1000);
  return n;
}

struct Case {
  const char* name;
  Network (*make)();
};
constexpr Case kCases[] = {
    {"kws_dscnn", kws_dscnn},
    {"ic_resnet8", ic_resnet8},
    {"vww_mobilenetv1", vww_mobilenetv1},
    {"mobilenet_v2", mobilenet_v2},
    {"conv3x3_28x28_64_64",
     [] {
       return Network({28, 28, 64}).conv(64, 3);
     }},
    {"conv1x1_28x28_128_128",
     [] {
       return Network({28, 28, 128}).conv(128, 1);
     }},
    {"conv3x3_112x112_3_32",
     [] {
       return Network({112, 112, 3}).conv(32, 3);
     }},
    {"depthwise_28x28_128",
     [] {
       return Network({28, 28, 128}).depthwise();
     }},
    {"depthwise_stride2_56x56_72",
     [] {
       return Network({56, 56, 72}).depthwise(2);
     }},
    {"linear_1280_1000",
     [] {
       return Network({1, 1, 1280}).linear(1000);
     }},
};

void register_all() {
  struct Variant {
    const char* name;
    const simulator::KernelSet* kernel_set;
    bool prepare;
  };
  const Variant variants[] = {{"best", &simulator::best_kernel_set(), false},
                              {"highway", &simulator::highway_kernel_set(), false},
                              {"prepare", &simulator::best_kernel_set(), true}};
  for (const Case& item : kCases)
    for (const Variant& variant : variants)
      benchmark::RegisterBenchmark((std::string(item.name) + "/" + variant.name).c_str(),
                                   [item, variant](benchmark::State& state) {
                                     item.make().run(state, *variant.kernel_set, variant.prepare);
                                   })
          ->Unit(benchmark::kMillisecond);
}

const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace dtr
