// Checks what a FlatBuffers verifier cannot: indices, ranges and the meaning of the plans' values
// and instructions. Freestanding.
//
// Executor, kernels and delegates rely on the following without checking it again. For each tensor
// of a loaded program:
//
// * Its rank is at most kMaxRank (device/pte/scalar_type.h), no dimension is negative, the
// dimension order is
//   a permutation of the dimensions.
// * Bytes of an element times all dimensions, zeros counted as ones, are at most 2^31 - 1. So any
//   product of some of its dimensions fits into 31 bits, also of an empty tensor, and so do strides
//   and offsets.
// * Planned: place and all bytes lie in its memory, which has at most 2^31 - 1 bytes, and the
// offset is
//   a multiple of the element's size. Memories begin on 16 bytes. Tensors of one memory may overlap
//   in any way: a kernel whose scratch must not be its output checks that.
// * Planned and constant: a state, whose initial value is checked when a method is prepared
//   (device/runtime/states.cpp).
// * Constant: all bytes lie in its segment or buffer, at a multiple of the element's size.
// * One that an instruction names, itself or in a list, has memory: in the program, in a tensor
// file,
//   or, as an input or output, the caller's.
//
// For the program: every index refers to an existing entry of the right kind. Its lists, counted
// once for each value that names them, have together at most kMaxSharing times the bytes of the
// file (device/pte/flatbuffer.h): sums over them fit into 64 bits, and walking through all values,
// or all arguments of all instructions, takes time linear in the file.
#pragma once

#include "device/pte/verified_file.h"

namespace dtr::pte {

// Verifies all plans of a program whose structure, segments and named data have been verified. In a
// failed status, `index` is the value, list entry or instruction at fault and `detail` the plan.
// Errors: kMalformed, kUnsupported.
Status verify_plans(const VerifiedFile& file);

}  // namespace dtr::pte
