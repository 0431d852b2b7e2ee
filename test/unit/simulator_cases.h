// Seeded programs of one random command each, all of it in range: what every kernel set of kernels
// must compute alike.
#pragma once

#include <ostream>
#include <span>

#include "test/unit/simulator_payload.h"

namespace dtr::test {

// A program and what its inputs hold.
struct Case {
  PayloadBuilder builder;
  std::vector<std::vector<int8_t>> inputs;
  std::string name;

  npu::Address input(std::vector<int8_t> values) {
    inputs.push_back(std::move(values));
    return builder.input(static_cast<uint32_t>(inputs.back().size()));
  }
};

// Adds a command (or several that belong together), its operands and its constants to a case.
struct Generator {
  const char* name;
  void (*add)(Random&, Case&);
  int rounds;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const Generator& generator, std::ostream* os) { *os << generator.name; }
std::span<const Generator> generators();

// Bytes from the first element of image 0 to behind the last image of a window's tensors.
uint32_t input_bytes(const npu::Window& window);
uint32_t output_bytes(const npu::Window& window);

// Parameters of output channels, some of them at the ends of 32 bits.
std::vector<Channel> any_channels(Random& random, uint32_t count);

}  // namespace dtr::test
