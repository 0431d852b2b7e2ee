// Which bytes of a storage a kernel call reads and writes.
#pragma once

#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

// A half-open range of bytes of a storage.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};

// From the first to behind the last byte that the kernel touches through `address`, which is one of
// its operands; all `storage_bytes` where the kernel's kind does not say which.
ByteRange footprint(const Kernel& kernel, const npu::Address& address, uint64_t storage_bytes);

}  // namespace dtr::neutron
