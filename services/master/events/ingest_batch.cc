#include "services/master/events/ingest_batch.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/auth/audit_log.h"
#include "common/base/check.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/events/event_changes.h"
#include "services/master/events/event_lookup.h"
#include "services/master/events/event_throttle.h"

namespace escapement::master {
namespace {

constexpr char kSuperseded[] = "SUPERSEDED";

class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(IngestShared& shared, std::string tenant, std::shared_ptr<const v1::IngestRequest> request,
        IngestOptions options, Done<v1::IngestResponse> done)
      : shared_(shared),
        context_(shared.context),
        tenant_(std::move(tenant)),
        request_(std::move(request)),
        options_(options),
        done_(std::move(done)) {}

  void Start() {
    defaults_ = request_->defaults();
    ApplyDefaults(context_.defaults_of(tenant_), /*mask=*/nullptr, defaults_);
    const std::set<std::string> ids = PoliciesOf(*request_, defaults_, tenant_);
    ReadPolicies(context_, tenant_, ids,
                 [self = shared_from_this()](absl::StatusOr<Policies> policies) {
                   if (!policies.ok()) return self->done_(policies.status());
                   self->policies_ = *std::move(policies);
                   self->ReadNames();
                 });
  }

 private:
  using Fate = IngestRecord::Fate;

  const v1::IngestEvent& EventAt(int position) const { return request_->events(position); }
  IngestRecord& RecordAt(int position) { return records_[static_cast<size_t>(position)]; }
  EventName NameOf(int position) const { return {tenant_, EventAt(position).event_id()}; }

  void ReadNames() {
    records_ = RecordsOf(*request_);
    std::vector<kv::Key> keys;
    std::vector<int> positions;
    for (int i = 0; i < static_cast<int>(records_.size()); ++i) {
      if (RecordAt(i).fate != Fate::kAlone) continue;
      positions.push_back(i);
      keys.push_back({kv::ColumnFamily::kEventNames, EventNameKey(tenant_, EventAt(i).event_id())});
    }
    if (keys.empty()) return Commit();
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this(), positions = std::move(positions)](
                                 absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->MeetNames(positions, *result);
                               self->Commit();
                             });
  }

  void MeetNames(const std::vector<int>& positions, const kv::GetResult& names) {
    const absl::Time now = context_.client.NowLow();
    for (size_t i = 0; i < positions.size(); ++i) {
      IngestRecord& record = RecordAt(positions[i]);
      Meet(names.values[i], names.seq, EventAt(positions[i]).mode(), now, record);
      if (record.fate != Fate::kTakes) continue;
      record.uid = context_.NewUid();
    }
  }

  void Commit() {
    EventRowBuilder::Options rows;
    rows.tenant = tenant_;
    rows.queue_shards = context_.layout.queue_shards;
    rows.policy_shards = context_.layout.policy_shards;
    rows.now = context_.client.NowLow();
    rows.uid_high = context_.runtime.random().Next();
    rows.uid_low = context_.runtime.random().Next();
    rows.trace_parent = done_.caller()->trace_parent;
    kv::Group audit;
    auth::AddAuditRow(tenant_,
                      auth::AuditRecordOf(*done_.caller(), "Ingest", request_->parent(), ""),
                      rows.now, rows.uid_low, audit);
    absl::StatusOr<IngestPlan> made =
        PlanIngest(*request_, defaults_, records_, options_.return_ids, std::move(rows), policies_,
                   *shared_.cache, context_.secrets, std::move(audit));
    if (!made.ok()) return Refuse(made.status());
    plan_ = *std::move(made);
    const int64_t bytes = static_cast<int64_t>(plan_.bytes);
    if (shared_.bytes_under_way.fetch_add(bytes) + bytes > kIngestBytesUnderWayMax) {
      shared_.bytes_under_way -= bytes;
      return Refuse(ResourceExhausted("INGEST_BUSY", "too many batches wait for the store",
                                      kIngestBusyDelay));
    }
    context_.client.CommitAsync(
        std::move(plan_.commit), context_.executor,
        [self = shared_from_this(), bytes](absl::StatusOr<kv::CommitResult> result) {
          CHECK_GE(self->shared_.bytes_under_way.fetch_sub(bytes), bytes);
          self->OnCommitted(std::move(result));
        });
  }

  void Refuse(absl::Status status) {
    context_.metrics.ingest_batches_refused.Increment();
    context_.Refuse(std::move(status), std::move(done_));
  }

  void OnCommitted(absl::StatusOr<kv::CommitResult> result) {
    // A policy was deleted since it was read: the plan will say so.
    if (absl::IsFailedPrecondition(result.status()) && !policies_.empty() &&
        ++attempts_ <= kChangeAttemptsMax)
      return Start();
    if (!result.ok()) return done_(StoreFailed(result.status()));
    shared_.cache->Add(plan_.interned);
    context_.metrics.ingest_batches.Increment();
    Note(*result);
    context_.metrics.events_created.Increment(response_.created_count());
    context_.metrics.events_existing.Increment(response_.existing_positions_size());
    context_.metrics.events_replaced.Increment(response_.replaced_positions_size());
    context_.metrics.events_cancelled.Increment(response_.ended_count());
    StartAlone();
  }

  // Takes the verdict on each record into the answer.
  void Note(const kv::CommitResult& result) {
    response_.set_batch_number(request_->batch_number());
    response_.set_created_count(plan_.server_made_count);
    for (size_t i = 0; i < plan_.client_positions.size(); ++i) {
      const int position = plan_.client_positions[i];
      if (result.verdicts[plan_.first_client_group + i].applied) {
        Took(position, records_.empty() || RecordAt(position).fate == Fate::kCreated);
      } else if (!TakesBack(EventAt(position))) {
        response_.add_existing_positions(position);
      } else {
        RecordAt(position).fate = Fate::kAlone;  // another call has changed the event
      }
    }
    for (std::string& id : plan_.event_ids) response_.add_event_ids(std::move(id));
    for (int i = 0; i < static_cast<int>(records_.size()); ++i) {
      const Fate fate = RecordAt(i).fate;
      if (fate == Fate::kAlone) alone_.push_back(i);
      if (fate == Fate::kSuperseded) Ignore(i, absl::OkStatus());
      if (fate == Fate::kNothing) Ignore(i, NotFound(NameOf(i).ToString()));
    }
  }

  void Took(int position, bool created) {
    if (EventAt(position).mode() == v1::Event::CANCEL) {
      response_.set_ended_count(response_.ended_count() + 1);
    } else if (created) {
      response_.set_created_count(response_.created_count() + 1);
    } else {
      response_.add_replaced_positions(position);
    }
  }

  // OK: a later record of the batch says what becomes of the event.
  void Ignore(int position, const absl::Status& why) {
    v1::IgnoredEvent& ignored = *response_.add_ignored();
    ignored.set_position(position);
    ignored.set_code(static_cast<int32_t>(why.code()));
    ignored.set_reason(why.ok() ? kSuperseded : ErrorReason(why));
    ignored.set_message(why.message().data(), why.message().size());
  }

  void StartAlone() {
    for (; next_alone_ < alone_.size() && under_way_ < kIngestAloneMax; ++under_way_)
      TakeAlone(alone_[next_alone_++]);
    if (under_way_ == 0) Finish();
  }

  void TakeAlone(int position) {
    Done<v1::Event> done(
        [self = shared_from_this(), position](const absl::StatusOr<v1::Event>& event) {
          --self->under_way_;
          if (event.ok()) {
            self->Took(position, event->revision() == 0);
          } else if (absl::IsUnavailable(event.status()) || absl::IsInternal(event.status())) {
            self->failed_ = event.status();
          } else {
            self->Ignore(position, event.status());
          }
          self->StartAlone();
        },
        done_.caller());
    const v1::IngestEvent& event = EventAt(position);
    if (event.mode() == v1::Event::CANCEL) {
      return CancelOneOffEvent(context_, NameOf(position), /*etag=*/"", RequestMark(),
                               /*validate_only=*/false, std::move(done));
    }
    ReplaceEvent(context_, shared_.cache, NameOf(position),
                 {.event = EventOf(defaults_, event), .trace_parent = done_.caller()->trace_parent},
                 RequestMark(), std::move(done));
  }

  void Finish() {
    if (!failed_.ok()) return done_(failed_);
    std::sort(response_.mutable_replaced_positions()->begin(),
              response_.mutable_replaced_positions()->end());
    std::sort(response_.mutable_ignored()->begin(), response_.mutable_ignored()->end(),
              [](const auto& a, const auto& b) { return a.position() < b.position(); });
    response_.set_existing_count(response_.existing_positions_size());
    if (response_.existing_count() == 0) return done_(std::move(response_));
    FindCancelledOnes();
  }

  // Which of the events that existed were cancelled.
  void FindCancelledOnes() {
    std::vector<std::string> ids;
    for (const int position : response_.existing_positions())
      ids.push_back(EventAt(position).event_id());
    FindCancelled(context_, tenant_, ids,
                  [self = shared_from_this()](absl::StatusOr<std::vector<bool>> cancelled) {
                    if (!cancelled.ok()) return self->done_(cancelled.status());
                    v1::IngestResponse& response = self->response_;
                    for (int i = 0; i < response.existing_positions_size(); ++i) {
                      if ((*cancelled)[static_cast<size_t>(i)])
                        response.add_cancelled_positions(response.existing_positions(i));
                    }
                    self->done_(std::move(response));
                  });
  }

  IngestShared& shared_;
  MasterContext& context_;
  const std::string tenant_;
  const std::shared_ptr<const v1::IngestRequest> request_;
  const IngestOptions options_;
  Done<v1::IngestResponse> done_;
  v1::Event defaults_;  // the request's, then the tenant's
  Policies policies_;
  std::vector<IngestRecord> records_;  // empty: all create
  IngestPlan plan_;
  v1::IngestResponse response_;
  std::vector<int> alone_;  // positions of the records that the commit has left out
  size_t next_alone_ = 0;
  int under_way_ = 0;    // records of alone_
  absl::Status failed_;  // one of them may have taken effect
  int attempts_ = 0;
};

}  // namespace

void IngestBatch(IngestShared& shared, std::string tenant,
                 std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                 Done<v1::IngestResponse> done) {
  std::make_shared<Batch>(shared, std::move(tenant), std::move(request), options, std::move(done))
      ->Start();
}

}  // namespace escapement::master
