#include "common/records/row_judge.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/records/currency.h"
#include "common/storage/children_table.h"

namespace escapement {

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

// True if rows of the definition wait where this row waits: by policy and priority, or without one.
bool SamePlace(const EventRecord& row, const storage::v1::DefinitionRecord& definition) {
  if (row.has_throttle() != definition.has_throttle()) return false;
  return !row.has_throttle() || (row.throttle().policy_id() == definition.throttle().policy_id() &&
                                 row.priority() == definition.priority());
}

}  // namespace

absl::Time SupersededEndsAt(const EventRecord& row) {
  return FromMicros(row.launch_time_micros()) + kSupersededAfter;
}

RowJudgement JudgeScheduledRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                               const EventRecord& row) {
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
