// Class numbers of labelled data, and the class that an output tells.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace dtr {

// One class number a sample, in whatever integer dtype they are stored. Error: kDataShape, if they
// are not integers or not as many as samples.
Result<std::vector<int64_t>> class_numbers(const Tensor& labels, size_t samples,
                                           const Place& place);

// There is no array `labels` of class numbers, in `arrays` or, if those are empty, in the file.
Diagnostic no_labels(const std::string& labels, std::span<const NamedTensor> arrays,
                     const std::string& file, std::string fix);

// Class numbers that no sample can have are a mistake in the data, of which the accuracy would tell
// nothing. Error: kDataShape, naming the first.
Result<void> check_labels(const std::vector<int64_t>& labels, size_t classes, const Place& place);

// The index of the largest element, the first of equals; `values` is not empty.
size_t argmax(std::span<const float> values);

}  // namespace dtr
