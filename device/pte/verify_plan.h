// Checks what a FlatBuffers verifier cannot: indices, ranges and the meaning of the plans' values
// and instructions. Freestanding.
//
// What executor, kernels and delegates rely on, and do not check again. Of each tensor of a program
// that was loaded:
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
// * Constant: all bytes lie in its segment or buffer, at a multiple of the element's size.
// * One that an instruction names, itself or in a list, has memory: in the program, in a tensor
// file,
//   or, as an input or output, the caller's.
//
// Of the program: every index is of something that is there and of the right kind. Its lists,
// counted as often as values name them, have together at most kMaxSharing times the bytes of the
// file (device/pte/flatbuffer.h): sums over them fit into 64 bits, and whoever walks through all
// values, or all arguments of all instructions, takes a time that is linear in the file.
#pragma once

#include "device/pte/program_file.h"

namespace dtr::pte {

// All plans of a program whose structure, segments and named data are known to be sound. In a
// failed status, `index` is the value, list entry or instruction at fault and `detail` the plan.
Status verify_plans(const ProgramFile& file);

}  // namespace dtr::pte
