#include "tests/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace escapement::bench {
namespace {

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string Show(std::optional<double> value, Unit unit) {
  if (!value.has_value()) return "-";
  if (unit == Unit::kPerSecond) return absl::StrFormat("%.1f k/s", *value / 1000);
  return absl::StrFormat("%.2f ms", *value / 1000);
}

}  // namespace

Report::Row& Report::RowOf(absl::string_view name) {
  for (Row& row : rows_) {
    if (row.name == name) return row;
  }
  rows_.emplace_back();
  rows_.back().name = std::string(name);
  return rows_.back();
}

void Report::AddRow(absl::string_view row, Unit unit, absl::string_view raw_name) {
  Row& added = RowOf(row);
  added.unit = unit;
  added.raw_name = std::string(raw_name);
}

void Report::AddRaw(absl::string_view row, double value) { RowOf(row).raw.push_back(value); }
void Report::AddMeasured(absl::string_view row, double value) {
  RowOf(row).measured.push_back(value);
}
void Report::AddFailure(absl::string_view row, absl::string_view why) {
  RowOf(row).failures.emplace_back(why);
}

bool Report::failed() const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [](const Row& row) { return !row.failures.empty(); });
}

std::string Report::Table() const {
  std::string table = absl::StrFormat("%-44s %12s %12s %7s  %s\n", "", "measured", "raw limit",
                                      "ratio", "raw limit is");
  for (const Row& row : rows_) {
    const std::optional<double> measured = Median(row.measured);
    const std::optional<double> raw = Median(row.raw);
    std::string ratio = "-";
    if (measured && raw && *raw > 0 && row.unit == Unit::kPerSecond)
      ratio = absl::StrFormat("%.0f %%", 100 * *measured / *raw);
    absl::StrAppendFormat(&table, "%-44s %12s %12s %7s  %s\n", row.name, Show(measured, row.unit),
                          Show(raw, row.unit), ratio, row.raw_name);
    for (const std::string& failure : row.failures)
      absl::StrAppend(&table, "  FAILED: ", failure, "\n");
  }
  return table;
}

std::string Report::Json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    nlohmann::ordered_json entry = {
        {"name", row.name},
        {"unit", row.unit == Unit::kPerSecond ? "per_second" : "microseconds"},
        {"measured", row.measured},
        {"raw_name", row.raw_name},
        {"raw", row.raw},
        {"failures", row.failures}};
    if (const auto median = Median(row.measured)) entry["measured_median"] = *median;
    if (const auto median = Median(row.raw)) entry["raw_median"] = *median;
    rows.push_back(std::move(entry));
  }
  return nlohmann::ordered_json({{"rows", rows}}).dump(2);
}

}  // namespace escapement::bench
