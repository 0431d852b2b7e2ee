#include "compiler/support/zip_writer.h"

#include <minizip/zip.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "compiler/support/diagnostic.h"

namespace dtr {

struct ZipWriter::State {
  std::vector<std::byte> bytes;
  uint64_t position = 0;
  zipFile zip = nullptr;
};

namespace {

template <class State>
zlib_filefunc64_def memory_functions(State& state) {
  zlib_filefunc64_def functions = {};
  functions.opaque = &state;
  functions.zopen64_file = [](voidpf opaque, const void*, int) -> voidpf { return opaque; };
  functions.zwrite_file = [](voidpf, voidpf file, const void* data, uLong size) -> uLong {
    auto& to = *static_cast<State*>(file);
    if (to.position + size > to.bytes.size()) to.bytes.resize(to.position + size);
    if (size != 0) std::memcpy(to.bytes.data() + to.position, data, size);
    to.position += size;
    return size;
  };
  functions.zread_file = [](voidpf, voidpf, void*, uLong) -> uLong { return 0; };
  functions.ztell64_file = [](voidpf, voidpf file) -> ZPOS64_T {
    return static_cast<State*>(file)->position;
  };
  functions.zseek64_file = [](voidpf, voidpf file, ZPOS64_T offset, int origin) -> long {
    auto& in = *static_cast<State*>(file);
    in.position = offset + (origin == ZLIB_FILEFUNC_SEEK_CUR   ? in.position
                            : origin == ZLIB_FILEFUNC_SEEK_END ? in.bytes.size()
                                                               : 0);
    return 0;
  };
  functions.zclose_file = [](voidpf, voidpf) { return 0; };
  functions.zerror_file = [](voidpf, voidpf) { return 0; };
  return functions;
}

}  // namespace

ZipWriter::ZipWriter() : state_(std::make_unique<State>()) {
  zlib_filefunc64_def functions = memory_functions(*state_);
  state_->zip = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions);
  DTR_CHECK(state_->zip != nullptr);
}

ZipWriter::~ZipWriter() {
  if (state_->zip != nullptr) zipClose(state_->zip, nullptr);
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes, bool deflate) {
  zip_fileinfo info = {};
  info.dosDate = 0x00210000;  // 1980-01-01, the first date that the format knows
  const int zip64 = bytes.size() >= 0xFFFFFFFFU ? 1 : 0;
  DTR_CHECK(zipOpenNewFileInZip64(state_->zip, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                  deflate ? Z_DEFLATED : 0, Z_DEFAULT_COMPRESSION,
                                  zip64) == ZIP_OK);
  for (size_t at = 0; at < bytes.size();) {
    const size_t part = std::min<size_t>(bytes.size() - at, size_t{1} << 30);
    DTR_CHECK(zipWriteInFileInZip(state_->zip, bytes.data() + at, static_cast<unsigned>(part)) ==
              ZIP_OK);
    at += part;
  }
  DTR_CHECK(zipCloseFileInZip(state_->zip) == ZIP_OK);
}

std::vector<std::byte> ZipWriter::finish() {
  DTR_CHECK(zipClose(state_->zip, nullptr) == ZIP_OK);
  state_->zip = nullptr;
  return std::move(state_->bytes);
}

}  // namespace dtr
