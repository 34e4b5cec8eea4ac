#include "services/master/ingest/refused_events.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

// Splits "events[3].payload" into 3 and "payload". nullopt: the violation is not of one event.
std::optional<std::pair<size_t, std::string>> EventOf(absl::string_view field) {
  size_t position = 0;
  if (!absl::ConsumePrefix(&field, "events[")) return std::nullopt;
  const size_t close = field.find(']');
  if (close == absl::string_view::npos || !absl::SimpleAtoi(field.substr(0, close), &position))
    return std::nullopt;
  field.remove_prefix(close + 1);
  absl::ConsumePrefix(&field, ".");
  absl::ConsumePrefix(&field, "overrides.");
  return std::make_pair(position, std::string(field));
}

}  // namespace

std::map<size_t, absl::Status> RefusedEvents(
    const std::vector<std::pair<std::string, std::string>>& violations, size_t events) {
  std::map<size_t, absl::Status> refused;
  for (const auto& [field, description] : violations) {
    const auto named = EventOf(field);
    if (!named.has_value() || named->first >= events) return {};
    refused.emplace(named->first, InvalidField(named->second, description));
  }
  return refused;
}

}  // namespace escapement::master
