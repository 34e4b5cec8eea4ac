#include "services/master/events/event_cancel.h"

#include <memory>
#include <utility>

#include "common/base/micros.h"
#include "common/runtime/perturb.h"
#include "common/status/errors.h"
#include "common/storage/done_record.h"
#include "common/storage/done_table.h"
#include "common/storage/inflight_table.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_codec.h"
#include "services/master/events/event_lookup.h"
#include "services/master/requests/request_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using Kind = kv::Condition::Kind;

storage::v1::DoneRecord CancelledRecord(const storage::v1::EventRecord& row, absl::Time now) {
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_CANCELLED);
  done.set_complete_time_micros(ToMicros(now));
  return done;
}

class Cancellation : public std::enable_shared_from_this<Cancellation> {
 public:
  Cancellation(MasterContext& context, EventName name, RequestMark mark, bool validate_only,
               Done<v1::Event> done)
      : context_(context),
        name_(std::move(name)),
        mark_(std::move(mark)),
        validate_only_(validate_only),
        done_(std::move(done)) {}

  void Start() {
    AnswerOr(context_, mark_, done_, [self = shared_from_this()] { self->LookUp(); });
  }

 private:
  void LookUp() {
    LookUpEvent(context_, name_, ReadClaims::kAlways,
                [self = shared_from_this()](absl::StatusOr<EventSighting> sighting) {
                  self->OnFound(std::move(sighting));
                });
  }

  void OnFound(absl::StatusOr<EventSighting> sighting) {
    if (!sighting.ok()) return done_(StoreFailed(sighting.status()));
    if (Perturb(context_.runtime, Site::kMasterCancelReadsAgain)) return LookUp();
    const std::string name = name_.ToString();
    if (sighting->done.has_value()) return Refuse(EventEnded(name));
    if (!sighting->row.has_value()) return Refuse(NotFound(name));
    if (sighting->claimed) return Refuse(EventRunning(name));
    const absl::Time now = context_.client.NowLow();
    const storage::v1::DoneRecord record = CancelledRecord(*sighting->row, now);
    response_ = ShowEndedEvent(name, record);
    if (validate_only_) return done_(std::move(response_));
    kv::Commit commit;
    commit.groups.push_back(MakeGroup(*sighting, record, now));
    context_.client.CommitAsync(
        std::move(commit), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->OnWritten(std::move(result));
        });
  }

  // An earlier try of this request may have ended the event, applied after its mark was read.
  void Refuse(absl::Status status) {
    AnswerOr(context_, mark_, done_,
             [self = shared_from_this(), status = std::move(status)] { self->done_(status); });
  }

  kv::Group MakeGroup(const EventSighting& sighting, const storage::v1::DoneRecord& record,
                      absl::Time now) {
    kv::Group group;
    group.conditions.push_back({.cf = ColumnFamily::kEvents,
                                .key = sighting.row_key,
                                .kind = Kind::kPresent,
                                .since = sighting.row_seq});
    group.conditions.push_back({.cf = ColumnFamily::kMeta,
                                .key = ClaimMarkKey(sighting.key.shard),
                                .kind = Kind::kUnchangedSince,
                                .since = sighting.claims_seq});
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = sighting.row_key});
    group.mutations.push_back(
        {.cf = ColumnFamily::kDone,
         .key = EncodeDoneKey({.shard = sighting.key.shard,
                               .day = DoneDay(FromMicros(record.launch_time_micros())),
                               .uid = sighting.key.uid,
                               .occurrence = sighting.key.occurrence,
                               .first = sighting.key.first}),
         .value = record.SerializeAsString()});
    if (sighting.has_name && !sighting.row->client_chosen_id()) {
      group.mutations.push_back({.cf = ColumnFamily::kEventNames,
                                 .kind = kv::Mutation::Kind::kDelete,
                                 .key = EventNameKey(name_.tenant, name_.event)});
    }
    mark_.AddTo(response_, now, /*version_before=*/0, group);
    return group;
  }

  void OnWritten(absl::StatusOr<kv::CommitResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    if (result->verdicts[0].applied) {
      context_.metrics.events_cancelled.Increment();
      return done_(std::move(response_));
    }
    // A claim was made in the shard, or the row moved, or the same request was answered: look
    // again.
    if (++attempts_ >= kCancelAttemptsMax) return done_(Contended(name_.ToString()));
    Start();
  }

  MasterContext& context_;
  const EventName name_;
  const RequestMark mark_;
  const bool validate_only_;
  Done<v1::Event> done_;
  v1::Event response_;
  int attempts_ = 0;
};

}  // namespace

void CancelOneOffEvent(MasterContext& context, EventName name, RequestMark mark, bool validate_only,
                       Done<v1::Event> done) {
  std::make_shared<Cancellation>(context, std::move(name), std::move(mark), validate_only,
                                 std::move(done))
      ->Start();
}

}  // namespace escapement::master
