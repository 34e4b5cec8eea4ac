#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {
namespace {

// Takes `name="value",…}` from the front of `line`. nullopt if it is something else.
std::optional<std::map<std::string, std::string>> TakeLabels(absl::string_view& line) {
  std::map<std::string, std::string> labels;
  while (!line.empty() && line.front() != '}') {
    const size_t name_end = line.find("=\"");
    if (name_end == absl::string_view::npos) return std::nullopt;
    const std::string name(line.substr(0, name_end));
    line.remove_prefix(name_end + 2);
    std::string value;
    while (!line.empty() && line.front() != '"') {
      if (line.front() == '\\' && line.size() > 1) {
        line.remove_prefix(1);
        value.push_back(line.front() == 'n' ? '\n' : line.front());
      } else {
        value.push_back(line.front());
      }
      line.remove_prefix(1);
    }
    if (line.empty()) return std::nullopt;
    line.remove_prefix(1);
    if (!line.empty() && line.front() == ',') line.remove_prefix(1);
    labels[name] = std::move(value);
  }
  if (line.empty()) return std::nullopt;
  line.remove_prefix(1);
  return labels;
}

}  // namespace

std::string MetricSample::Label(const std::string& label) const {
  const auto found = labels.find(label);
  return found == labels.end() ? "" : found->second;
}

std::vector<MetricSample> ReadMetrics(absl::string_view text) {
  std::vector<MetricSample> samples;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == absl::string_view::npos) continue;
    MetricSample sample{.name = std::string(line.substr(0, name_end))};
    const bool labelled = line[name_end] == '{';
    line.remove_prefix(name_end + 1);
    if (labelled) {
      auto labels = TakeLabels(line);
      if (!labels.has_value()) continue;
      sample.labels = *std::move(labels);
    }
    const std::vector<absl::string_view> values = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (values.empty() || !absl::SimpleAtod(values[0], &sample.value)) continue;
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace escapement::escctl
