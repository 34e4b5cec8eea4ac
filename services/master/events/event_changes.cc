#include "services/master/events/event_changes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_lookup.h"
#include "services/master/requests/request_reader.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

using kv::ColumnFamily;
using Kind = kv::Condition::Kind;

// Takes the event, which waits, out of its queue: see CancelOneOffEvent.
void TakeBack(const EventSighting& sighting, kv::Group& group) {
  const auto unchanged = [&](ColumnFamily cf, const std::string& key, kv::CommitSeq since) {
    group.conditions.push_back(
        {.cf = cf, .key = key, .kind = Kind::kUnchangedSince, .since = since});
  };
  unchanged(ColumnFamily::kEvents, sighting.row_key, sighting.row_seq);
  if (sighting.waiting_key.empty()) {
    unchanged(ColumnFamily::kMeta, ClaimMarkKey(sighting.key.shard), sighting.claims_seq);
  } else {
    unchanged(ColumnFamily::kWaiting, sighting.waiting_key, sighting.waiting_seq);
    group.mutations.push_back(kv::Delete(ColumnFamily::kWaiting, sighting.waiting_key));
  }
  group.mutations.push_back(kv::Delete(ColumnFamily::kEvents, sighting.row_key));
}

// The present event with the fields of `patch` that the mask names.
absl::StatusOr<v1::Event> ApplyMask(v1::Event current, const v1::Event& patch,
                                    const google::protobuf::FieldMask& mask) {
  ASSIGN_OR_RETURN(const google::protobuf::FieldMask fields, ReadUpdateMask(patch, mask));
  if (ReplacesAll(fields)) return patch;
  ForgetFormerLimits(patch, fields, current);
  ReplaceFields(patch, fields, current);
  if (!NamedLimits(current).any()) {
    if (!HasPath(fields, "policy_key")) current.clear_policy_key();
    if (!HasPath(fields, "completion")) current.clear_completion();
  }
  return current;
}

// Checks the parts of one request and adds what its event needs to the plan.
class EventAdder {
 public:
  EventAdder(const EventRowBuilder::Options& options, bool single, const Policies& policies,
             const InternCache& cache, const TargetSecrets& secrets, const EventBefore& before,
             CreationPlan* plan)
      : options_(options),
        single_(single),
        policies_(policies),
        cache_(cache),
        secrets_(secrets),
        before_(before),
        plan_(plan),
        builder_(options) {}

  void Add(const v1::CreateEventRequest& request, int index, kv::Group& group,
           FieldViolations& violations) {
    const std::string prefix = single_ ? "" : absl::StrCat("requests[", index, "].");
    const std::string field = absl::StrCat(prefix, "event");
    const size_t before = violations.size();
    CheckClientEventId(request.event_id(), absl::StrCat(prefix, "event_id"), violations);
    CheckIdIsNew(request.event_id(), index, violations);
    if (!request.has_event()) {
      violations.Add(field, "is required");
      return;
    }
    const v1::Event& event = request.event();
    std::optional<int64_t> due =
        event.has_due_time() ? ReadDueTime(event, absl::StrCat(field, ".due_time"), violations)
                             : ToMicros(options_.now);
    const std::optional<DebounceRule> debounce =
        ReadDebounce(event, event.has_due_time(), field, violations);
    if (debounce.has_value() && !before_.upsert)
      violations.Add(absl::StrCat(field, ".debounce"), "is for upserts only");
    if (event.mode() != v1::Event::INGEST_MODE_UNSPECIFIED)
      violations.Add(absl::StrCat(field, ".mode"), "is for ingestions only");
    CheckPayload(event.payload(), absl::StrCat(field, ".payload"), violations);
    const storage::v1::DeliveryRecord delivery =
        ReadDelivery(event, field, options_.tenant, secrets_, violations,
                     before_.target.has_value() ? &*before_.target : nullptr);
    CheckPayloadFits(delivery, event.payload(), absl::StrCat(field, ".payload"), violations);
    NewEvent fresh;
    fresh.client_id = request.event_id();
    fresh.before = before_.name.has_value() ? &*before_.name : nullptr;
    fresh.payload = event.payload();
    fresh.priority = ReadPriority(event, field, violations);
    fresh.max_lateness_micros = ReadMaxLateness(event, field, violations);
    const std::optional<storage::v1::ThrottleRecord> throttle =
        ReadEventThrottle(event, field, options_.tenant, policies_, violations);
    if (violations.size() > before) return;
    if (throttle.has_value() && apart_.ok())
      apart_ = CheckTogether(*throttle, policies_, options_.policy_shards, field + ".limits");
    if (debounce.has_value()) {
      fresh.debounced_since_micros = DebouncedSince(fresh.before, options_.now);
      due = debounce->DueMicros(fresh.debounced_since_micros, ToMicros(options_.now));
    }
    fresh.nominal_micros = *due;
    const InternedDelivery interned = Intern(delivery, LaunchTimeOf(*due, options_.now));
    fresh.definition_hash = &interned.hash;
    if (throttle.has_value()) {
      fresh.throttle = &*throttle;
      fresh.wait_group = WaitGroupOf(TargetKeyOf(delivery.target()), *throttle);
    }
    Store(interned);
    builder_.Add(fresh, group);
    const std::string id = builder_.event_id();
    const std::string name = EventName{options_.tenant, id}.ToString();
    plan_->names_by_condition.resize(group.conditions.size(), name);
    Show(event, *due, name, id, delivery, fresh);
  }

  // FAILED_PRECONDITION (POLICIES_APART) for the first event whose policies are apart.
  const absl::Status& apart() const { return apart_; }

 private:
  void CheckIdIsNew(const std::string& event_id, int index, FieldViolations& violations) {
    if (event_id.empty()) return;
    const auto [it, added] = index_of_id_.emplace(event_id, index);
    if (added) return;
    violations.Add(absl::StrCat("requests[", index, "].event_id"),
                   absl::StrCat("repeats requests[", it->second, "].event_id"));
  }

  void Store(const InternedDelivery& interned) {
    const bool added = std::find(plan_->interned.begin(), plan_->interned.end(), interned.hash) !=
                       plan_->interned.end();
    if (added || cache_.Known(interned.hash)) return;
    plan_->interned.push_back(interned.hash);
    plan_->commit.groups.push_back(InternGroup(interned));
  }

  void Show(const v1::Event& given, int64_t due_micros, const std::string& name,
            const std::string& id, const storage::v1::DeliveryRecord& delivery,
            const NewEvent& fresh) {
    v1::Event* event = plan_->response.add_events();
    event->set_name(name);
    event->set_event_id(id);
    SetTimestamp(due_micros, *event->mutable_due_time());
    event->set_priority(static_cast<int32_t>(fresh.priority));
    if (fresh.max_lateness_micros > 0)
      SetDuration(fresh.max_lateness_micros, *event->mutable_max_lateness());
    if (fresh.throttle != nullptr) ShowThrottle(options_.tenant, *fresh.throttle, *event);
    event->set_state(v1::PENDING);
    event->set_status(v1::Event::SCHEDULED);
    if (!fresh.client_id.empty())
      event->set_etag(EventEtag(builder_.uid(), ToMicros(LaunchTimeOf(due_micros, options_.now))));
    if (fresh.before != nullptr) {
      event->set_generation(static_cast<int64_t>(fresh.before->generation));
      event->set_revision(static_cast<int64_t>(fresh.before->revision));
    }
    ShowNextAttempt(FromMicros(due_micros), options_.now, *event);
    WriteDelivery(delivery, *event);
    if (single_) event->set_payload(given.payload());
  }

  const EventRowBuilder::Options& options_;
  const bool single_;
  const Policies& policies_;
  const InternCache& cache_;
  const TargetSecrets& secrets_;
  const EventBefore& before_;
  CreationPlan* const plan_;
  EventRowBuilder builder_;
  absl::flat_hash_map<absl::string_view, int> index_of_id_;  // only ids that clients chose
  absl::Status apart_;
};

// Checked before the batch is stored: its client must be able to receive the answer.
void CheckBytes(const v1::BatchCreateEventsRequest& batch,
                const v1::BatchCreateEventsResponse& response, FieldViolations& violations) {
  if (const size_t bytes = batch.ByteSizeLong(); bytes > kBatchBytesMax) {
    violations.Add("requests", absl::StrCat("have ", bytes, " bytes together; at most ",
                                            kBatchBytesMax, " are allowed"));
  } else if (const size_t answer = response.ByteSizeLong(); answer > kAnswerBytesMax) {
    violations.Add("requests", absl::StrCat("would need an answer of ", answer, " bytes; at most ",
                                            kAnswerBytesMax, " are allowed"));
  }
}

class Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(MasterContext& context, std::shared_ptr<InternCache> cache, std::string tenant,
           v1::BatchCreateEventsRequest batch, CreateOptions create,
           std::optional<EventChange> change, RequestMark mark,
           Done<v1::BatchCreateEventsResponse> done)
      : context_(context),
        cache_(std::move(cache)),
        batch_(std::move(batch)),
        create_(std::move(create)),
        change_(std::move(change)),
        mark_(std::move(mark)),
        done_(std::move(done)) {
    options_.tenant = std::move(tenant);
    options_.queue_shards = context_.layout.queue_shards;
    options_.policy_shards = context_.layout.policy_shards;
    options_.trace_parent = create_.trace_parent;
    options_.uid_high = context_.runtime.random().Next();
    options_.uid_low = context_.runtime.random().Next();
  }

  void Start() {
    AnswerOr(context_, mark_, done_, [self = shared_from_this()] {
      if (self->change_.has_value()) return self->LookUp();
      self->LookUpPolicies();
    });
  }

 private:
  EventName Name() const { return {options_.tenant, batch_.requests(0).event_id()}; }

  void LookUp() {
    LookUpEvent(context_, Name(), ReadClaims::kAlways,
                [self = shared_from_this()](absl::StatusOr<EventSighting> sighting) {
                  if (!sighting.ok()) return self->done_(StoreFailed(sighting.status()));
                  absl::Status status = self->Replace(*std::move(sighting));
                  if (status.ok()) return self->LookUpPolicies();
                  // An earlier try of this request may have replaced the event, applied after its
                  // mark was read.
                  AnswerOr(self->context_, self->mark_, self->done_,
                           [self, status = std::move(status)] { self->done_(status); });
                });
  }

  // Finds out which event the new one replaces or follows, and for UpdateEvent what it keeps.
  absl::Status Replace(EventSighting sighting) {
    const std::string name = Name().ToString();
    before_ = EventBefore{.upsert = !change_->mask.has_value()};
    replaced_.reset();
    const bool known = sighting.row.has_value() || sighting.done.has_value();
    if (!known && change_->mask.has_value()) return NotFound(name);
    RETURN_IF_ERROR(CheckEtag(change_->event.etag(), sighting.Etag(), name));
    if (!sighting.name.has_value()) return absl::OkStatus();
    NamedBefore before{.name = *sighting.name, .uid = context_.NewUid()};
    if (!known) {  // a name without an event, which a former program has left
      before_.name = std::move(before);
      return absl::OkStatus();
    }
    if (sighting.done.has_value()) {
      const bool cancelled = sighting.done->outcome() == storage::v1::OUTCOME_KIND_CANCELLED;
      const bool follows = cancelled || change_->replace_ended || change_->event.has_debounce();
      if (change_->mask.has_value() || !follows) return EventEnded(name);
      before.generation = sighting.done->generation() + 1;
      before_.name = std::move(before);
      return absl::OkStatus();
    }
    const storage::v1::EventRecord& row = *sighting.row;
    if (sighting.claimed) return EventRunning(name);
    if (MayHaveBegun(row)) return EventAttempted(name);
    before.generation = row.generation();
    before.revision = row.revision() + 1;
    storage::v1::EventNameRecord named;
    if (named.ParseFromString(before.name))
      before.debounced_since_micros = named.debounced_since_micros();
    before_.name = std::move(before);
    if (sighting.definition.has_value()) before_.target = sighting.definition->delivery().target();
    if (change_->mask.has_value()) {
      if (!sighting.definition.has_value()) return BrokenRecord(name);
      v1::Event current = ShowWaitingEvent(name, row, v1::PENDING, &*sighting.definition);
      if (sighting.priority.has_value()) current.set_priority(*sighting.priority);
      ASSIGN_OR_RETURN(*batch_.mutable_requests(0)->mutable_event(),
                       ApplyMask(std::move(current), change_->event, *change_->mask));
    }
    replaced_ = std::move(sighting);
    return absl::OkStatus();
  }

  void LookUpPolicies() {
    const v1::TenantDefaults defaults = context_.defaults_of(options_.tenant);
    const bool masked = change_.has_value() && change_->mask.has_value();
    for (v1::CreateEventRequest& request : *batch_.mutable_requests()) {
      if (request.has_event())
        ApplyDefaults(defaults, masked ? &*change_->mask : nullptr, *request.mutable_event());
    }
    ReadPolicies(context_, options_.tenant, PoliciesOf(batch_, options_.tenant),
                 [self = shared_from_this()](absl::StatusOr<Policies> policies) {
                   if (!policies.ok()) return self->done_(policies.status());
                   self->policies_ = *std::move(policies);
                   self->Write();
                 });
  }

  void Write() {
    options_.now = context_.client.NowLow();
    if (Perturb(context_.runtime, Site::kMasterDeliveriesForgotten)) cache_->Clear();
    absl::StatusOr<CreationPlan> plan = PlanCreation(batch_, create_.single, mark_, options_,
                                                     policies_, *cache_, context_.secrets, before_);
    if (!plan.ok()) return context_.Refuse(plan.status(), std::move(done_));
    plan_ = *std::move(plan);
    if (create_.validate_only && change_.has_value()) return done_(std::move(plan_.response));
    if (create_.validate_only) return CheckIds();
    if (replaced_.has_value()) TakeBack(*replaced_, plan_.commit.groups.back());
    context_.client.CommitAsync(
        std::move(plan_.commit), context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->OnWritten(std::move(result));
        });
  }

  // Each condition of the last group is that the name of a client-chosen id is absent.
  void CheckIds() {
    std::vector<kv::Key> keys;
    for (const kv::Condition& condition : plan_.commit.groups.back().conditions)
      keys.push_back({condition.cf, condition.key});
    if (keys.empty()) {
      return context_.executor->Post(
          [self = shared_from_this()] { self->done_(std::move(self->plan_.response)); });
    }
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               for (size_t i = 0; i < result->values.size(); ++i) {
                                 if (result->values[i].has_value())
                                   return self->RefuseId(self->plan_.names_by_condition[i]);
                               }
                               self->done_(std::move(self->plan_.response));
                             });
  }

  // Says if the event that has the id was cancelled.
  void RefuseId(const std::string& name) {
    const absl::StatusOr<EventName> event = ParseEventName(name, "name");
    if (!event.ok()) return done_(AlreadyExists(name));
    FindCancelled(context_, event->tenant, {event->event},
                  [self = shared_from_this(), name](absl::StatusOr<std::vector<bool>> cancelled) {
                    self->done_(cancelled.ok() && cancelled->front() ? EventIdCancelled(name)
                                                                     : AlreadyExists(name));
                  });
  }

  void OnWritten(absl::StatusOr<kv::CommitResult> result) {
    // A policy was deleted since it was read: the plan will say so.
    if (absl::IsFailedPrecondition(result.status()) && !policies_.empty() &&
        ++attempts_ <= kChangeAttemptsMax)
      return Start();
    if (!result.ok()) return done_(StoreFailed(result.status()));
    cache_->Add(plan_.interned);
    const kv::Verdict& verdict = result->verdicts.back();
    if (verdict.applied) {
      if (replaced_.has_value()) {
        context_.metrics.events_replaced.Increment();
      } else {
        context_.metrics.events_created.Increment(plan_.response.events_size());
      }
      return done_(std::move(plan_.response));
    }
    if (change_.has_value()) {  // a claim was made in the shard, or the event changed: look again
      if (++attempts_ > kCancelAttemptsMax) return done_(Contended(Name().ToString()));
      return Start();
    }
    const std::string& name = plan_.names_by_condition[verdict.failed_condition];
    if (!name.empty()) return RefuseId(name);
    // The same request was answered a moment ago.
    if (++attempts_ > kChangeAttemptsMax) return done_(Contended("the request"));
    Start();
  }

  MasterContext& context_;
  const std::shared_ptr<InternCache> cache_;
  v1::BatchCreateEventsRequest batch_;
  const CreateOptions create_;
  const std::optional<EventChange> change_;  // only for one event
  const RequestMark mark_;
  Done<v1::BatchCreateEventsResponse> done_;
  EventRowBuilder::Options options_;
  EventBefore before_;                     // empty: the id is new
  std::optional<EventSighting> replaced_;  // the event that waits, and is replaced
  Policies policies_;
  CreationPlan plan_;
  int attempts_ = 0;
};

}  // namespace

absl::StatusOr<CreationPlan> PlanCreation(const v1::BatchCreateEventsRequest& batch, bool single,
                                          const RequestMark& mark,
                                          const EventRowBuilder::Options& options,
                                          const Policies& policies, const InternCache& cache,
                                          const TargetSecrets& secrets, const EventBefore& before) {
  CreationPlan plan;
  plan.commit.fence = PoliciesPresent(options.tenant, policies);
  FieldViolations violations;
  if (batch.requests().empty() || batch.requests_size() > kBatchCreateEventsMax) {
    violations.Add("requests", absl::StrCat("must hold 1 to ", kBatchCreateEventsMax, " requests"));
    return violations.ToStatus();
  }
  kv::Group group;
  EventAdder adder(options, single, policies, cache, secrets, before, &plan);
  // The request's condition comes first: of two equal requests the second one is answered, not
  // refused.
  const size_t request_conditions = mark.active() ? 1 : 0;
  if (mark.active()) group.conditions.emplace_back();
  plan.names_by_condition.resize(request_conditions);
  for (int i = 0; i < batch.requests_size(); ++i) {
    const v1::CreateEventRequest& request = batch.requests(i);
    if (!single && !request.parent().empty() && request.parent() != batch.parent()) {
      violations.Add(absl::StrCat("requests[", i, "].parent"),
                     "must be the parent of the batch, or empty");
    }
    if (!single && request.validate_only()) {
      violations.Add(absl::StrCat("requests[", i, "].validate_only"),
                     "must not be set; set it for the whole batch");
    }
    adder.Add(request, i, group, violations);
  }
  if (!single) CheckBytes(batch, plan.response, violations);
  RETURN_IF_ERROR(violations.ToStatus());
  RETURN_IF_ERROR(adder.apart());
  kv::Group marked;
  mark.AddTo(plan.response, options.now, /*version_before=*/0, marked, options.uid_low);
  if (mark.active()) group.conditions[0] = std::move(marked.conditions[0]);
  for (kv::Mutation& mutation : marked.mutations) group.mutations.push_back(std::move(mutation));
  plan.commit.groups.push_back(std::move(group));
  return plan;
}

void CreateEvents(MasterContext& context, std::shared_ptr<InternCache> cache, std::string tenant,
                  v1::BatchCreateEventsRequest batch, CreateOptions create, RequestMark mark,
                  Done<v1::BatchCreateEventsResponse> done) {
  std::make_shared<Creation>(context, std::move(cache), std::move(tenant), std::move(batch),
                             std::move(create), /*change=*/std::nullopt, std::move(mark),
                             std::move(done))
      ->Start();
}

void ReplaceEvent(MasterContext& context, std::shared_ptr<InternCache> cache, EventName name,
                  EventChange change, RequestMark mark, Done<v1::Event> done) {
  v1::BatchCreateEventsRequest batch;
  v1::CreateEventRequest& request = *batch.add_requests();
  request.set_event_id(name.event);
  *request.mutable_event() = change.event;
  CreateOptions create{
      .single = true, .validate_only = change.validate_only, .trace_parent = change.trace_parent};
  std::make_shared<Creation>(
      context, std::move(cache), std::move(name.tenant), std::move(batch), std::move(create),
      std::move(change), std::move(mark),
      [done = std::move(done)](absl::StatusOr<v1::BatchCreateEventsResponse> response) mutable {
        if (!response.ok()) return done(response.status());
        done(std::move(*response->mutable_events(0)));
      })
      ->Start();
}

absl::StatusOr<storage::v1::DoneRecord> AddCancellation(const EventName& name,
                                                        const std::string& etag,
                                                        const EventSighting& sighting,
                                                        absl::Time now, kv::Group& group) {
  const std::string text = name.ToString();
  if (!sighting.done.has_value() && !sighting.row.has_value()) return NotFound(text);
  RETURN_IF_ERROR(CheckEtag(etag, sighting.Etag(), text));
  if (sighting.done.has_value()) return EventEnded(text);
  if (sighting.claimed) return EventRunning(text);
  storage::v1::DoneRecord record = CancelledRecord(*sighting.row, now);
  TakeBack(sighting, group);
  group.mutations.push_back(PutOutcome(sighting.key, record));
  if (sighting.name.has_value()) {
    std::string key = EventNameKey(name.tenant, name.event);
    storage::v1::EventNameRecord named;
    group.mutations.push_back(sighting.row->client_chosen_id() &&
                                      named.ParseFromString(*sighting.name)
                                  ? CancelledName(std::move(key), std::move(named))
                                  : kv::Delete(ColumnFamily::kEventNames, std::move(key)));
  }
  return record;
}

namespace {

class Cancellation : public std::enable_shared_from_this<Cancellation> {
 public:
  Cancellation(MasterContext& context, EventName name, std::string etag, RequestMark mark,
               bool validate_only, Done<v1::Event> done)
      : context_(context),
        name_(std::move(name)),
        etag_(std::move(etag)),
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
    const absl::Time now = context_.client.NowLow();
    kv::Commit commit;
    kv::Group& group = commit.groups.emplace_back();
    const absl::StatusOr<storage::v1::DoneRecord> record =
        AddCancellation(name_, etag_, *sighting, now, group);
    if (!record.ok()) return Refuse(record.status());
    response_ = ShowEndedEvent(name_.ToString(), *record);
    if (validate_only_) return done_(std::move(response_));
    mark_.AddTo(response_, now, /*version_before=*/0, group);
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
  const std::string etag_;
  const RequestMark mark_;
  const bool validate_only_;
  Done<v1::Event> done_;
  v1::Event response_;
  int attempts_ = 0;
};

}  // namespace

void CancelOneOffEvent(MasterContext& context, EventName name, std::string etag, RequestMark mark,
                       bool validate_only, Done<v1::Event> done) {
  std::make_shared<Cancellation>(context, std::move(name), std::move(etag), std::move(mark),
                                 validate_only, std::move(done))
      ->Start();
}

}  // namespace escapement::master
