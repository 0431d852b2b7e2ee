#include "compiler/backends/neutron/memory/footprint.h"

namespace dtr::neutron {
namespace {

uint64_t image_bytes(const npu::Strides& strides, uint64_t batch, uint64_t height, uint64_t width,
                     uint64_t channels) {
  return (batch - 1) * strides.batch + (height - 1) * strides.row + (width - 1) * strides.pixel +
         channels;
}

// Bytes from the address on; std::nullopt: unknown.
template <class Command>
std::optional<uint64_t> bytes_at(const Command& command, const npu::Address& address) {
  if constexpr (kHasWindow<Command>) {
    const npu::Window& w = command.window;
    if (&address == &command.input)
      return image_bytes(w.in, w.batch, w.in_height, w.in_width, w.in_channels);
    const bool output = &address == &command.output;
    if constexpr (requires { command.epilogue; }) {
      if (npu::with_sums(command.epilogue)) return std::nullopt;
      if (&address == &command.epilogue.addend)
        return image_bytes(command.epilogue.addend_strides, w.batch, w.out_height, w.out_width,
                           w.out_channels);
    }
    if (output) return image_bytes(w.out, w.batch, w.out_height, w.out_width, w.out_channels);
  } else if constexpr (std::is_same_v<Command, npu::Binary>) {
    return span_of(command.extent, &address == &command.input_0   ? command.stride_0
                                   : &address == &command.input_1 ? command.stride_1
                                                                  : command.output_stride);
  } else if constexpr (std::is_same_v<Command, npu::Lookup> || std::is_same_v<Command, npu::Move>) {
    if (&address == &command.input) return span_of(command.extent, command.input_stride);
    if (&address == &command.output) return span_of(command.extent, command.output_stride);
  } else if constexpr (std::is_same_v<Command, npu::Resize>) {
    const bool input = &address == &command.input;
    return uint64_t{command.batch} * command.channels *
           (input ? command.height.in : command.height.out) *
           (input ? command.width.in : command.width.out);
  }
  return std::nullopt;
}

}  // namespace

ByteRange footprint(const Kernel& kernel, const npu::Address& address, uint64_t storage_bytes) {
  const std::optional<uint64_t> bytes =
      std::visit([&](const auto& command) { return bytes_at(command, address); }, kernel);
  return bytes ? ByteRange{address.offset, address.offset + *bytes} : ByteRange{0, storage_bytes};
}

}  // namespace dtr::neutron
