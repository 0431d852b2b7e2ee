// Draws a frontier of programs: cycles upwards, in logarithms, against what they pay for. Points go
// from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

struct FrontierPlot {
  struct Point {
    double x = 0;
    uint64_t cycles = 0;
    std::string x_text;  // at the axis, for the first and the last point
    std::string text;    // what the pointer shows
  };
  std::string title, x_label;
  bool logarithmic = false;  // x; its values are above 0 then
  // Between two points the left program is the one that serves (a budget), else the right one (a
  // demand).
  bool left_serves = true;
  std::vector<Point> points;
};
std::string to_svg(const FrontierPlot& plot);

// A page with the plot and a table.
struct FrontierPage {
  std::string title, sentence;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
std::string to_html(const FrontierPage& page, const FrontierPlot& plot);

// Where a frontier is written to; empty: not written.
struct FrontierPaths {
  std::string json, svg, html;
};
// All files or none. Error: kFileNotWritable.
Result<void> write_frontier(const FrontierPaths& paths, std::string_view json, std::string_view svg,
                            std::string_view html);

// The bar of a row of the text: none for `least`, 40 signs for `most`.
std::string cycles_bar(uint64_t cycles, uint64_t least, uint64_t most);

}  // namespace dtr
