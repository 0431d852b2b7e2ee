// Describes a program as text for `deuteron inspect`: methods, instructions, delegates, memory map,
// segments, debug map.
#pragma once

#include <functional>
#include <string>

#include "compiler/program/reader.h"

namespace dtr {

struct DescribeOptions {
  // Describes the payload of a delegate, called with each delegate's id; the text has one line per
  // item. Without it only the payload's size is shown.
  std::function<std::string(std::string_view delegate_id, std::span<const std::byte> payload)>
      describe_payload = {};
};

// Lists the tensors of a .ptd: name, type, bytes.
std::string describe_tensor_file(const PtdFile& ptd_file);

// One line for each item, without errors: the file has been checked.
std::string describe_program(const PteFile& pte_file, const DescribeOptions& options = {});

}  // namespace dtr
