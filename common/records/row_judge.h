// Judges whether a queue row still is what its schedule wants (JudgeRow, JudgeQueueRow). Also
// the end of a row's retries, the attempts that it remembers, keys of targets, and the heartbeat.

#ifndef COMMON_RECORDS_ROW_JUDGE_H_
#define COMMON_RECORDS_ROW_JUDGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/cron/timetable.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// JudgeRow: judges whether a queue row still is what its schedule wants.
//
// Pure. JudgeQueueRow also finds state and definition.

// Reasons with which rows are skipped or cancelled.
inline constexpr absl::string_view kScheduleDeleted = "deleted";
inline constexpr absl::string_view kSuperseded = "superseded";  // the schedule has changed
inline constexpr absl::string_view kCancelledByUser = "cancelled";
inline constexpr absl::string_view kOverlap = "overlap";  // a later run took the run's place

struct RowVerdict {
  enum class Action : uint8_t {
    kSend,
    kFetch,  // a record that the judgement needs is not known yet
    kPark,   // the schedule is paused
    kSkip,   // end the row with `outcome`, for `reason`
    kDrop,   // delete the row without an outcome: another row stands for its events
    kMove,   // the row waits under the wrong policy, key of the policy, or priority
  };
  Action action = Action::kSend;
  // Only for kSkip.
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SKIPPED;
  absl::string_view reason = {};  // one of the constants above

  bool superseded() const { return action == Action::kSkip && reason == kSuperseded; }
};

// Never returns kDrop or kMove. `state` is null if the schedule has none. `current_has` says
// whether the definition of state->version() has the row's occurrence (HasOccurrence). If it is
// nullopt (not known yet) and needed, the verdict is kFetch. A row of that version itself is
// superseded only at or after the finish that max_runs sets (FinishOf).
RowVerdict JudgeRow(const storage::v1::EventRecord& row, absl::string_view occurrence,
                    const storage::v1::StateRecord* state, std::optional<bool> current_has);

// True if the schedule is paused, unless the row's run was triggered or backfilled since the pause
// began: the user wants that run in spite of the pause.
bool HeldByPause(const storage::v1::EventRecord& row, const storage::v1::StateRecord& state);

// True if CancelRun has cancelled the run of this occurrence.
bool CancelledByUser(absl::string_view occurrence, const storage::v1::StateRecord& state);

// Why the row's run is cancelled: kCancelledByUser (CancelRun, also for a triggered run) or
// kOverlap (StateRecord.cancelled_before_micros). nullopt: the run is not cancelled.
std::optional<absl::string_view> CancelReason(const storage::v1::EventRecord& row,
                                              absl::string_view occurrence,
                                              const storage::v1::StateRecord& state);

// True if the timetable has an occurrence of this identity at this instant, before `finish`
// (FinishOf). A null timetable (its definition cannot be read) has no occurrence.
bool HasOccurrence(const cron::Timetable* timetable, absl::string_view occurrence,
                   int64_t nominal_micros, absl::Time finish = absl::InfiniteFuture());

// RetryEnd: until when a schedule's event is tried again. TriedSince and NoteTried: from when its
// age counts. AttemptsOfRound: which of its attempts count.
//
// Pure.

// When the age of the event began: at its first attempt, or when its target could first not be
// reached. `now` if the row has no such time yet.
template <typename Row>  // as in common/storage/event_table.h
absl::Time TriedSince(const Row& row, absl::Time now) {
  return row.tried_since_micros() != 0 ? FromMicros(row.tried_since_micros()) : now;
}

// Sets that time in the row if it has none yet. 0 changes nothing.
void NoteTried(int64_t tried_micros, storage::v1::EventRecord& row);

// Returns how many of the `attempts` that have begun belong to the present round: the retry policy
// counts only these. A redrive begins a new round.
template <typename Row>
uint32_t AttemptsOfRound(const Row& row, uint32_t attempts) {
  return attempts - std::min<uint32_t>(attempts, row.attempts_before_redrive());
}

// The schedule's next occurrence: no retry of the row's events begins at or after it. For a row
// that was carried over to the window of a later occurrence, it is the occurrence after that one.
// nullopt: there is no such end. The row is of a one-off event, its run was triggered or
// backfilled, the definition keeps its retries, or there is no further occurrence. `timetable` is
// the definition's (null: none). `state` is the schedule's (null: not known).
std::optional<absl::Time> RetryEnd(const storage::v1::EventRecord& row,
                                   const storage::v1::DefinitionRecord& definition,
                                   const cron::Timetable* timetable, const CachedState* state);

// True if the row waits for a retry that could only begin at or after RetryEnd.
bool RetryIsOver(const storage::v1::EventRecord& row,
                 const storage::v1::DefinitionRecord& definition, const cron::Timetable* timetable,
                 const CachedState* state, absl::Time now);

// RememberAttempt: the failed attempts that a row remembers.
//
// A row has its last attempts only, with their texts cut, because it is copied with each claim.
//
// Pure.

inline constexpr int kAttemptsRemembered = 9;
inline constexpr size_t kRememberedErrorBytesMax = 256;
inline constexpr size_t kRememberedAnswerBytesMax = 512;

// Adds the attempt to row.tried. Above kAttemptsRemembered the oldest one is dropped.
void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row);

// TargetKeyOf: the key of targets that share connections, bounds and a circuit breaker.
//
// The kind, a colon, and:
//
//   http, ping, slack   scheme://host:port (slack: empty while the URL is sealed)
//   grpc                the URI; with TLS also a hash of the certificates
//   sqs                 the queue's URL; before it the endpoint, if that is elsewhere
//   kafka               brokers/topic
//   email               the server's URI
//
// It has no secret. Pure.
std::string TargetKeyOf(const storage::v1::TargetRecord& target);

// JudgeQueueRow: decides what to do with a queue row of a schedule, from the schedule's current
// state and definition.
//
// Its callers are the handler (rows of `events`), the token manager (rows of `waiting`) and the
// emitter (launches). Each puts the state of the judgement as a condition on its commit.
//
// Threads: that of the RecordCache.

struct RowJudgement {
  using Action = RowVerdict::Action;
  Action action = Action::kFetch;  // kFetch: the cache has been asked for what is missing
  // Only for kSkip: the outcome (skipped or cancelled) and the reason.
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SKIPPED;
  std::string reason = {};
  // The state of the judgement. Null for one-off events, and maybe for kFetch.
  std::shared_ptr<const CachedState> state = nullptr;
  // Only for kSend and kMove: the definition of the version of `state`. For kMove it has another
  // policy than the row or, with a policy, another priority.
  std::shared_ptr<const CachedDefinition> definition = nullptr;

  bool superseded() const { return action == Action::kSkip && reason == kSuperseded; }
};

// When a superseded row ends: one second after its launch time. Until then an update may want the
// occurrence again, under the same identity. An update takes at most that second from its reading
// of the time to its commit.
absl::Time SupersededEndsAt(const storage::v1::EventRecord& row);

// A one-off event (its version is 0) is always sent. It has no state; its definition is how it is
// delivered. If that is gone, the event is skipped.
RowJudgement JudgeQueueRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                           const storage::v1::EventRecord& row);

// The heartbeat: a schedule of the platform's own, whose events go through the whole platform and
// are accepted by the handler itself. Its metrics show that the platform works although no tenant
// has anything due.

inline constexpr absl::string_view kHeartbeatTenant = "escapement";
inline constexpr absl::string_view kHeartbeatSchedule = "heartbeat";
// DeliveryContext::source of its events.
inline constexpr absl::string_view kHeartbeatSource = "/tenants/escapement/schedules/heartbeat";
// The URI of a ping target that the handler accepts without a connection.
inline constexpr absl::string_view kHeartbeatUri = "heartbeat:";

}  // namespace escapement

#endif  // COMMON_RECORDS_ROW_JUDGE_H_
