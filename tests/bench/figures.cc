#include "tests/bench/figures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace escapement::bench {
namespace {

std::string Show(double value) {
  if (std::abs(value) >= 1000) return absl::StrFormat("%.0f", value);
  return absl::StrFormat(std::abs(value) >= 10 ? "%.1f" : "%.3f", value);
}

std::string Show(const Bound& bound) {
  if (bound.at_least.has_value()) return absl::StrCat(">= ", Show(*bound.at_least));
  if (bound.at_most.has_value()) return absl::StrCat("<= ", Show(*bound.at_most));
  return "";
}

}  // namespace

double Figures::Figure::Median() const {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

bool Figures::Figure::Kept() const {
  if (values.empty()) return false;
  const double median = Median();
  return median >= bound.at_least.value_or(median) && median <= bound.at_most.value_or(median);
}

Figures::Figure& Figures::Of(absl::string_view name) {
  for (Figure& figure : figures_) {
    if (figure.name == name) return figure;
  }
  figures_.emplace_back();
  figures_.back().name = std::string(name);
  return figures_.back();
}

void Figures::Add(absl::string_view name, absl::string_view unit, double value,
                  const Bound& bound) {
  Figure& figure = Of(name);
  figure.unit = std::string(unit);
  figure.bound = bound;
  figure.values.push_back(value);
}

void Figures::AddFailure(absl::string_view name, const absl::Status& why) {
  Of(name).failures.push_back(why.ToString());
}

bool Figures::complete() const {
  return std::all_of(figures_.begin(), figures_.end(),
                     [](const Figure& figure) { return figure.failures.empty(); });
}

std::string Figures::Table() const {
  std::string table = absl::StrFormat("%-62s %12s %12s %12s  %-8s %-10s %s\n", "", "median",
                                      "lowest", "highest", "", "bound", "");
  for (const Figure& figure : figures_) {
    if (!figure.values.empty()) {
      const auto [low, high] = std::minmax_element(figure.values.begin(), figure.values.end());
      const std::string bound = Show(figure.bound);
      absl::StrAppendFormat(&table, "%-62s %12s %12s %12s  %-8s %-10s %s\n", figure.name,
                            Show(figure.Median()), Show(*low), Show(*high), figure.unit, bound,
                            bound.empty()   ? ""
                            : figure.Kept() ? "kept"
                                            : "MISSED");
    } else {
      absl::StrAppend(&table, figure.name, "\n");
    }
    for (const std::string& failure : figure.failures)
      absl::StrAppend(&table, "  FAILED: ", failure, "\n");
  }
  return table;
}

std::string Figures::Json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Figure& figure : figures_) {
    nlohmann::ordered_json entry = {{"name", figure.name},
                                    {"unit", figure.unit},
                                    {"values", figure.values},
                                    {"kept", figure.Kept()},
                                    {"failures", figure.failures}};
    if (!figure.values.empty()) entry["median"] = figure.Median();
    if (figure.bound.at_least) entry["at_least"] = *figure.bound.at_least;
    if (figure.bound.at_most) entry["at_most"] = *figure.bound.at_most;
    list.push_back(std::move(entry));
  }
  return nlohmann::ordered_json({{"figures", list}}).dump(2);
}

}  // namespace escapement::bench
