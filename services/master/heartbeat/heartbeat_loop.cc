#include "services/master/heartbeat/heartbeat_loop.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/records/row_judge.h"
#include "google/protobuf/util/time_util.h"

namespace escapement::master {
namespace {

using google::protobuf::util::TimeUtil;

constexpr absl::Duration kLookEvery = absl::Minutes(1);

std::string Parent() { return absl::StrCat("tenants/", kHeartbeatTenant); }
std::string Name() { return absl::StrCat(Parent(), "/schedules/", kHeartbeatSchedule); }

void LogIfBad(const absl::Status& status, const char* text) {
  if (!status.ok() && !absl::IsAlreadyExists(status) && !absl::IsAborted(status))
    Log(LogLevel::kWarning, "master.heartbeat", text, {{"error", status.ToString()}});
}

}  // namespace

void HeartbeatLoop::Start() {
  if (every_ > absl::ZeroDuration()) Look();
}

v1::Schedule HeartbeatLoop::Wanted() const {
  v1::Schedule schedule;
  schedule.set_name(Name());
  schedule.set_display_name("The platform's own heartbeat");
  *schedule.mutable_interval()->mutable_every() =
      TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(every_));
  // Not the time of its creation: then all intervals have the same phase.
  *schedule.mutable_interval()->mutable_anchor_time() = TimeUtil::SecondsToTimestamp(0);
  schedule.mutable_target()->mutable_ping()->set_uri(std::string(kHeartbeatUri));
  schedule.mutable_retry_policy()->set_max_attempts(1);
  return schedule;
}

void HeartbeatLoop::Look() {
  v1::GetScheduleRequest request;
  request.set_name(Name());
  schedules_.GetSchedule(std::move(request), [this](absl::StatusOr<v1::Schedule> found) {
    if (absl::IsNotFound(found.status())) return Create();
    if (found.ok() && TimeUtil::DurationToNanoseconds(found->interval().every()) !=
                          absl::ToInt64Nanoseconds(every_))
      return SetInterval();
    LogIfBad(found.status(), "the heartbeat schedule cannot be read");
    LookLater();
  });
}

void HeartbeatLoop::Create() {
  v1::CreateScheduleRequest request;
  request.set_parent(Parent());
  request.set_schedule_id(std::string(kHeartbeatSchedule));
  *request.mutable_schedule() = Wanted();
  schedules_.CreateSchedule(std::move(request), [this](const absl::StatusOr<v1::Schedule>& made) {
    LogIfBad(made.status(), "the heartbeat schedule cannot be made");
    LookLater();
  });
}

void HeartbeatLoop::SetInterval() {
  v1::UpdateScheduleRequest request;
  *request.mutable_schedule() = Wanted();
  request.mutable_update_mask()->add_paths("interval");
  schedules_.UpdateSchedule(std::move(request), [this](const absl::StatusOr<v1::Schedule>& set) {
    LogIfBad(set.status(), "the heartbeat schedule's interval cannot be set");
    LookLater();
  });
}

void HeartbeatLoop::LookLater() {
  executor_->PostAfter(kLookEvery, [this] { Look(); });
}

}  // namespace escapement::master
