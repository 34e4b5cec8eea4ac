// Flags about when a schedule fires, and about occurrences that are late or overlap a run.

#ifndef TOOLS_ESCCTL_BASE_TIMING_FLAGS_H_
#define TOOLS_ESCCTL_BASE_TIMING_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/schedule_service.pb.h"

namespace escapement::escctl {

class TimingFlags {
 public:
  // Add: all flags. AddForPreview: only those that a preview has too.
  void Add(CLI::App& command);
  void AddForPreview(CLI::App& command);

  // Writes the given flags into the schedule and appends the mask paths that it set; an empty text
  // clears its field. A flag that says when the schedule fires (--cron, --cron-field, --every,
  // --at) replaces such fields of the schedule. "now" and "+90s" are relative to `now`.
  absl::Status Apply(absl::Time now, v1::Schedule& schedule,
                     std::vector<std::string>& fields) const;
  absl::Status Apply(absl::Time now, v1::PreviewScheduleRequest& request) const;

 private:
  absl::Status ApplyWhen(absl::Time now, v1::Schedule& schedule,
                         std::vector<std::string>& fields) const;
  absl::Status ApplyCronFields(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status ApplyRange(absl::Time now, v1::Schedule& schedule,
                          std::vector<std::string>& fields) const;
  absl::Status ApplyDst(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status ApplyCalendar(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status ApplyMisfire(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status ApplyOthers(v1::Schedule& schedule, std::vector<std::string>& fields) const;

  std::string cron_;
  std::vector<std::string> cron_fields_;
  std::string every_;
  std::string anchor_;
  std::vector<std::string> at_;
  std::string time_zone_;
  std::optional<std::string> start_;
  std::optional<std::string> end_;
  std::optional<int64_t> max_runs_;
  std::vector<std::string> exclusions_;
  std::optional<std::string> calendar_;
  std::optional<std::string> on_excluded_;
  std::optional<std::string> jitter_;
  std::optional<std::string> misfire_;
  std::string misfire_threshold_;
  std::optional<std::string> misfire_max_age_;
  std::optional<int32_t> max_catch_up_;
  std::optional<std::string> overlap_;
  std::optional<std::string> gap_;
  std::optional<std::string> fold_;
};

// Parses RFC 3339, "now", or "+90s" / "-1h30m" relative to `now`.
absl::StatusOr<google::protobuf::Timestamp> ParseTimeFlag(const std::string& flag,
                                                          const std::string& text, absl::Time now);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_TIMING_FLAGS_H_
