#include "services/master/schedules/changes/pause_request_loop.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/kv/group_parts.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/requests/request_table.h"
#include "services/master/schedules/changes/schedule_decisions.h"
#include "services/master/schedules/changes/schedule_transaction.h"

namespace escapement::master {
namespace {

using storage::v1::PauseRequestRecord;

// Requests that are acted on at once.
constexpr size_t kActingMax = 16;
// After a failure, for example because the store cannot be reached.
constexpr absl::Duration kRetryAfter = absl::Seconds(1);

bool MayPause(const ChangeInput& input, const std::string& key, const PauseRequestRecord& request) {
  const ScheduleSnapshot& snapshot = input.snapshot;
  return snapshot.record.has_value() && PauseRequestKey(snapshot.uid) == key &&
         snapshot.state.version() <= request.version() && CheckEnabled(input).ok();
}

absl::StatusOr<Decision> Decide(const ChangeInput& input, const kv::Entry& row,
                                const PauseRequestRecord& request,
                                const v1::PauseScheduleRequest& pause) {
  Decision decision;
  decision.response = std::make_unique<v1::Schedule>();
  if (MayPause(input, row.key, request)) {
    absl::StatusOr<Decision> paused = DecidePause(input, pause);
    if (!paused.ok()) return paused;
    decision = *std::move(paused);
    RequestMark(input.name.tenant, "PauseSchedule", "", pause, PlatformCaller())
        .AddTo(*decision.response, input.now, input.snapshot.state.version(), decision.group);
  }
  decision.group.conditions.push_back(
      kv::ValueIs(kv::ColumnFamily::kPauseRequests, row.key, row.value));
  decision.group.mutations.push_back(kv::Delete(kv::ColumnFamily::kPauseRequests, row.key));
  return decision;
}

}  // namespace

PauseRequestLoop::PauseRequestLoop(MasterContext& context)
    : context_(context),
      mirror_(context.client, kv::ColumnFamily::kPauseRequests, {}, context.executor,
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void PauseRequestLoop::Take(const kv::RangeMirror::Rows& rows) {
  rows_ = std::make_shared<const kv::RangeMirror::Rows>(rows);
  Step();
}

void PauseRequestLoop::Step() {
  if (rows_ == nullptr || !context_.ready) return;
  const std::shared_ptr<const kv::RangeMirror::Rows> rows = rows_;
  for (const auto& [key, value] : *rows) {
    if (acting_.size() >= kActingMax) return;
    if (acting_.insert(key).second) Act(key, value);
  }
}

void PauseRequestLoop::Act(const std::string& key, const std::string& value) {
  PauseRequestRecord request;
  if (!request.ParseFromString(value)) {
    Log(LogLevel::kError, "master", "a request to pause a schedule cannot be read", {});
    return;  // the row stays, and its key stays in `acting_`
  }
  v1::PauseScheduleRequest pause;
  ScheduleChange change{.name = {request.tenant(), request.schedule_id()}};
  pause.set_name(change.name.ToString());
  pause.set_reason(request.reason());
  change.decide = [this, row = kv::Entry{.key = key, .value = value}, request,
                   pause](const ChangeInput& input) -> absl::StatusOr<Decision> {
    const auto current = rows_->find(row.key);
    if (current == rows_->end() || current->second != row.value)
      return absl::AbortedError("another master has acted on the request");
    return Decide(input, row, request, pause);
  };
  change.response = std::make_unique<v1::Schedule>();
  ChangeSchedule(context_, std::move(change), [this, key](const auto& /*answer*/) {
    // The mirror may show the row for a moment longer, and it may be a new one.
    context_.executor->PostAfter(kRetryAfter, [this, key] { OnDone(key); });
  });
}

void PauseRequestLoop::OnDone(const std::string& key) {
  acting_.erase(key);
  Step();
}

}  // namespace escapement::master
