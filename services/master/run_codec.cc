#include "services/master/run_codec.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status/errors.h"
#include "services/master/event_codec.h"
#include "services/master/proto_time.h"

namespace escapement::master {
namespace {

int64_t Count(uint64_t count) { return static_cast<int64_t>(count); }

std::string NameOf(const RunName& run, uint64_t index) {
  return absl::StrCat(run.ToString(), "/events/", index);
}

}  // namespace

v1::Run ShowRun(const RunName& name, const storage::v1::RunRecord& run,
                const storage::v1::RunPartRecord& counts) {
  v1::Run shown;
  shown.set_name(name.ToString());
  SetTimestamp(run.nominal_time_micros(), shown.mutable_nominal_time());
  shown.set_event_count(Count(run.event_count()));
  shown.set_version(Count(run.version()));
  shown.set_state(run.complete_time_micros() != 0 ? v1::Run::COMPLETED : v1::Run::ACTIVE);
  shown.set_succeeded_count(Count(counts.succeeded()));
  shown.set_failed_count(Count(counts.failed()));
  shown.set_skipped_count(Count(counts.skipped()));
  shown.set_cancelled_count(Count(counts.cancelled()));
  shown.set_retry_count(Count(counts.retries()));
  if (run.complete_time_micros() != 0)
    SetTimestamp(run.complete_time_micros(), shown.mutable_complete_time());
  return shown;
}

v1::Run ShowSingleRun(const RunName& name, const SingleEvent& event) {
  v1::Run shown;
  shown.set_name(name.ToString());
  shown.set_event_count(1);
  if (event.row.has_value()) {
    SetTimestamp(event.row->nominal_time_micros(), shown.mutable_nominal_time());
    shown.set_version(Count(event.row->version()));
    shown.set_state(v1::Run::ACTIVE);
    shown.set_retry_count(
        std::max<int64_t>(0, Count(event.row->attempts()) - (event.state == v1::RUNNING ? 1 : 0)));
    return shown;
  }
  const storage::v1::DoneRecord& done = *event.done;
  SetTimestamp(done.nominal_time_micros(), shown.mutable_nominal_time());
  shown.set_version(Count(done.version()));
  shown.set_state(v1::Run::COMPLETED);
  shown.set_succeeded_count(done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED);
  shown.set_failed_count(done.outcome() == storage::v1::OUTCOME_KIND_FAILED);
  shown.set_skipped_count(done.outcome() == storage::v1::OUTCOME_KIND_SKIPPED);
  shown.set_cancelled_count(done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED);
  shown.set_retry_count(std::max<int64_t>(0, Count(done.attempts()) - 1));
  SetTimestamp(done.complete_time_micros(), shown.mutable_complete_time());
  return shown;
}

void AddCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord* sum) {
  sum->set_succeeded(sum->succeeded() + part.succeeded());
  sum->set_failed(sum->failed() + part.failed());
  sum->set_skipped(sum->skipped() + part.skipped());
  sum->set_cancelled(sum->cancelled() + part.cancelled());
  sum->set_expired(sum->expired() + part.expired());
  sum->set_retries(sum->retries() + part.retries());
}

v1::Event ShowEndedRunEvent(const RunName& run, const RunIdentity& identity, uint64_t index,
                            const storage::v1::DoneRecord& done) {
  v1::Event event = ShowEndedEvent(NameOf(run, index), done);
  event.set_event_id(identity.EventId(index));
  return event;
}

v1::Event ShowWaitingRunEvent(const RunName& run, const RunIdentity& identity, uint64_t index,
                              const storage::v1::EventRecord& row, v1::EventState state) {
  v1::Event event = ShowWaitingEvent(NameOf(run, index), row, state, nullptr);
  event.set_event_id(identity.EventId(index));
  return event;
}

absl::StatusOr<std::optional<v1::Outcome>> ReadOutcomeFilter(absl::string_view filter) {
  if (filter.empty()) return std::optional<v1::Outcome>();
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  if (!absl::ConsumePrefix(&filter, "outcome=") ||
      !v1::Outcome_Parse(std::string(filter), &outcome) || outcome == v1::OUTCOME_UNSPECIFIED) {
    return InvalidField(
        "filter", "must be empty or outcome=SUCCEEDED, FAILED, SKIPPED, CANCELLED or EXPIRED");
  }
  return std::optional<v1::Outcome>(outcome);
}

}  // namespace escapement::master
