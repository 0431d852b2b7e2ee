#include "python/src/convert.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstring>

namespace dtr::python {
namespace {

// A tuple with so many fields or more: those that are missing must not be read.
nb::tuple row_of(nb::handle object, size_t fields) {
  if (!nb::isinstance<nb::tuple>(object) || nb::len(object) < fields)
    throw nb::type_error(fmt::format("a tuple of {} or more is expected", fields).c_str());
  return nb::borrow<nb::tuple>(object);
}

// Names in damaged files need not be UTF-8: such bytes are shown as \xNN.
nb::str shown(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

}  // namespace

BufferView::BufferView(nb::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
}

Source::Source(nb::handle object) {
  const nb::tuple fields = row_of(object, 2);
  name = nb::cast<std::string>(fields[0]);
  given = !name.empty();
  if (const nb::object content = fields[1]; !content.is_none())
    buffer = std::make_unique<BufferView>(content);
  if (fields.size() < 3) return;
  uint64_t end = 0;  // of the part before
  for (const nb::handle each : fields[2]) {
    const nb::tuple part = row_of(each, 2);
    parts.push_back(std::make_unique<BufferView>(part[1]));
    detached.push_back({nb::cast<uint64_t>(part[0]), parts.back()->bytes()});
    const DetachedBytes& added = detached.back();
    if (added.offset < end || added.offset > bytes().size() ||
        added.bytes.size() > bytes().size() - added.offset)
      throw nb::value_error("a part is not within the file, or not behind the part before");
    end = added.offset + added.bytes.size();
  }
}

std::vector<NamedTensor> to_tensors(nb::handle arrays) {
  std::vector<NamedTensor> tensors;
  for (const nb::handle each : arrays) {
    const nb::tuple row = row_of(each, 4);
    const std::optional<DType> dtype = dtype_from_name(nb::cast<std::string>(row[1]));
    Shape shape;
    for (const nb::handle size : row[2]) shape.push_back(nb::cast<int64_t>(size));
    const BufferView buffer(row[3]);
    const std::optional<int64_t> elements = checked_element_count(shape);
    if (!dtype || !elements ||
        buffer.bytes().size() != static_cast<size_t>(*elements) * byte_size(*dtype))
      throw nb::value_error("an array's buffer does not have the bytes of its dtype and shape");
    tensors.push_back(
        {nb::cast<std::string>(row[0]), Tensor::copy_of(*dtype, std::move(shape), buffer.bytes())});
  }
  return tensors;
}

nb::list to_python(const std::vector<NamedTensor>& arrays) {
  nb::list list;
  for (const NamedTensor& array : arrays) {
    nb::list shape;
    for (const int64_t size : array.tensor.shape()) shape.append(size);
    const std::span<const std::byte> bytes = array.tensor.bytes();
    list.append(nb::make_tuple(array.name, std::string(name(array.tensor.dtype())),
                               nb::tuple(shape), nb::bytearray(bytes.data(), bytes.size())));
  }
  return list;
}

nb::list inputs_of(const Graph& graph) {
  nb::list list;
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    nb::list shape;
    for (const int64_t size : value.type.shape) shape.append(size);
    list.append(nb::make_tuple(value.name, std::string(name(value.type.dtype)), nb::tuple(shape)));
  }
  return list;
}

void OptionReader::finish() const {
  for (const auto& [key, value] : values_)
    throw nb::type_error(
        fmt::format("there is no option `{}`", nb::cast<std::string>(nb::str(key))).c_str());
}

void OptionReader::refuse(const char* key) const {
  const nb::object value = values_[key];
  std::string what = fmt::format("of type {}", nb::type_name(value.type()).c_str());
  if (nb::isinstance<nb::int_>(value)) what = nb::cast<std::string>(nb::str(value));
  if (nb::isinstance<nb::str>(value)) what = "text that is not Unicode";
  throw nb::type_error(fmt::format("`{}` cannot be {}", key, what).c_str());
}

nb::tuple to_python(const Diagnostic& diagnostic) {
  constexpr std::string_view kSeverities[] = {"note", "warning", "error"};
  const Place& place = diagnostic.place;
  return nb::make_tuple(std::string(kSeverities[static_cast<size_t>(diagnostic.severity)]),
                        std::string(info(diagnostic.id).name), shown(diagnostic.reason),
                        shown(diagnostic.fix), shown(place.file), shown(place.node),
                        shown(place.module_path), shown(place.source_line),
                        shown(to_text(diagnostic)));
}

nb::bytes to_bytes(std::span<const std::byte> bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace dtr::python
