#include "device/pte/status.h"

#include <cstddef>

namespace dtr::pte {

const char* text(Error error) {
  static constexpr const char* kTexts[] = {
      "ok",
      "the program is shorter than its header says",
      "the bytes are not an ExecuTorch program",
      "the program was written by a newer version than this one reads",
      "the program is malformed",
      "the program is damaged: its checksum does not match",
      "the program does not start on a 16-byte boundary",
      "the program uses something that this runtime does not do",
      "the program was compiled for another target",
      "the program has no method of that name",
      "the program needs a kernel that is not there",
      "the program needs a delegate that is not there",
      "the program needs data that are in none of the tensor files",
      "the bytes are not a tensor file",
      "an arena is smaller than the program needs",
      "an arena does not start on a 16-byte boundary",
      "there is no input or output of that number",
      "the input's dtype differs from the program's",
      "the input's shape differs from the program's",
      "the input's dimension order differs from the program's",
      "the input's number of bytes differs from its tensor's",
      "an input was not set before the run",
      "an output has no memory",
      "a kernel got arguments that do not fit its operator",
      "a kernel does not do this dtype",
      "a plug-in's kernel failed",
      "a delegate refused its payload",
      "a delegate's run failed",
      "the observer ended the run",
      "the method is not prepared, or was released",
      "the memory's address is null",
      "an index is outside of the tensor that it names elements of",
  };
  static_assert(sizeof kTexts / sizeof kTexts[0] == static_cast<size_t>(kLastError) + 1);
  return kTexts[static_cast<size_t>(error)];
}

}  // namespace dtr::pte
