#include "services/master/runs/run_codec.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/run_table.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/events/event_filter.h"

namespace escapement::master {
namespace {

int64_t Count(uint64_t count) { return static_cast<int64_t>(count); }

std::string NameOf(const RunName& run, uint64_t index) {
  return absl::StrCat(run.ToString(), "/events/", index);
}

// When all n events will have ended if they go on to end as between the first token and the last
// end; unset if nothing has ended, or all.
std::optional<int64_t> EtaMicros(const storage::v1::RunRecord& run,
                                 const storage::v1::RunPartRecord& counts, absl::Time now) {
  const uint64_t ended = counts.succeeded() + counts.failed() + counts.skipped() +
                         counts.cancelled() + counts.expired();
  const int64_t first = counts.first_grant_time_micros();
  const int64_t last = counts.last_end_time_micros();
  if (run.complete_time_micros() != 0 || ended == 0 || ended >= run.event_count() || first == 0 ||
      last <= first)
    return std::nullopt;
  const double micros_each = static_cast<double>(last - first) / static_cast<double>(ended);
  const double left = micros_each * static_cast<double>(run.event_count() - ended);
  const int64_t from = std::max(last, ToMicros(now));
  if (left >= static_cast<double>(kDueTimeMicrosMax - from)) return kDueTimeMicrosMax;
  return from + static_cast<int64_t>(left);
}

// The state of an ended run, by its counts.
v1::Run::State EndedState(const v1::Run& run) {
  if (run.cancelled_count() > 0) return v1::Run::CANCELLED;
  return run.skipped_count() == run.event_count() ? v1::Run::SKIPPED : v1::Run::COMPLETED;
}

// The state of a run that has not ended.
v1::Run::State OpenState(int64_t nominal_micros, bool begun, absl::Time now) {
  return !begun && FromMicros(nominal_micros) > now ? v1::Run::UPCOMING : v1::Run::ACTIVE;
}

bool AnyBegun(const storage::v1::RunPartRecord& counts) {
  return counts.succeeded() + counts.failed() + counts.skipped() + counts.cancelled() +
             counts.expired() + counts.retries() + counts.granted() + counts.running() >
         0;
}

// The run of one occurrence, all of whose events were skipped.
void SetSkipped(const std::string& reason, v1::Run& shown) {
  shown.set_skip_reason(reason);
  shown.set_occurrence_count(1);
  *shown.mutable_last_nominal_time() = shown.nominal_time();
}

v1::RunWindow::State ShowWindowState(WindowState state) {
  switch (state) {
    case WindowState::kOnTrack:
      return v1::RunWindow::ON_TRACK;
    case WindowState::kAtRisk:
      return v1::RunWindow::AT_RISK;
    case WindowState::kLate:
      return v1::RunWindow::LATE;
  }
  return v1::RunWindow::STATE_UNSPECIFIED;
}

void SetWindow(const storage::v1::RunRecord& run, const storage::v1::RunPartRecord& counts,
               absl::Time now, v1::RunWindow& shown) {
  const WindowVerdict verdict = JudgeWindow(WindowProgressOf(run, counts), ToMicros(now));
  shown.set_state(ShowWindowState(verdict.state));
  SetTimestamp(run.window_open_micros(), *shown.mutable_open_time());
  SetTimestamp(run.window_close_micros(), *shown.mutable_close_time());
  shown.set_required_rate(verdict.required_rate);
  shown.set_actual_rate(verdict.actual_rate);
}

v1::Run ShowSkippedRun(const RunName& name, const storage::v1::DoneRecord& done) {
  v1::Run shown;
  shown.set_name(name.ToString());
  SetTimestamp(done.nominal_time_micros(), *shown.mutable_nominal_time());
  shown.set_event_count(Count(done.run_count()));
  shown.set_version(Count(done.version()));
  shown.set_state(v1::Run::SKIPPED);
  shown.set_skip_reason(done.reason());
  const uint64_t occurrences = std::max<uint64_t>(done.skipped_occurrences(), 1);
  shown.set_occurrence_count(Count(occurrences));
  SetTimestamp(occurrences > 1 ? done.last_nominal_time_micros() : done.nominal_time_micros(),
               *shown.mutable_last_nominal_time());
  shown.set_skipped_count(Count(done.run_count() * occurrences));
  SetTimestamp(done.complete_time_micros(), *shown.mutable_complete_time());
  shown.set_status(StatusOfRun(shown));
  return shown;
}

}  // namespace

v1::Run ShowRun(const RunName& name, const storage::v1::RunRecord& run,
                const storage::v1::RunPartRecord& counts, absl::Time now) {
  v1::Run shown;
  shown.set_name(name.ToString());
  SetTimestamp(run.nominal_time_micros(), *shown.mutable_nominal_time());
  shown.set_event_count(Count(run.event_count()));
  shown.set_version(Count(run.version()));
  shown.set_succeeded_count(Count(counts.succeeded()));
  shown.set_failed_count(Count(counts.failed()));
  shown.set_skipped_count(Count(counts.skipped()));
  shown.set_cancelled_count(Count(counts.cancelled()));
  shown.set_expired_count(Count(counts.expired()));
  shown.set_retry_count(Count(counts.retries()));
  shown.set_granted_count(Count(counts.granted()));
  shown.set_delivered_count(Count(counts.delivered()));
  shown.set_running_count(Count(counts.running()));
  if (const auto eta = EtaMicros(run, counts, now)) SetTimestamp(*eta, *shown.mutable_eta());
  if (run.complete_time_micros() != 0)
    SetTimestamp(run.complete_time_micros(), *shown.mutable_complete_time());
  shown.set_state(run.complete_time_micros() != 0
                      ? EndedState(shown)
                      : OpenState(run.nominal_time_micros(), AnyBegun(counts), now));
  if (shown.state() == v1::Run::SKIPPED) SetSkipped(counts.skip_reason(), shown);
  shown.set_status(StatusOfRun(shown));
  if (run.window_close_micros() != 0) SetWindow(run, counts, now, *shown.mutable_window());
  return shown;
}

v1::RunReport ShowReport(const RunName& name, const storage::v1::RunPartRecord& counts) {
  v1::RunReport report;
  report.set_never_started_count(Count(counts.never_started()));
  report.set_token_count(Count(counts.tokens()));
  for (const storage::v1::SlowEventRecord& slow : counts.slowest()) {
    v1::RunReport::SlowEvent& event = *report.add_slowest();
    event.set_event(NameOf(name, slow.index()));
    SetDuration(slow.duration_micros(), *event.mutable_duration());
  }
  return report;
}

v1::Run ShowSingleRun(const RunName& name, const SingleEvent& event, absl::Time now) {
  v1::Run shown;
  shown.set_name(name.ToString());
  shown.set_event_count(1);
  if (event.launch.has_value()) {
    const storage::v1::LaunchRecord& launch = *event.launch;
    SetTimestamp(launch.nominal_time_micros(), *shown.mutable_nominal_time());
    shown.set_event_count(Count(launch.event_count()));
    shown.set_version(Count(launch.version()));
    shown.set_awaits_launch(true);
    shown.set_state(OpenState(launch.nominal_time_micros(), /*begun=*/false, now));
    shown.set_status(StatusOfRun(shown));
    return shown;
  }
  if (event.row.has_value()) {
    SetTimestamp(event.row->nominal_time_micros(), *shown.mutable_nominal_time());
    shown.set_version(Count(event.row->version()));
    shown.set_state(OpenState(event.row->nominal_time_micros(),
                              event.state == v1::RUNNING || event.row->attempts() > 0, now));
    // The row says how many had begun before the present one.
    shown.set_retry_count(Count(event.row->attempts()));
    const bool holds_token = event.row->has_throttle() && event.state == v1::RUNNING;
    shown.set_granted_count(holds_token ||
                            (event.row->has_throttle() && event.row->attempts() > 0));
    shown.set_running_count(holds_token);
    shown.set_status(StatusOfRun(shown));
    return shown;
  }
  const storage::v1::DoneRecord& done = *event.done;
  if (done.run_skipped()) return ShowSkippedRun(name, done);
  SetTimestamp(done.nominal_time_micros(), *shown.mutable_nominal_time());
  shown.set_version(Count(done.version()));
  shown.set_succeeded_count(done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED);
  shown.set_failed_count(done.outcome() == storage::v1::OUTCOME_KIND_FAILED);
  shown.set_skipped_count(done.outcome() == storage::v1::OUTCOME_KIND_SKIPPED);
  shown.set_cancelled_count(done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED);
  shown.set_expired_count(done.outcome() == storage::v1::OUTCOME_KIND_EXPIRED);
  shown.set_retry_count(std::max<int64_t>(0, Count(done.attempts()) - 1));
  SetTimestamp(done.complete_time_micros(), *shown.mutable_complete_time());
  shown.set_state(EndedState(shown));
  if (shown.state() == v1::Run::SKIPPED) SetSkipped(done.reason(), shown);
  shown.set_status(StatusOfRun(shown));
  return shown;
}

void AddCounts(const storage::v1::RunPartRecord& part, storage::v1::RunPartRecord& sum) {
  sum.set_succeeded(sum.succeeded() + part.succeeded());
  sum.set_failed(sum.failed() + part.failed());
  sum.set_skipped(sum.skipped() + part.skipped());
  sum.set_cancelled(sum.cancelled() + part.cancelled());
  sum.set_expired(sum.expired() + part.expired());
  sum.set_retries(sum.retries() + part.retries());
  sum.set_granted(sum.granted() + part.granted());
  sum.set_delivered(sum.delivered() + part.delivered());
  sum.set_running(sum.running() + part.running());
  if (!part.skip_reason().empty()) sum.set_skip_reason(part.skip_reason());
  const int64_t first = part.first_grant_time_micros();
  if (first != 0 && (sum.first_grant_time_micros() == 0 || first < sum.first_grant_time_micros())) {
    sum.set_first_grant_time_micros(first);
  }
  sum.set_last_end_time_micros(std::max(sum.last_end_time_micros(), part.last_end_time_micros()));
  sum.set_never_started(sum.never_started() + part.never_started());
  sum.set_tokens(sum.tokens() + part.tokens());
  AddSlowest(part, sum);
}

v1::Event ShowEndedRunEvent(const RunName& run, const RunIdentity& identity, uint64_t index,
                            const storage::v1::DoneRecord& done, uint64_t first) {
  v1::Event event = ShowEndedEvent(NameOf(run, index), done, index - first);
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
