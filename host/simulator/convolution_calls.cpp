#include "host/simulator/convolution_calls.h"

#include <algorithm>

#include "device/npu/cycles.h"
#include "device/simulator/decoder.h"

namespace dtr::simulator {
namespace {

class Convolutions {
 public:
  Convolutions(const npu::Target& target, std::vector<ConvolutionCall>& found)
      : target_(target), found_(found) {}

  template <class Command>
  npu::Status operator()(uint32_t, const Command&) {
    return npu::Status::kOk;
  }
  npu::Status operator()(uint32_t index, const npu::Conv2d& command) {
    if (command.packing == npu::Packing::kChannels) add(index, command);
    return npu::Status::kOk;
  }
  npu::Status operator()(uint32_t index, const npu::Depthwise& command) {
    if (command.window.in_channels == 1) add(index, command);
    return npu::Status::kOk;
  }

 private:
  template <class Command>
  void add(uint32_t index, const Command& command) {
    const uint64_t now = npu::cycles(target_, command).total;
    const npu::Conv2d packed{
        .window = command.window, .packing = npu::Packing::kRows, .epilogue = command.epilogue};
    const bool can = command.window.dilation_width == 1;
    found_.push_back(
        {.command = index,
         .in_channels = command.window.in_channels,
         .cycles = now,
         .packed_cycles = can ? std::min(now, npu::cycles(target_, packed).total) : now});
  }

  const npu::Target& target_;
  std::vector<ConvolutionCall>& found_;
};

}  // namespace

std::vector<ConvolutionCall> convolution_calls(const npu::Target& target,
                                               std::span<const std::byte> bytes) {
  std::vector<ConvolutionCall> found;
  Payload payload;
  if (decode(target, bytes, payload).status == npu::Status::kOk)
    visit(payload, Convolutions(target, found));
  return found;
}

}  // namespace dtr::simulator
