#include "services/master/codec/outcome_codec.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"

namespace escapement::master {
namespace {

using storage::v1::AttemptRecord;

v1::Event::Status StatusOfWaiting(const storage::v1::EventRecord& row, v1::EventState state) {
  if (state == v1::RUNNING) return v1::Event::IN_PROGRESS;
  return row.attempts() > 0 ? v1::Event::FAILED : v1::Event::SCHEDULED;
}

v1::Event::Status StatusOfEnded(storage::v1::OutcomeKind outcome) {
  if (outcome == storage::v1::OUTCOME_KIND_SUCCEEDED) return v1::Event::COMPLETED;
  if (outcome == storage::v1::OUTCOME_KIND_FAILED) return v1::Event::PERMANENTLY_FAILED;
  return v1::Event::NOT_DELIVERED;
}

// The bytes if they are text, without a character that was cut at their end; else "".
std::string TextOf(absl::string_view bytes) {
  constexpr size_t kCutMax = 3;  // bytes; a character has at most four
  const std::string one_line = absl::StrReplaceAll(bytes, {{"\n", " "}, {"\r", " "}, {"\t", " "}});
  absl::string_view text = one_line;
  for (size_t cut = 0; cut <= kCutMax && !text.empty(); ++cut) {
    if (!HasControlCharacters(text)) return std::string(bytes.substr(0, text.size()));
    if (absl::ascii_isascii(static_cast<unsigned char>(text.back()))) break;
    text.remove_suffix(1);
  }
  return {};
}

v1::Attempt::Result ShowResult(AttemptRecord::Kind kind) {
  switch (kind) {
    case AttemptRecord::ACCEPTED:
      return v1::Attempt::ACCEPTED;
    case AttemptRecord::FAILED:
      return v1::Attempt::FAILED;
    case AttemptRecord::REJECTED:
      return v1::Attempt::REJECTED;
    case AttemptRecord::UNKNOWN:
      return v1::Attempt::UNKNOWN;
    default:
      return v1::Attempt::RESULT_UNSPECIFIED;
  }
}

// When the last attempt of an event began and how long it took; 0: not known.
struct LastTimes {
  int64_t begin_micros = 0;
  int64_t duration_micros = 0;
};

LastTimes LastTimesOf(const storage::v1::DoneRecord& done, uint64_t position) {
  const int64_t begin = done.dispatch_time_micros();
  const int at = static_cast<int>(position);
  if (position < static_cast<uint64_t>(done.begin_offset_micros_size()) &&
      at < done.duration_micros_size())
    return {begin + done.begin_offset_micros(at), done.duration_micros(at)};
  if (done.count() > 1) return {position == 0 ? begin : 0, 0};
  if (done.last_duration_micros() != 0) return {begin, done.last_duration_micros()};
  return {begin, begin == 0 ? 0 : done.complete_time_micros() - begin};
}

// Done records of skipped, cancelled and expired events have no last attempt, nor have those of
// events that failed while they waited.
bool HasLastAttempt(const storage::v1::DoneRecord& done) {
  if (done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED) return done.attempts() > 0;
  return done.last_attempt() != AttemptRecord::KIND_UNSPECIFIED;
}

v1::Attempt LastAttempt(const storage::v1::DoneRecord& done, const LastTimes& times) {
  AttemptRecord last;
  last.set_number(done.attempts());
  last.set_begin_micros(times.begin_micros);
  last.set_duration_micros(times.duration_micros);
  last.set_status(done.status());
  if (done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED) {
    last.set_kind(AttemptRecord::ACCEPTED);
  } else {
    last.set_kind(done.last_attempt());
    last.set_error(done.reason());
    last.set_answer(done.answer());
  }
  return ShowAttempt(last);
}

}  // namespace

v1::Outcome ShowOutcome(storage::v1::OutcomeKind outcome) {
  switch (outcome) {
    case storage::v1::OUTCOME_KIND_SUCCEEDED:
      return v1::SUCCEEDED;
    case storage::v1::OUTCOME_KIND_FAILED:
      return v1::FAILED;
    case storage::v1::OUTCOME_KIND_EXPIRED:
      return v1::EXPIRED;
    case storage::v1::OUTCOME_KIND_CANCELLED:
      return v1::CANCELLED;
    case storage::v1::OUTCOME_KIND_SKIPPED:
      return v1::SKIPPED;
    default:
      return v1::OUTCOME_UNSPECIFIED;
  }
}

v1::Attempt ShowAttempt(const AttemptRecord& record) {
  v1::Attempt attempt;
  attempt.set_number(static_cast<int32_t>(record.number()));
  if (record.begin_micros() != 0)
    SetTimestamp(record.begin_micros(), *attempt.mutable_start_time());
  if (record.duration_micros() != 0)
    SetDuration(record.duration_micros(), *attempt.mutable_duration());
  attempt.set_result(ShowResult(record.kind()));
  attempt.set_status_code(record.status());
  attempt.set_error(record.error());
  attempt.set_answer(record.answer());
  attempt.set_answer_text(TextOf(record.answer()));
  return attempt;
}

void ShowAttempts(const storage::v1::EventRecord& row, v1::EventState state, v1::Event& event) {
  event.set_status(StatusOfWaiting(row, state));
  event.set_attempts(static_cast<int32_t>(row.attempts()));
  event.set_reason(row.last_error());
  for (const AttemptRecord& attempt : row.tried())
    *event.add_recent_attempts() = ShowAttempt(attempt);
  event.set_redrive_count(static_cast<int32_t>(row.redrives()));
}

void ShowAttempts(const storage::v1::DoneRecord& done, uint64_t position, v1::Event& event) {
  event.set_status(StatusOfEnded(done.outcome()));
  event.set_attempts(static_cast<int32_t>(done.attempts()));
  event.set_reason(done.reason());
  event.set_output(done.output());
  event.set_output_text(TextOf(done.output()));
  const LastTimes times = LastTimesOf(done, position);
  const int64_t dispatch =
      times.begin_micros != 0 ? times.begin_micros : done.dispatch_time_micros();
  if (dispatch != 0) SetTimestamp(dispatch, *event.mutable_dispatch_time());
  const bool of_range = done.count() > 1 && times.duration_micros != 0;
  SetTimestamp(of_range ? times.begin_micros + times.duration_micros : done.complete_time_micros(),
               *event.mutable_complete_time());
  for (const AttemptRecord& attempt : done.tried())
    *event.add_recent_attempts() = ShowAttempt(attempt);
  if (HasLastAttempt(done)) *event.add_recent_attempts() = LastAttempt(done, times);
  event.set_redrive_count(static_cast<int32_t>(done.redrives()));
}

v1::Event::Status StatusOfRun(const v1::Run& run) {
  if (run.state() == v1::Run::UPCOMING) return v1::Event::SCHEDULED;
  if (run.state() == v1::Run::ACTIVE)
    return run.retry_count() > 0 ? v1::Event::FAILED : v1::Event::IN_PROGRESS;
  if (run.failed_count() > 0) return v1::Event::PERMANENTLY_FAILED;
  return run.succeeded_count() > 0 ? v1::Event::COMPLETED : v1::Event::NOT_DELIVERED;
}

}  // namespace escapement::master
