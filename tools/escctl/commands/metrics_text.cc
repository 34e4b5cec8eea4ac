#include "tools/escctl/commands/metrics_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace escapement::escctl {
namespace {

constexpr absl::string_view kBucket = "_bucket";

// The value of the label `le`.
std::optional<double> BoundOf(absl::string_view labels) {
  const size_t begin = labels.find("le=\"");
  if (begin == absl::string_view::npos) return std::nullopt;
  labels.remove_prefix(begin + 4);
  double bound;
  const size_t end = labels.find('"');
  if (end == absl::string_view::npos || !absl::SimpleAtod(labels.substr(0, end), &bound))
    return std::nullopt;
  return bound;
}

double CountUpTo(const std::map<double, double>& buckets, double bound) {
  const auto found = buckets.find(bound);
  return found == buckets.end() ? 0 : found->second;
}

std::optional<double> Find(const std::map<std::string, double, std::less<>>& values,
                           absl::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::make_optional(found->second);
}

}  // namespace

void MetricSamples::Add(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == absl::string_view::npos) continue;
    absl::string_view name = line.substr(0, name_end);
    const size_t labels_end = line[name_end] == '{' ? line.rfind('}') : name_end;
    if (labels_end == absl::string_view::npos) continue;
    const std::vector<absl::string_view> values =
        absl::StrSplit(line.substr(labels_end + 1), ' ', absl::SkipEmpty());
    double value;
    if (values.empty() || !absl::SimpleAtod(values[0], &value)) continue;
    if (absl::ConsumeSuffix(&name, kBucket)) {
      const auto bound = BoundOf(line.substr(name_end, labels_end - name_end));
      if (bound.has_value()) buckets_[std::string(name)][*bound] += value;
      continue;
    }
    sums_[std::string(name)] += value;
    const auto [maximum, added] = maxima_.emplace(name, value);
    if (!added) maximum->second = std::max(maximum->second, value);
  }
}

std::optional<double> MetricSamples::Sum(absl::string_view name) const { return Find(sums_, name); }

std::optional<double> MetricSamples::Max(absl::string_view name) const {
  return Find(maxima_, name);
}

std::map<double, double> MetricSamples::Buckets(absl::string_view histogram) const {
  const auto found = buckets_.find(histogram);
  return found == buckets_.end() ? std::map<double, double>() : found->second;
}

std::optional<double> Quantile(double quantile, const std::map<double, double>& before,
                               const std::map<double, double>& now) {
  if (now.empty()) return std::nullopt;
  const double total = now.rbegin()->second - CountUpTo(before, now.rbegin()->first);
  if (total <= 0) return std::nullopt;
  double lower_bound = 0;
  double lower_count = 0;
  for (const auto& [bound, count] : now) {
    const double upper_count = count - CountUpTo(before, bound);
    if (upper_count >= quantile * total) {
      if (std::isinf(bound)) return bound;
      const double inside = upper_count - lower_count;
      const double part = inside <= 0 ? 1 : (quantile * total - lower_count) / inside;
      return lower_bound + part * (bound - lower_bound);
    }
    lower_bound = bound;
    lower_count = upper_count;
  }
  return std::nullopt;
}

}  // namespace escapement::escctl
