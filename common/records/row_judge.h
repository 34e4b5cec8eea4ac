// TargetKeyOf: the key of targets that share connections, bounds and a circuit breaker.

#ifndef COMMON_RECORDS_ROW_JUDGE_H_
#define COMMON_RECORDS_ROW_JUDGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/records/currency.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

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

// Decides what to do with a queue row of a schedule, from the schedule's current state and
// definition.
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
  // The state of the judgement. It may be null only for kFetch.
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

// `row` must be a row of a schedule (its version is not 0).
RowJudgement JudgeScheduledRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
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
