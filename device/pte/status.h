// Errors of loading and running a program. Freestanding: a status builds no strings, its name
// points into the program.
#pragma once

#include <cstdint>
#include <string_view>

namespace dtr::pte {

enum class Error : uint8_t {
  kOk = 0,
  // The file.
  kTruncated,      // shorter than its header says
  kNotAProgram,    // no .pte identifier
  kNewerVersion,   // written by a newer schema or tool than this one
  kMalformed,      // structure or an index in it is wrong; `index` says which plan, value or
                   // instruction
  kBadChecksum,    // bytes changed since it was written
  kMisaligned,     // the bytes do not start on a 16-byte boundary
  kUnsupported,    // well-formed, but uses something that this runtime does not support
  kWrongTarget,    // compiled for another machine; `detail` is the hash in the file
  kMissingMethod,  // no method of that name
  kMissingKernel,  // an operator is not in the kernel table; `name`
  kMissingDelegate,
  kMissingData,  // a constant outside of the program is in no tensor file, or has another type or
                 // shape there; `name`
  kNotATensorFile,  // no .ptd identifier
  // The caller's memory.
  kArenaTooSmall,    // `index`: which memory, `detail`: bytes needed; index UINT32_MAX: the state
  kArenaMisaligned,  // not on a 16-byte boundary
  // Inputs and outputs; `index` is the input or output.
  kNoSuchTensor,
  kInputDtype,
  kInputShape,
  kInputDimOrder,
  kInputSize,     // number of bytes differs from the tensor's
  kInputNotSet,   // run without all inputs; they are consumed by each run
  kOutputNotSet,  // an output that the caller must place has no memory
  // Execution; `index` is the instruction, `name` the operator or delegate.
  kKernelArguments,  // a kernel got other arguments than its schema says, or shapes that do not fit
                     // together
  kKernelDtype,      // a kernel does not do these dtypes
  kKernelFailed,     // a plug-in's kernel failed; `detail` is the kernel's own code
  kDelegateRefused,  // a delegate refused its payload; `detail` is the delegate's own code
  kDelegateFailed,   // a delegate's run failed; `detail` is the delegate's own code
  kStopped,          // the observer ended the run
  // Use of the interface.
  kNotPrepared,  // no program is loaded, or the method was not prepared or was released
  kNull,  // null was given for bytes that there should be; `index` as that of the memory, input or
          // output
  // Execution again, behind the others so that these keep their numbers.
  kKernelIndex,  // an index that the data hold is outside of the tensor that it names elements of
};

inline constexpr Error kLastError = Error::kKernelIndex;
const char* text(Error error);  // one sentence

struct [[nodiscard]] Status {
  Error error = Error::kOk;
  uint32_t index = 0;
  uint32_t detail = 0;
  std::string_view name = {};  // points into the program
  constexpr bool ok() const { return error == Error::kOk; }
};

}  // namespace dtr::pte
