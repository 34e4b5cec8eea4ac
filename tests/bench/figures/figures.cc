#include "tests/bench/figures/figures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
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

// A value that is too long for its column moves the rest of its row to the right.
constexpr absl::string_view kHead =
    "                                                                 to reach     measured       "
    "lowest      highest                 raw      ratio\n";

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool Figures::Figure::Kept() const {
  if (values.empty()) return false;
  const double median = Median(values);
  return median >= bound.at_least.value_or(median) && median <= bound.at_most.value_or(median);
}

bool Figures::Figure::OfRawKept() const {
  const std::optional<double> ratio = Ratio();
  return ratio.has_value() && bound.of_raw.has_value() && *ratio >= *bound.of_raw;
}

std::optional<double> Figures::Figure::Ratio() const {
  const double limit = Median(raw);
  if (values.empty() || limit == 0) return std::nullopt;
  return Median(values) / limit;
}

std::string Figures::Figure::Row() const {
  if (values.empty() && raw.empty()) return absl::StrCat(name, "\n");
  std::string row = absl::StrFormat("%-62s %10s", name, Show(bound));
  if (values.empty()) {
    absl::StrAppendFormat(&row, " %12s %12s %12s", "-", "-", "-");
  } else {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    absl::StrAppendFormat(&row, " %12s %12s %12s", Show(Median(values)), Show(*low), Show(*high));
  }
  absl::StrAppendFormat(&row, " %-8s", unit);
  const std::optional<double> ratio = Ratio();
  if (raw.empty()) {
    absl::StrAppendFormat(&row, "%10s %10s", "", "");
  } else {
    absl::StrAppendFormat(&row, "%10s %10s", Show(Median(raw)),
                          ratio.has_value() ? absl::StrFormat("%.2f", *ratio) : "-");
  }
  if (!values.empty() && (bound.at_least || bound.at_most)) {
    absl::StrAppend(&row, Kept() ? "  kept" : "  MISSED");
    if (!Kept() && OfRawKept())
      absl::StrAppendFormat(&row, ", %.2f of the raw limit kept", *bound.of_raw);
  }
  if (!raw_name.empty()) absl::StrAppend(&row, "  raw: ", raw_name);
  absl::StripTrailingAsciiWhitespace(&row);
  return row + "\n";
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

void Figures::AddRaw(absl::string_view name, absl::string_view unit, absl::string_view raw_name,
                     double value) {
  Figure& figure = Of(name);
  figure.unit = std::string(unit);
  figure.raw_name = std::string(raw_name);
  figure.raw.push_back(value);
}

void Figures::AddFailure(absl::string_view name, const absl::Status& why) {
  Of(name).failures.push_back(why.ToString());
}

bool Figures::complete() const {
  return std::all_of(figures_.begin(), figures_.end(),
                     [](const Figure& figure) { return figure.failures.empty(); });
}

std::string Figures::Table() const {
  std::string table(kHead);
  for (const Figure& figure : figures_) {
    table += figure.Row();
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
    if (!figure.values.empty()) entry["median"] = Median(figure.values);
    if (figure.bound.at_least) entry["at_least"] = *figure.bound.at_least;
    if (figure.bound.at_most) entry["at_most"] = *figure.bound.at_most;
    if (!figure.raw.empty()) {
      entry["raw_name"] = figure.raw_name;
      entry["raw"] = figure.raw;
      entry["raw_median"] = Median(figure.raw);
    }
    if (const auto ratio = figure.Ratio()) entry["ratio"] = *ratio;
    if (figure.bound.of_raw) {
      entry["of_raw"] = *figure.bound.of_raw;
      entry["of_raw_kept"] = figure.OfRawKept();
    }
    list.push_back(std::move(entry));
  }
  return nlohmann::ordered_json({{"figures", list}}).dump(2);
}

}  // namespace escapement::bench
