// Values between Python and C++: arrays, options, diagnostics.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/npz.h"
#include "compiler/support/detached_bytes.h"
#include "compiler/support/diagnostic.h"
#include "host/commands/inputs.h"

namespace dtr::python {

namespace nb = nanobind;

// Arrays as Python passes them: (name, dtype "f32", shape, contiguous buffer). The bytes are
// copied.
std::vector<NamedTensor> to_tensors(nb::handle arrays);
// The same back: (name, dtype, shape, bytearray).
nb::list to_python(const std::vector<NamedTensor>& arrays);
// (name, dtype, shape) of each input.
nb::list inputs_of(const Graph& graph);

// The bytes of a buffer, which stays as it is while the object lives. Nothing is copied.
class BufferView {
 public:
  explicit BufferView(nb::handle object);
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// A path or a buffer, with a name for messages: what Python passes for a model, a program or data.
struct Source {
  // (name, None), where the name is a path; (name, buffer); or (name, buffer, parts), where the
  // parts, (offset, buffer) each, are not in the buffer.
  explicit Source(nb::handle object);
  std::string name;
  std::unique_ptr<BufferView> buffer;  // null: `name` is a path
  std::vector<DetachedBytes> detached;
  std::vector<std::unique_ptr<BufferView>> parts;  // what `detached` refers to
  bool given = false;
  std::span<const std::byte> bytes() const {
    return buffer ? buffer->bytes() : std::span<const std::byte>();
  }
  ModelInput model() const { return {.path = name, .bytes = bytes(), .detached = detached}; }
};

// Sets members of an options struct from a dict; TypeError names a key that no member has, and one
// whose value is of another type or out of range.
class OptionReader {
 public:
  explicit OptionReader(nb::dict values) : values_(std::move(values)) {}
  template <class T>
  OptionReader& take(const char* key, T& member) {
    if (values_.contains(key)) {
      if (!nb::try_cast(values_[key], member)) refuse(key);
      nb::del(values_[key]);
    }
    return *this;
  }
  // What is left is an error.
  void finish() const;

 private:
  [[noreturn]] void refuse(const char* key) const;
  nb::dict values_;
};

// The Python object that deuteron.Error and warnings are made of: (severity, id, reason, fix, file,
// node, module_path, source_line, text).
nb::tuple to_python(const Diagnostic& diagnostic);

nb::bytes to_bytes(std::span<const std::byte> bytes);

}  // namespace dtr::python
