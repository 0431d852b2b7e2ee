// The NPU backend: decides which ops the eIQ Neutron NPU runs, turns a partition into kernel calls, orders copies of constants beside
// them, and encodes the payload of the delegate. The machine is described in `docs/npu.md`, the format in `abi/npu/microcode.h`.
#pragma once

#include <memory>

#include "abi/npu/target.h"
#include "partitioner/backend.h"

namespace dtr {

struct NeutronOptions {
  bool row_packing = false;  // allow Packing::kRows, which no public fact proves
  bool fuse = true;          // elementwise ops and additions into the epilogue of the call before them
  bool prefetch = true;      // copy constants of later calls while the NPU computes; off: each right before its call
};

std::unique_ptr<Backend> make_neutron_backend(const npu::Target& target, NeutronOptions options = {});

}  // namespace dtr
