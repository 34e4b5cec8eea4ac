#include "common/records/row_judge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/hash.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"

namespace escapement {

using storage::v1::EventRecord;
using storage::v1::StateRecord;
using Action = RowVerdict::Action;

namespace {

// False for a row that a resume or an update has written beyond max_runs.
bool BeforeFinish(const EventRecord& row, const StateRecord& state) {
  return FromMicros(row.nominal_time_micros()) < FinishOf(state);
}

}  // namespace

bool HasOccurrence(const cron::Timetable* timetable, absl::string_view occurrence,
                   int64_t nominal_micros, absl::Time finish) {
  const absl::Time nominal = FromMicros(nominal_micros);
  return timetable != nullptr && nominal < finish && timetable->Has(occurrence, nominal);
}

bool HeldByPause(const EventRecord& row, const StateRecord& state) {
  return state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED &&
         row.trigger_time_micros() <= state.pause_time_micros();
}

bool CancelledByUser(absl::string_view occurrence, const StateRecord& state) {
  return absl::c_any_of(state.cancelled_runs(),
                        [&](const auto& run) { return run.occurrence() == occurrence; });
}

std::optional<absl::string_view> CancelReason(const EventRecord& row, absl::string_view occurrence,
                                              const StateRecord& state) {
  if (CancelledByUser(occurrence, state)) return kCancelledByUser;
  if (!row.triggered() && row.nominal_time_micros() < state.cancelled_before_micros())
    return kOverlap;
  return std::nullopt;
}

RowVerdict JudgeRow(const EventRecord& row, absl::string_view occurrence, const StateRecord* state,
                    std::optional<bool> current_has) {
  constexpr RowVerdict kSend{.action = Action::kSend};
  constexpr RowVerdict kSkipSuperseded{.action = Action::kSkip, .reason = kSuperseded};
  if (state == nullptr || state->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED)
    return {.action = Action::kSkip, .reason = kScheduleDeleted};
  if (const auto reason = CancelReason(row, occurrence, *state); reason.has_value()) {
    return {
        .action = Action::kSkip, .outcome = storage::v1::OUTCOME_KIND_CANCELLED, .reason = *reason};
  }
  if (HeldByPause(row, *state)) return {.action = Action::kPark};
  if (row.triggered()) return kSend;
  if (state->version() == row.version()) return BeforeFinish(row, *state) ? kSend : kSkipSuperseded;
  if (!current_has.has_value()) return {.action = Action::kFetch};
  return *current_has ? kSend : kSkipSuperseded;
}

namespace {

// The occurrence in whose period the row is.
absl::Time OccurrenceOf(const storage::v1::EventRecord& row) {
  const int64_t nominal = row.nominal_time_micros();
  if (!row.has_throttle() || !row.throttle().has_window()) return FromMicros(nominal);
  const int64_t begin = row.throttle().window_begin_micros();
  const bool carried_over = begin != row.launch_time_micros();
  return FromMicros(carried_over ? std::max(nominal, begin) : nominal);
}

}  // namespace

void NoteTried(int64_t tried_micros, storage::v1::EventRecord& row) {
  if (row.tried_since_micros() == 0) row.set_tried_since_micros(tried_micros);
}

std::optional<absl::Time> RetryEnd(const storage::v1::EventRecord& row,
                                   const storage::v1::DefinitionRecord& definition,
                                   const cron::Timetable* timetable, const CachedState* state) {
  if (row.version() == 0 || row.triggered() || timetable == nullptr ||
      definition.delivery().retry().keep())
    return std::nullopt;
  const std::optional<cron::Occurrence> next = timetable->FirstAfter(OccurrenceOf(row));
  if (!next.has_value()) return std::nullopt;
  // By then the schedule has used all of its max_runs.
  if (state != nullptr && state->record.has_value() && next->instant >= FinishOf(*state->record))
    return std::nullopt;
  return next->instant;
}

bool RetryIsOver(const storage::v1::EventRecord& row,
                 const storage::v1::DefinitionRecord& definition, const cron::Timetable* timetable,
                 const CachedState* state, absl::Time now) {
  if (row.attempts() == 0) return false;
  const std::optional<absl::Time> end = RetryEnd(row, definition, timetable, state);
  return end.has_value() && now >= *end;
}

void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row) {
  attempt.set_error(CleanText(attempt.error(), kRememberedErrorBytesMax));
  if (attempt.answer().size() > kRememberedAnswerBytesMax)
    attempt.mutable_answer()->resize(kRememberedAnswerBytesMax);
  auto& tried = *row.mutable_tried();
  const int surplus = tried.size() + 1 - kAttemptsRemembered;
  if (surplus > 0) tried.DeleteSubrange(0, surplus);
  *tried.Add() = std::move(attempt);
}

namespace {

using storage::v1::TargetRecord;

// scheme://host:port of a URI; "" if it has no scheme.
absl::string_view OriginOf(absl::string_view uri) {
  const size_t scheme = uri.find("://");
  if (scheme == absl::string_view::npos) return {};
  return uri.substr(0, uri.find_first_of("/?#", scheme + 3));
}

std::string GrpcKey(const storage::v1::GrpcTargetRecord& grpc) {
  if (!grpc.has_tls()) return absl::StrCat("grpc:", grpc.uri());
  const uint64_t certificates = StableHash64(
      absl::StrCat(grpc.tls().ca_certificates(), "\n", grpc.tls().client_certificate()));
  return absl::StrCat("grpc:", grpc.uri(), "#tls-", absl::Hex(certificates, absl::kZeroPad16));
}

std::string SqsKey(const storage::v1::SqsTargetRecord& sqs) {
  if (OriginOf(sqs.queue_url()) == sqs.endpoint()) return absl::StrCat("sqs:", sqs.queue_url());
  return absl::StrCat("sqs:", sqs.endpoint(), "#", sqs.queue_url());
}

}  // namespace

std::string TargetKeyOf(const TargetRecord& target) {
  switch (target.kind_case()) {
    case TargetRecord::kGrpc:
      return GrpcKey(target.grpc());
    case TargetRecord::kSqs:
      return SqsKey(target.sqs());
    case TargetRecord::kKafka:
      return absl::StrCat("kafka:", target.kafka().brokers(), "/", target.kafka().topic());
    case TargetRecord::kSlack:
      return absl::StrCat("slack:", OriginOf(target.slack().webhook_url()));
    case TargetRecord::kEmail:
      return absl::StrCat("email:", target.email().smtp_uri());
    case TargetRecord::kPing:
      if (target.ping().uri() == kHeartbeatUri) return absl::StrCat("ping:", kHeartbeatUri);
      return absl::StrCat("ping:", OriginOf(target.ping().uri()));
    case TargetRecord::kHttp:
    case TargetRecord::KIND_NOT_SET:
      return absl::StrCat("http:", OriginOf(target.http().uri()));
  }
  return "";
}

namespace {

using Action = RowJudgement::Action;
using storage::v1::EventRecord;

constexpr absl::Duration kSupersededAfter = absl::Seconds(1);

enum class Former { kNone, kDoubled, kSuperseded, kUnknown };

// Finds out whether updates have removed this occurrence from the schedule and added it again. If
// it was added again before it was due, that update has written a row of its own, and this one is
// left over (kDoubled; an equal definition writes the same key, and so no second row). If it was
// added again after it was due, it was not wanted when it was due (kSuperseded).
Former ChangedBack(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                   const EventRecord& row, const storage::v1::StateRecord& state) {
  if (row.triggered()) return Former::kNone;
  std::vector<std::shared_ptr<const CachedDefinition>> later;  // versions after the row's
  for (uint64_t version = row.version() + 1; version <= state.version(); ++version) {
    later.push_back(cache.Definition(uid, version));
    if (later.back() == nullptr) return Former::kUnknown;
    if (later.back()->record == nullptr) return Former::kNone;
  }
  const int64_t nominal = row.nominal_time_micros();
  // The finish of the version before later[i], at the time of the update.
  const auto finish_before = [&](size_t i) {
    const int64_t micros = later[i]->record->former_finish_micros();
    return micros == 0 ? absl::InfiniteFuture() : FromMicros(micros);
  };
  bool away = !later.empty() && FromMicros(nominal) >= finish_before(0);
  bool away_when_due = away;
  for (size_t i = 0; i < later.size(); ++i) {
    const absl::Time finish = i + 1 < later.size() ? finish_before(i + 1) : FinishOf(state);
    const bool has = HasOccurrence(later[i]->timetable.get(), occurrence, nominal, finish);
    const bool in_time = nominal >= later[i]->record->create_time_micros();
    if (away && has && in_time) return Former::kDoubled;
    away = !has;
    if (in_time) away_when_due = away;
  }
  return away_when_due && !away ? Former::kSuperseded : Former::kNone;
}

// The cached state may be older than the row: one commit writes both, but two watches deliver them
// separately. If the row is newer, the state is read again.
RowJudgement Superseded(RecordCache& cache, const Uid& uid, const EventRecord& row,
                        RowJudgement judged) {
  if (row.version() > judged.state->record->version()) {
    cache.ForgetState(uid);
    cache.State(uid);
    return {};
  }
  judged.action = Action::kSkip;
  judged.reason = std::string(kSuperseded);
  return judged;
}

// True if rows of the definition wait where this row waits: by limits and priority, or without any.
bool SamePlace(const EventRecord& row, const storage::v1::DefinitionRecord& definition) {
  if (row.has_throttle() != definition.has_throttle()) return false;
  return !row.has_throttle() || (SameLimits(row.throttle(), definition.throttle()) &&
                                 row.priority() == definition.priority());
}

RowJudgement JudgeOneOff(RecordCache& cache, const Uid& delivery) {
  RowJudgement judged;
  const auto definition = cache.Definition(delivery, 0);
  if (definition == nullptr) return judged;
  if (definition->record == nullptr) {
    judged.action = Action::kSkip;
    judged.reason = std::string(kScheduleDeleted);
    return judged;
  }
  judged.action = Action::kSend;
  judged.definition = definition;
  return judged;
}

}  // namespace

absl::Time SupersededEndsAt(const EventRecord& row) {
  return FromMicros(row.launch_time_micros()) + kSupersededAfter;
}

RowJudgement JudgeQueueRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                           const EventRecord& row) {
  if (const std::optional<Uid> delivery = DeliveryHashOf(row)) return JudgeOneOff(cache, *delivery);
  RowJudgement judged;
  judged.state = cache.State(uid);
  if (judged.state == nullptr) {
    // Most rows have the current version, so both records are read at once.
    cache.Definition(uid, row.version());
    return judged;
  }
  const storage::v1::StateRecord* state =
      judged.state->record.has_value() ? &*judged.state->record : nullptr;
  const auto definition = state == nullptr ? nullptr : cache.Definition(uid, state->version());
  const Former former =
      state == nullptr ? Former::kNone : ChangedBack(cache, uid, occurrence, row, *state);
  if (former == Former::kUnknown) return judged;
  if (former == Former::kDoubled) {
    judged.action = Action::kDrop;
    return judged;
  }
  RowVerdict verdict = JudgeRow(row, occurrence, state, std::nullopt);
  if (verdict.action == Action::kFetch && definition != nullptr) {
    verdict = JudgeRow(row, occurrence, state,
                       HasOccurrence(definition->timetable.get(), occurrence,
                                     row.nominal_time_micros(), FinishOf(*state)));
  }
  if (verdict.superseded()) return Superseded(cache, uid, row, std::move(judged));
  if (verdict.action == Action::kPark || verdict.action == Action::kSkip) {
    judged.action = verdict.action;
    judged.outcome = verdict.outcome;
    judged.reason = std::string(verdict.reason);
    return judged;
  }
  if (former == Former::kSuperseded) return Superseded(cache, uid, row, std::move(judged));
  if (definition == nullptr) return judged;
  // The schedule was deleted with its definition; the cached state is a moment old.
  if (definition->record == nullptr) {
    judged.action = Action::kSkip;
    judged.reason = std::string(kScheduleDeleted);
    return judged;
  }
  judged.action = SamePlace(row, *definition->record) ? Action::kSend : Action::kMove;
  judged.definition = definition;
  return judged;
}

}  // namespace escapement
