// A program as text, for `deuteron inspect`: methods, instructions, delegates, memory map,
// segments, what the debug map says.
#pragma once

#include <functional>
#include <string>

#include "compiler/program/reader.h"

namespace dtr {

struct DescribeOptions {
  // Text of a delegate's payload, one line each, by delegate id; called for every delegate. Empty:
  // only the size is shown.
  std::function<std::string(std::string_view delegate_id, std::span<const std::byte> payload)>
      describe_payload = {};
};

// The tensors of a .ptd: name, type, bytes.
std::string describe_tensor_file(const PtdFile& ptd_file);

std::string describe_program(const PteFile& pte_file, const DescribeOptions& options = {});

}  // namespace dtr
