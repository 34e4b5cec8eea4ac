// The `filter` of ListSchedules: conditions on names, labels, states, targets and times.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_FILTER_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_FILTER_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/filter/filter.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

class ScheduleFilter {
 public:
  // Every schedule.
  ScheduleFilter() = default;
  // INVALID_ARGUMENT (filter). Names and policies without "/" are those of the tenant.
  static absl::StatusOr<ScheduleFilter> Read(absl::string_view text, absl::string_view tenant);

  bool always() const { return filter_.always(); }
  bool Matches(const v1::Schedule& schedule) const;

  // Every schedule that matches has an id that begins so; empty: any.
  const std::string& id_prefix() const { return id_prefix_; }
  // Every schedule that matches has this label (key, value).
  const std::optional<std::pair<std::string, std::string>>& label() const { return label_; }

 private:
  Filter filter_;
  std::string id_prefix_;
  std::optional<std::pair<std::string, std::string>> label_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_FILTER_H_
