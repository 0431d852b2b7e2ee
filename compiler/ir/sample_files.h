// Reads calibration samples from a file or from all files of a folder, in bounded memory: of more
// samples than are wanted, evenly spaced ones are kept.
#pragma once

#include <cstddef>
#include <string>

#include "compiler/ir/samples.h"

namespace dtr {

// So many samples determine ranges: more of them cost time and memory alone.
inline constexpr size_t kMostCalibrationSamples = 1024;

struct PickedSamples {
  Samples samples;   // in the order of the data
  size_t there = 0;  // in the data
  // Distance of the samples in the data, a power of two; 1: all of them, or the first ones.
  size_t every = 1;
};

// Reads at most `most` samples (at least 1) of a .npz or .npy, or of the .npz and .npy files of a
// folder in the order of their names; sub-folders are not read. Every file of a folder binds to the
// graph by itself (Samples::bind) and may hold one sample or several. One file is in memory at a
// time, beside the samples that are kept. Of a model with states, whose samples are a stream, the
// first `most` are kept. Errors: those of Samples::read; kDataNotFinite in a file of a folder;
// kDataEmpty (a folder without such files).
Result<PickedSamples> pick_samples(const Graph& graph, const std::string& path, size_t most);

// Chooses in the same way among samples in memory. The result refers to the arrays that `samples`
// refers to or owns.
PickedSamples pick_samples(const Graph& graph, const Samples& samples, size_t most);

// The path itself, or of a folder its first .npz or .npy file: for Samples::shapes_of. Error:
// kDataEmpty.
Result<std::string> first_sample_file(const std::string& path);

}  // namespace dtr
