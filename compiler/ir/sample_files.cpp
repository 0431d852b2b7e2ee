// Samples are collected as a stream of unknown length: whenever more than `most` are kept, every
// second one of them is dropped, and from then on only every second one of the rest is taken. What
// remains is evenly spaced by a power of two, whatever the length.
#include "compiler/ir/sample_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace dtr {
namespace {

Result<std::vector<std::string>> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string ending = at->path().extension().string();
    if (ending == ".npy" || ending == ".npz") files.push_back(at->path().string());
  }
  if (error)
    return fail(DiagnosticId::kFileNotFound,
                fmt::format("the folder cannot be read: {}", error.message()),
                "check its permissions", {.file = folder});
  if (files.empty())
    return fail(DiagnosticId::kDataEmpty, "the folder has no .npz and no .npy file",
                "name the folder whose files hold the samples; sub-folders are not read",
                {.file = folder});
  std::ranges::sort(files);
  return files;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

class Collector {
 public:
  Collector(const Graph& graph, size_t most)
      : most_(most), is_stream_(graph.state_count() > 0), rows_(graph.user_input_count()) {
    DTR_CHECK(most > 0);
  }

  void add(const Samples& samples) {
    for (size_t i = 0; i < samples.size(); ++i, ++there_)
      if (is_stream_ ? kept_ < most_ : there_ % every_ == 0) keep(samples.inputs(i));
  }

  PickedSamples finish(const Graph& graph, const std::string& file) {
    std::vector<NamedTensor> arrays;
    for (size_t k = 0; k < rows_.size(); ++k) {
      const Value& input = graph.value(graph.inputs()[k]);
      arrays.push_back({input.name, std::move(rows_[k])});
    }
    return {Samples::own(graph, std::move(arrays), kept_, file), there_, every_};
  }

 private:
  void keep(const std::vector<TensorView>& sample) {
    if (kept_ == most_) {
      thin();
      // The sample is the first after `most` times the former distance: it is kept if that is a
      // multiple of the new one.
      if (there_ % every_ != 0) return;
    }
    if (kept_ == capacity_) grow(sample);
    for (size_t k = 0; k < sample.size(); ++k)
      std::memcpy(row(k, kept_, sample[k].bytes()), sample[k].data, sample[k].bytes());
    ++kept_;
  }

  void grow(const std::vector<TensorView>& sample) {
    capacity_ = std::min(most_, std::max<size_t>(1, 2 * capacity_));
    for (size_t k = 0; k < sample.size(); ++k) {
      Shape shape = sample[k].shape;
      shape.insert(shape.begin(), static_cast<int64_t>(capacity_));
      Tensor larger(sample[k].dtype, std::move(shape));
      if (kept_ > 0)
        std::memcpy(larger.view().data, rows_[k].view().data, kept_ * sample[k].bytes());
      rows_[k] = std::move(larger);
    }
  }

  void thin() {
    every_ *= 2;
    const size_t left = (kept_ + 1) / 2;
    for (const Tensor& rows : rows_) {
      const size_t bytes = rows.view().bytes() / capacity_;
      std::byte* data = rows.view().data;
      for (size_t i = 1; i < left; ++i) std::memcpy(data + i * bytes, data + 2 * i * bytes, bytes);
    }
    kept_ = left;
  }

  std::byte* row(size_t input, size_t index, size_t bytes) {
    return rows_[input].view().data + index * bytes;
  }

  const size_t most_;
  const bool is_stream_;
  std::vector<Tensor> rows_;  // by input: [capacity_, …]
  size_t capacity_ = 0, kept_ = 0, there_ = 0, every_ = 1;
};

}  // namespace

Result<PickedSamples> pick_samples(const Graph& graph, const std::string& path, size_t most) {
  Collector collector(graph, most);
  if (!is_folder(path)) {
    DTR_ASSIGN(Samples samples, Samples::read(graph, path));
    if (samples.size() <= most) {
      const size_t there = samples.size();
      return PickedSamples{std::move(samples), there};
    }
    collector.add(samples);
    return collector.finish(graph, path);
  }
  DTR_ASSIGN(const std::vector<std::string> files, files_of(path));
  for (const std::string& file : files) {
    DTR_ASSIGN(const Samples samples, Samples::read(graph, file));
    DTR_TRY(samples.check_finite());
    collector.add(samples);
  }
  return collector.finish(graph, path);
}

PickedSamples pick_samples(const Graph& graph, const Samples& samples, size_t most) {
  DTR_CHECK(most > 0 && samples.size() > 0);
  const bool is_stream = graph.state_count() > 0;
  size_t every = 1;
  while (!is_stream && (samples.size() - 1) / every >= most) every *= 2;
  std::vector<size_t> kept;
  for (size_t i = 0; i < samples.size() && kept.size() < most; i += every) kept.push_back(i);
  return {samples.choose(std::move(kept)), samples.size(), every};
}

Result<std::string> first_sample_file(const std::string& path) {
  if (!is_folder(path)) return path;
  DTR_ASSIGN(const std::vector<std::string> files, files_of(path));
  return files.front();
}

}  // namespace dtr
