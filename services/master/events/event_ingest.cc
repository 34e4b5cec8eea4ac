#include "services/master/events/event_ingest.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_lookup.h"

namespace escapement::master {
namespace {

constexpr size_t kViolationsShown = 100;
// An event is replaced by its name alone if it cannot be claimed for so long: time for the commit.
constexpr absl::Duration kTakenAhead = absl::Seconds(2);

// How an event is delivered.
struct Delivery {
  storage::v1::DeliveryRecord record;
  uint32_t priority = 0;
  int64_t max_lateness_micros = 0;
  std::optional<storage::v1::ThrottleRecord> throttle = std::nullopt;
  std::optional<DebounceRule> debounce = std::nullopt;
  Uid wait_group = {};           // only with a throttle
  std::vector<Uid> hashes = {};  // one for each period in which events use it
};

// Gathers the deliveries of a batch and the groups that store them.
class DeliverySet {
 public:
  DeliverySet(const Policies& policies, const InternCache& cache, const TargetSecrets& secrets,
              const EventRowBuilder::Options& options, kv::Commit* commit)
      : policies_(policies),
        cache_(cache),
        secrets_(secrets),
        tenant_(options.tenant),
        policy_shards_(options.policy_shards),
        commit_(commit) {}

  Delivery Read(const v1::Event& event, absl::string_view field, FieldViolations& violations) {
    Delivery delivery;
    delivery.priority = ReadPriority(event, field, violations);
    delivery.max_lateness_micros = ReadMaxLateness(event, field, violations);
    delivery.record = ReadDelivery(event, field, tenant_, secrets_, violations);
    delivery.debounce = ReadDebounce(event, /*has_due_time=*/false, field, violations);
    delivery.throttle = ReadEventThrottle(event, field, tenant_, policies_, violations);
    if (!delivery.throttle.has_value()) return delivery;
    delivery.wait_group = WaitGroupOf(TargetKeyOf(delivery.record.target()), *delivery.throttle);
    // A fault of this event, so that the others of its batch are not refused with it.
    const std::string limits = absl::StrCat(field, ".limits");
    const absl::Status together =
        CheckTogether(*delivery.throttle, policies_, policy_shards_, limits);
    if (!together.ok())
      violations.Add(limits, absl::StripPrefix(together.message(), absl::StrCat(limits, ": ")));
    return delivery;
  }

  // Stores the delivery for events that are due then.
  Uid HashFor(Delivery& delivery, int64_t due_micros) {
    const DeliveryPeriod period = DeliveryPeriodOf(due_micros);
    for (const Uid& hash : delivery.hashes) {
      if (DeliveryPeriodOf(hash) == period) return hash;
    }
    const InternedDelivery interned = Intern(delivery.record, FromMicros(due_micros));
    delivery.hashes.push_back(interned.hash);
    if (!seen_.insert(interned.hash).second) return interned.hash;
    bytes_ += interned.definition.size();
    if (!cache_.Known(interned.hash)) {
      added_.push_back(interned.hash);
      commit_->groups.push_back(InternGroup(interned));
    }
    return interned.hash;
  }

  std::vector<Uid> Take() { return std::move(added_); }
  // Bytes of the distinct deliveries, also of those that are stored already.
  size_t bytes() const { return bytes_; }

 private:
  const Policies& policies_;
  const InternCache& cache_;
  const TargetSecrets& secrets_;
  const std::string tenant_;
  const uint32_t policy_shards_;
  kv::Commit* const commit_;
  absl::flat_hash_set<Uid> seen_;
  std::vector<Uid> added_;
  size_t bytes_ = 0;
};

// Fields of an Event that defaults and overrides may have.
void CheckDeliveryOnly(const v1::Event& event, absl::string_view field,
                       FieldViolations& violations) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  event.GetReflection()->ListFields(event, &set);
  for (const auto* each : set) {
    switch (each->number()) {
      case v1::Event::kTargetFieldNumber:
      case v1::Event::kContentTypeFieldNumber:
      case v1::Event::kDeliveryTimeoutFieldNumber:
      case v1::Event::kRetryPolicyFieldNumber:
      case v1::Event::kPriorityFieldNumber:
      case v1::Event::kPolicyFieldNumber:
      case v1::Event::kCompletionFieldNumber:
      case v1::Event::kPolicyKeyFieldNumber:
      case v1::Event::kLimitsFieldNumber:
      case v1::Event::kDebounceFieldNumber:
      case v1::Event::kMaxLatenessFieldNumber:
        break;
      default:
        violations.Add(absl::StrCat(field, ".", each->name()), "cannot be set here");
    }
  }
}

v1::Event Overridden(const v1::Event& defaults, const v1::Event& overrides) {
  v1::Event event = defaults;
  if (overrides.has_target()) *event.mutable_target() = overrides.target();
  if (!overrides.content_type().empty()) event.set_content_type(overrides.content_type());
  if (overrides.has_delivery_timeout())
    *event.mutable_delivery_timeout() = overrides.delivery_timeout();
  if (overrides.has_retry_policy()) *event.mutable_retry_policy() = overrides.retry_policy();
  if (overrides.has_priority()) event.set_priority(overrides.priority());
  if (overrides.has_debounce()) *event.mutable_debounce() = overrides.debounce();
  if (overrides.has_max_lateness()) *event.mutable_max_lateness() = overrides.max_lateness();
  if (NamedLimits(overrides).any()) {  // the key and completion of the defaults belong to theirs
    event.clear_policy();
    event.clear_policy_key();
    event.clear_limits();
    event.clear_completion();
  }
  if (!overrides.policy().empty()) event.set_policy(overrides.policy());
  if (!overrides.limits().empty()) *event.mutable_limits() = overrides.limits();
  if (!overrides.policy_key().empty()) event.set_policy_key(overrides.policy_key());
  if (overrides.completion() != v1::COMPLETION_UNSPECIFIED)
    event.set_completion(overrides.completion());
  return event;
}

void CheckEvent(const v1::IngestEvent& event, int index, FieldViolations& violations,
                size_t& bytes) {
  bytes += event.payload().size();
  if (event.has_overrides()) bytes += event.overrides().ByteSizeLong();
  // The field's path is only spelt out for what is wrong.
  if (event.payload().size() > kPayloadBytesMax) {
    CheckPayload(event.payload(), absl::StrCat("events[", index, "].payload"), violations);
  }
  if (event.due_time_micros() < kDueTimeMicrosMin || event.due_time_micros() > kDueTimeMicrosMax) {
    CheckDueMicros(event.due_time_micros(), absl::StrCat("events[", index, "].due_time_micros"),
                   violations);
  }
  if (!event.event_id().empty()) {
    CheckClientEventId(event.event_id(), absl::StrCat("events[", index, "].event_id"), violations);
  } else if (TakesBack(event)) {
    violations.Add(absl::StrCat("events[", index, "].event_id"),
                   "is required to replace or cancel an event");
  }
  if (!v1::Event::IngestMode_IsValid(event.mode()))
    violations.Add(absl::StrCat("events[", index, "].mode"), "is not known");
}

absl::Status CheckBatch(const v1::IngestRequest& request, size_t& bytes) {
  FieldViolations violations;
  if (request.events().empty() || request.events_size() > kIngestEventsMax) {
    violations.Add("events", absl::StrCat("must hold 1 to ", kIngestEventsMax, " events"));
    return violations.ToStatus();
  }
  for (int i = 0; i < request.events_size() && violations.size() < kViolationsShown; ++i) {
    CheckEvent(request.events(i), i, violations, bytes);
  }
  if (bytes > kBatchBytesMax) {
    violations.Add("events",
                   absl::StrCat("payloads and overrides have ", bytes, " bytes together; at most ",
                                kBatchBytesMax, " are allowed"));
  }
  return violations.ToStatus();
}

// When the first claim of the event can be made.
absl::Time ClaimableFrom(const EventKey& key) { return key.due_time - kClaimedEarlyMax; }

// Takes the present event out of its queue, on condition that nobody can have claimed it. Then the
// row of one without a policy is where its name says; that the name is the same still is another
// condition of the group.
void TakeBack(const IngestRecord& record, kv::Group& group) {
  group.conditions.push_back(
      {.kind = kv::Condition::Kind::kTimeBefore,
       .number = static_cast<uint64_t>(ToMicros(ClaimableFrom(record.key)))});
  const std::string& waiting_key = record.present.waiting_key();
  if (!waiting_key.empty()) {
    group.conditions.push_back(kv::Present(kv::ColumnFamily::kEvents, record.present.event_key()));
    group.conditions.push_back(kv::Present(kv::ColumnFamily::kWaiting, waiting_key));
    group.mutations.push_back(kv::Delete(kv::ColumnFamily::kWaiting, waiting_key));
  }
  group.mutations.push_back(kv::Delete(kv::ColumnFamily::kEvents, record.present.event_key()));
}

void Cancel(const IngestRecord& record, const std::string& tenant, const std::string& id,
            absl::Time now, kv::Group& group) {
  TakeBack(record, group);
  const storage::v1::EventNameRecord& present = record.present;
  std::string name_key = EventNameKey(tenant, id);
  group.conditions.push_back(
      kv::ValueIs(kv::ColumnFamily::kEventNames, name_key, record.name, record.read_at));
  group.mutations.push_back(CancelledName(std::move(name_key), present));
  storage::v1::EventRecord row;
  row.set_tenant(tenant);
  row.set_event_id(id);
  row.set_launch_time_micros(present.launch_time_micros());
  row.set_nominal_time_micros(NominalMicrosOf(present));
  row.set_generation(present.generation());
  row.set_revision(present.revision());
  group.mutations.push_back(PutOutcome(record.key, CancelledRecord(row, now)));
}

}  // namespace

std::vector<IngestRecord> RecordsOf(const v1::IngestRequest& request) {
  using Fate = IngestRecord::Fate;
  std::vector<IngestRecord> records;
  if (absl::c_none_of(request.events(), [](const auto& each) { return TakesBack(each); }))
    return records;
  records.resize(static_cast<size_t>(request.events_size()));
  absl::flat_hash_set<absl::string_view> later;  // ids of the UPSERTs and CANCELs that follow
  for (int i = request.events_size() - 1; i >= 0; --i) {
    const v1::IngestEvent& event = request.events(i);
    if (later.contains(event.event_id())) {
      records[static_cast<size_t>(i)].fate = Fate::kSuperseded;
    } else if (TakesBack(event)) {
      records[static_cast<size_t>(i)].fate = Fate::kAlone;
      later.insert(event.event_id());
    }
  }
  return records;
}

void Meet(const std::optional<std::string>& name, kv::CommitSeq read_at, v1::Event::IngestMode mode,
          absl::Time now, IngestRecord& record) {
  using Fate = IngestRecord::Fate;
  if (!name.has_value()) {
    record.fate = mode == v1::Event::CANCEL ? Fate::kNothing : Fate::kCreated;
    return;
  }
  std::optional<EventKey> key;
  if (record.present.ParseFromString(*name)) key = DecodeEventKey(record.present.event_key());
  if (!key.has_value() || record.present.cancelled()) return;
  // Rows in other lanes have been tried. Those under a policy of which a former program made the
  // name do not say where they wait.
  const bool limited = key->lane == kLaneLimited && !record.present.waiting_key().empty();
  if ((key->lane > kPriorityMax && !limited) || ClaimableFrom(*key) <= now + kTakenAhead) return;
  record.fate = Fate::kTakes;
  record.name = *name;
  record.read_at = read_at;
  record.key = *std::move(key);
}

v1::Event EventOf(const v1::Event& defaults, const v1::IngestEvent& event) {
  v1::Event whole = Overridden(defaults, event.overrides());
  if (event.due_time_micros() != 0)
    SetTimestamp(event.due_time_micros(), *whole.mutable_due_time());
  whole.set_payload(event.payload());
  return whole;
}

bool InternCache::Known(const Uid& hash) const {
  absl::MutexLock lock(&mutex_);
  return known_.contains(hash);
}

void InternCache::Add(const std::vector<Uid>& hashes) {
  if (hashes.empty()) return;
  absl::MutexLock lock(&mutex_);
  if (known_.size() + hashes.size() > kInternedKnownMax) known_.clear();
  known_.insert(hashes.begin(), hashes.end());
}

void InternCache::Clear() {
  absl::MutexLock lock(&mutex_);
  known_.clear();
}

absl::StatusOr<IngestPlan> PlanIngest(const v1::IngestRequest& request, const v1::Event& defaults,
                                      const std::vector<IngestRecord>& records, bool return_ids,
                                      EventRowBuilder::Options options, const Policies& policies,
                                      const InternCache& cache, const TargetSecrets& secrets,
                                      kv::Group audit) {
  IngestPlan plan;
  plan.commit.fence = PoliciesPresent(options.tenant, policies);
  RETURN_IF_ERROR(CheckBatch(request, plan.bytes));
  const absl::Time now = options.now;
  const int64_t now_micros = ToMicros(now);
  FieldViolations violations;
  plan.commit.groups.push_back(std::move(audit));
  DeliverySet deliveries(policies, cache, secrets, options, &plan.commit);
  // Read only if an event uses them as they are: then every event may override the target.
  std::optional<Delivery> shared;
  CheckDeliveryOnly(request.defaults(), "defaults", violations);
  const std::string tenant = options.tenant;
  EventRowBuilder builder(std::move(options));
  kv::Group server_made;
  std::vector<kv::Group> client_chosen;
  server_made.mutations.reserve(static_cast<size_t>(request.events_size()));
  for (int i = 0; i < request.events_size() && violations.size() < kViolationsShown; ++i) {
    const v1::IngestEvent& event = request.events(i);
    const IngestRecord* record = records.empty() ? nullptr : &records[static_cast<size_t>(i)];
    const bool takes = record != nullptr && record->fate == IngestRecord::Fate::kTakes;
    if (event.mode() == v1::Event::CANCEL) {
      if (!takes) continue;
      Cancel(*record, tenant, event.event_id(), now, client_chosen.emplace_back());
      plan.client_positions.push_back(i);
      continue;
    }
    std::optional<Delivery> own;
    if (event.has_overrides()) {
      const std::string field = absl::StrCat("events[", i, "].overrides");
      CheckDeliveryOnly(event.overrides(), field, violations);
      own = deliveries.Read(Overridden(defaults, event.overrides()), field, violations);
    } else if (!shared.has_value()) {
      shared = deliveries.Read(defaults, "defaults", violations);
    }
    Delivery& delivery = own.has_value() ? *own : *shared;
    if (delivery.record.target().has_sqs()) {
      CheckPayloadFits(delivery.record, event.payload(), absl::StrCat("events[", i, "].payload"),
                       violations);
    }
    NewEvent fresh;
    fresh.client_id = event.event_id();
    fresh.nominal_micros = event.due_time_micros() == 0 ? now_micros : event.due_time_micros();
    fresh.payload = event.payload();
    NamedBefore before;
    if (takes) {
      before = {.name = record->name,
                .read_at = record->read_at,
                .uid = record->uid,
                .generation = record->present.generation(),
                .revision = record->present.revision() + 1,
                .debounced_since_micros = record->present.debounced_since_micros()};
      fresh.before = &before;
    }
    if (delivery.debounce.has_value()) {
      if (event.mode() != v1::Event::UPSERT || event.due_time_micros() != 0) {
        violations.Add(absl::StrCat("events[", i, "].overrides.debounce"),
                       "is for UPSERT records without due_time_micros");
      }
      fresh.debounced_since_micros = DebouncedSince(fresh.before, now);
      fresh.nominal_micros = delivery.debounce->DueMicros(fresh.debounced_since_micros, now_micros);
    }
    if (record != nullptr && !takes && record->fate != IngestRecord::Fate::kCreated) continue;
    const Uid hash = deliveries.HashFor(delivery, LaunchMicrosOf(fresh.nominal_micros, now_micros));
    if (deliveries.bytes() > kBatchBytesMax) {
      violations.Add("events",
                     absl::StrCat("distinct deliveries must have at most ", kBatchBytesMax,
                                  " bytes together, defaults included. Deliveries of "
                                  "events that are due in different periods of 28 days "
                                  "are distinct"));
      break;
    }
    fresh.definition_hash = &hash;
    fresh.priority = delivery.priority;
    fresh.max_lateness_micros = delivery.max_lateness_micros;
    fresh.throttle = delivery.throttle.has_value() ? &*delivery.throttle : nullptr;
    fresh.wait_group = delivery.wait_group;
    if (!event.event_id().empty()) {
      kv::Group& group = client_chosen.emplace_back();
      if (takes) TakeBack(*record, group);
      builder.Add(fresh, group);
      plan.client_positions.push_back(i);
      continue;
    }
    builder.Add(fresh, server_made);
    if (return_ids) plan.event_ids.push_back(builder.event_id());
    ++plan.server_made_count;
  }
  RETURN_IF_ERROR(violations.ToStatus());
  if (plan.server_made_count > 0) plan.commit.groups.push_back(std::move(server_made));
  plan.first_client_group = plan.commit.groups.size();
  for (kv::Group& group : client_chosen) plan.commit.groups.push_back(std::move(group));
  plan.bytes += deliveries.bytes();
  plan.interned = deliveries.Take();
  return plan;
}

}  // namespace escapement::master
