#include "host/commands/frontier_plot.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/support/encode.h"
#include "compiler/support/output_file.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

// Maps values to positions of a drawing.
struct Axis {
  double low, high, from, to;
  bool logarithmic;

  double at(double value) const {
    const double span = scaled(high) - scaled(low);
    const double part = span <= 0 ? 0.5 : (scaled(value) - scaled(low)) / span;
    return from + part * (to - from);
  }

 private:
  double scaled(double value) const { return logarithmic ? std::log(value) : value; }
};

}  // namespace

std::string to_svg(const FrontierPlot& plot) {
  constexpr double kWidth = 720, kHeight = 400, kLeft = 90, kBottom = 50, kMargin = 20;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>{9}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<path d=\"M{2} {3}V{4}H{5}\" fill=\"none\" stroke=\"#000\"/>\n"
      "<text x=\"{6}\" y=\"{7}\" text-anchor=\"middle\">{10}</text>\n"
      "<text x=\"14\" y=\"{8}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {8})\">cycles"
      "</text>\n",
      kWidth, kHeight, kLeft, kMargin, kHeight - kBottom, kWidth - kMargin,
      (kLeft + kWidth - kMargin) / 2, kHeight - 8, (kMargin + kHeight - kBottom) / 2,
      as_html(plot.title), as_html(plot.x_label));
  if (plot.points.empty()) return text + "</svg>\n";
  const FrontierPlot::Point &first = plot.points.front(), &last = plot.points.back();
  const auto [least, most] = std::minmax(first.cycles, last.cycles);
  const Axis x{first.x, last.x, kLeft + 30, kWidth - kMargin - 40, plot.logarithmic};
  const Axis y{static_cast<double>(least), static_cast<double>(most), kHeight - kBottom - 20,
               kMargin + 20, true};
  const auto height = [&](const FrontierPlot::Point& point) {
    return y.at(static_cast<double>(point.cycles));
  };
  std::string line;
  for (const FrontierPlot::Point& point : plot.points) {
    if (line.empty())
      line = fmt::format("M{:.1f} {:.1f}", x.at(point.x), height(point));
    else if (plot.left_serves)
      line += fmt::format("H{:.1f}V{:.1f}", x.at(point.x), height(point));
    else
      line += fmt::format("V{:.1f}H{:.1f}", height(point), x.at(point.x));
  }
  text += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>\n", line);
  for (const FrontierPlot::Point& point : plot.points)
    text += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#06c\"><title>{}</title></circle>\n",
        x.at(point.x), height(point), as_html(point.text));
  std::vector<const FrontierPlot::Point*> ends{&first};
  if (plot.points.size() > 1) ends.push_back(&last);
  for (const FrontierPlot::Point* point : ends)
    text += fmt::format(
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x.at(point->x), kHeight - kBottom + 16, as_html(point->x_text), kLeft - 6,
        height(*point) + 4, with_thousands(point->cycles));
  return text + "</svg>\n";
}

std::string to_html(const FrontierPage& page, const FrontierPlot& plot) {
  const auto row_of = [](const std::vector<std::string>& cells, std::string_view tag) {
    std::string row = "<tr>";
    for (const std::string& cell : cells) row += fmt::format("<{0}>{1}</{0}>", tag, as_html(cell));
    return row + "</tr>\n";
  };
  std::string rows;
  for (const std::vector<std::string>& cells : page.rows) rows += row_of(cells, "td");
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{0}: {1}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse}}"
      "td,th{{padding:.2em 1em;text-align:right;border-bottom:1px solid #ccc}}</style></head>"
      "<body>\n<h1>{0}</h1>\n<p>{2}</p>\n{3}<table><thead>{4}</thead><tbody>\n{5}"
      "</tbody></table>\n</body></html>\n",
      as_html(page.title), as_html(plot.title), as_html(page.sentence), to_svg(plot),
      row_of(page.columns, "th"), rows);
}

Result<void> write_frontier(const FrontierPaths& paths, std::string_view json, std::string_view svg,
                            std::string_view html) {
  std::vector<OutputFile> files;
  const auto add = [&](const std::string& path, std::string_view text) -> Result<void> {
    if (path.empty()) return {};
    DTR_ASSIGN(OutputFile file, OutputFile::create(path));
    DTR_TRY(file.write(std::as_bytes(std::span(text))));
    files.push_back(std::move(file));
    return {};
  };
  DTR_TRY(add(paths.json, json));
  DTR_TRY(add(paths.svg, svg));
  DTR_TRY(add(paths.html, html));
  return OutputFile::commit(files);
}

std::string cycles_bar(uint64_t cycles, uint64_t least, uint64_t most) {
  constexpr double kLongest = 40;
  if (most <= least) return {};
  const double part = static_cast<double>(cycles - least) / static_cast<double>(most - least);
  return std::string(static_cast<size_t>(std::lround(kLongest * part)), '#');
}

}  // namespace dtr
