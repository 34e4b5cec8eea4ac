#include "services/master/tenants/tenant_rules.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/key_service.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/tenants/tenant_codec.h"

namespace escapement::master {

TenantDirectory::TenantDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor)
    : mirror_(client, kv::ColumnFamily::kTenants, {}, std::move(executor),
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void TenantDirectory::Take(const kv::RangeMirror::Rows& rows) {
  auto tenants = std::make_shared<Tenants>();
  auto all = std::make_shared<Rows>();
  (*tenants)[std::string(kDefaultTenant)] =
      std::make_shared<storage::v1::TenantRecord>(DefaultTenantRecord());
  for (const auto& [key, value] : rows) {
    auto record = std::make_shared<storage::v1::TenantRecord>();
    // A tenant whose record cannot be read counts as missing.
    if (!record->ParseFromString(value)) continue;
    if (record->delete_time_micros() == 0) (*tenants)[record->tenant()] = record;
    std::string tenant = record->tenant();
    all->insert_or_assign(std::move(tenant), Row{std::move(record), value});
  }
  {
    absl::MutexLock lock(&mutex_);
    tenants_ = std::move(tenants);
    rows_ = std::move(all);
  }
  for (const auto& on_change : on_change_) on_change();
}

bool TenantDirectory::loaded() const {
  absl::MutexLock lock(&mutex_);
  return tenants_ != nullptr;
}

TenantDirectory::Record TenantDirectory::Find(const std::string& tenant) const {
  absl::MutexLock lock(&mutex_);
  if (tenants_ == nullptr) return nullptr;
  const auto it = tenants_->find(tenant);
  return it == tenants_->end() ? nullptr : it->second;
}

absl::Duration TenantDirectory::RetentionOf(const std::string& tenant) const {
  const Record record = Find(tenant);
  return absl::Microseconds(record == nullptr ? 0 : record->retention_micros());
}

v1::TenantDefaults TenantDirectory::DefaultsOf(const std::string& tenant) const {
  v1::TenantDefaults defaults;
  const Record record = Find(tenant);
  if (record != nullptr && !defaults.ParseFromString(record->defaults())) defaults.Clear();
  return defaults;
}

bool TenantDirectory::Shows(const std::string& tenant, uint64_t version) const {
  const Record record = Find(tenant);
  if (record == nullptr) return version == 0;
  return version != 0 && record->version() >= version;
}

std::vector<TenantDirectory::Record> TenantDirectory::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Record> all;
  if (tenants_ == nullptr) return all;
  for (const auto& [tenant, record] : *tenants_) all.push_back(record);
  return all;
}

std::shared_ptr<const TenantDirectory::Rows> TenantDirectory::AllRows() const {
  absl::MutexLock lock(&mutex_);
  return rows_;
}

namespace {

using kv::ColumnFamily;

// Small, so that other calls have their turn between two pages.
constexpr uint32_t kPageRows = 2'000;
constexpr uint32_t kPageBytes = 1 << 20;

class Counting : public std::enable_shared_from_this<Counting> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<int64_t>)>;

  Counting(MasterContext& context, CountedRows which, std::string tenant, int64_t count_max,
           Done done)
      : context_(context),
        which_(which),
        tenant_(std::move(tenant)),
        count_max_(count_max),
        done_(std::move(done)) {
    scan_.limit = kPageRows;
    scan_.bytes_max = kPageBytes;
    switch (which_) {
      case CountedRows::kSchedules:
        scan_.cf = ColumnFamily::kSchedules;
        scan_.begin = SchedulePrefix(tenant_);
        scan_.end = PrefixEnd(scan_.begin);
        scan_.keys_only = true;
        break;
      case CountedRows::kPolicies:
        scan_.cf = ColumnFamily::kPolicies;
        scan_.begin = PolicyPrefix(tenant_);
        scan_.end = PrefixEnd(scan_.begin);
        scan_.keys_only = true;
        break;
      case CountedRows::kPendingEvents:  // the keys do not have the tenant
        scan_.cf = ColumnFamily::kEvents;
        break;
    }
  }

  void Read() {
    context_.client.Scan(scan_, context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*page);
                         });
  }

 private:
  void OnPage(const kv::ScanResult& page) {
    rows_ += static_cast<int64_t>(page.entries.size());
    if (which_ == CountedRows::kPendingEvents) {
      for (const kv::Entry& entry : page.entries) count_ += IsPendingEvent(entry);
    } else {
      count_ = rows_;
    }
    if (!page.more || page.entries.empty() || count_ >= count_max_ || rows_ >= kCountRowsMax)
      return done_(std::min(count_, count_max_));
    scan_.begin = KeyAfter(page.entries.back().key);
    Read();
  }

  // Rows of schedules have an occurrence.
  bool IsPendingEvent(const kv::Entry& entry) const {
    const auto key = DecodeEventKey(entry.key);
    return key.has_value() && key->occurrence.empty() && LeadingTenant(entry.value) == tenant_;
  }

  MasterContext& context_;
  const CountedRows which_;
  const std::string tenant_;
  const int64_t count_max_;
  Done done_;
  kv::ScanRequest scan_;
  int64_t rows_ = 0;
  int64_t count_ = 0;
};

}  // namespace

void CountRows(MasterContext& context, CountedRows which, const std::string& tenant,
               int64_t count_max, absl::AnyInvocable<void(absl::StatusOr<int64_t>)> done) {
  std::make_shared<Counting>(context, which, tenant, count_max, std::move(done))->Read();
}

namespace {

using google::protobuf::DynamicCastToGenerated;
using google::protobuf::Message;

constexpr absl::Duration kTickEvery = absl::Seconds(1);
constexpr absl::Duration kCountEvery = absl::Seconds(10);  // if nothing was let pass
// A count of pending events reads rows of all tenants, so it may take at most one in so many parts
// of the time; so do the others.
constexpr int64_t kCountPause = 20;
constexpr absl::Duration kCountAgain = absl::Seconds(1);

// The amounts that a request adds to a tenant.
struct Demand {
  int64_t schedules = 0;
  int64_t policies = 0;
  int64_t events = 0;          // one-off events
  int64_t events_per_run = 0;  // the largest
  int64_t payload_bytes = 0;   // the largest
};

void AddPayload(Demand& demand, const std::string& payload) {
  demand.payload_bytes = std::max(demand.payload_bytes, static_cast<int64_t>(payload.size()));
}

void AddSchedule(Demand& demand, const v1::Schedule& schedule) {
  demand.events_per_run = std::max(demand.events_per_run, schedule.event_count());
  AddPayload(demand, schedule.payload());
}

bool OnlyValidates(const Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByName("validate_only");
  return field != nullptr && request.GetReflection()->GetBool(request, field);
}

Demand DemandOf(const Message& request) {
  Demand demand;
  if (const auto* create = DynamicCastToGenerated<v1::CreateScheduleRequest>(&request)) {
    demand.schedules = 1;
    AddSchedule(demand, create->schedule());
  } else if (const auto* update = DynamicCastToGenerated<v1::UpdateScheduleRequest>(&request)) {
    AddSchedule(demand, update->schedule());
  } else if (const auto* creates =
                 DynamicCastToGenerated<v1::BatchCreateSchedulesRequest>(&request)) {
    demand.schedules = creates->requests_size();
    for (const auto& one : creates->requests()) AddSchedule(demand, one.schedule());
  } else if (const auto* updates =
                 DynamicCastToGenerated<v1::BatchUpdateSchedulesRequest>(&request)) {
    for (const auto& one : updates->requests()) AddSchedule(demand, one.schedule());
  } else if (DynamicCastToGenerated<v1::CreatePolicyRequest>(&request) != nullptr) {
    demand.policies = 1;
  } else if (const auto* event = DynamicCastToGenerated<v1::CreateEventRequest>(&request)) {
    demand.events = 1;
    AddPayload(demand, event->event().payload());
  } else if (const auto* upsert = DynamicCastToGenerated<v1::UpsertEventRequest>(&request)) {
    demand.events = 1;  // it may replace one
    AddPayload(demand, upsert->event().payload());
  } else if (const auto* update_event = DynamicCastToGenerated<v1::UpdateEventRequest>(&request)) {
    AddPayload(demand, update_event->event().payload());
  } else if (const auto* batch = DynamicCastToGenerated<v1::BatchCreateEventsRequest>(&request)) {
    demand.events = batch->requests_size();
    for (const auto& one : batch->requests()) AddPayload(demand, one.event().payload());
  } else if (const auto* ingest = DynamicCastToGenerated<v1::IngestRequest>(&request)) {
    for (const auto& one : ingest->events()) {
      if (one.mode() != v1::Event::CANCEL) ++demand.events;
      AddPayload(demand, one.payload());
    }
  } else if (const auto* trigger = DynamicCastToGenerated<v1::TriggerScheduleRequest>(&request)) {
    demand.events_per_run = trigger->event_count();
  }
  if (OnlyValidates(request)) demand.schedules = demand.policies = demand.events = 0;
  return demand;
}

absl::Status CheckBound(int64_t max, int64_t value, const std::string& tenant, const char* quota) {
  if (max == 0 || value <= max) return absl::OkStatus();
  return QuotaExceeded(NameOfTenant(tenant), quota,
                       absl::StrCat(quota, " is ", max, ", not ", value), absl::Hours(1));
}

// The clock of an issuer may be ahead by a minute.
bool IsOfFormerTenant(const Caller& caller, const storage::v1::TenantRecord& record) {
  return record.former_delete_time_micros() != 0 && !caller.tenant.empty() &&
         caller.issue_time <= FromMicros(record.former_delete_time_micros()) + absl::Minutes(1);
}

bool HasQuotas(const storage::v1::TenantRecord& record) {
  return record.max_schedules() != 0 || record.max_policies() != 0 ||
         record.max_pending_events() != 0 || record.max_events_per_second() != 0 ||
         record.max_events_per_run() != 0 || record.max_payload_bytes() != 0;
}

}  // namespace

absl::Status MasterTenantRules::Check(const MethodAccess& method, const Caller& caller,
                                      const std::string& tenant, const Message& request) {
  if (!directory_.loaded()) return NotReady();
  if (tenant == kAllTenants) return absl::OkStatus();  // the method says whether it takes "-"
  // These manage tenants. A DeleteTenant that is repeated finds its answer, not the tenant.
  if (method.access().all_tenants()) return absl::OkStatus();
  const TenantDirectory::Record record = directory_.Find(tenant);
  if (record == nullptr) return NotFound(NameOfTenant(tenant));
  if (IsOfFormerTenant(caller, *record)) {
    return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_INVALID",
                     absl::StrCat("the token was issued before ", NameOfTenant(tenant),
                                  " was created: get a new one"));
  }
  const bool changes = method.access().audited();
  const bool administers = method.access().role() >= v1::Access::ADMIN;
  // A key that is made now would outlive the suspension.
  const bool makes_key = DynamicCastToGenerated<v1::CreateKeyRequest>(&request) != nullptr;
  if (record->suspended() && changes && (!administers || makes_key)) {
    return FailedPrecondition(
        "TENANT_SUSPENDED",
        absl::StrCat(NameOfTenant(tenant), " is suspended: it takes no changes"),
        {{"resource", NameOfTenant(tenant)}});
  }
  if (administers) return absl::OkStatus();
  if (record->max_requests_per_second() == 0 && (!changes || !HasQuotas(*record)))
    return absl::OkStatus();
  // The tenant's callers must not keep those who administer the platform from looking after it.
  const bool of_platform = caller.tenant.empty() && caller.role == v1::Access::ADMIN;
  absl::MutexLock lock(&mutex_);
  absl::Status status = of_platform
                            ? absl::OkStatus()
                            : Spend(usages_[tenant].requests, record->max_requests_per_second(), 1,
                                    tenant, "max_requests_per_second");
  if (status.ok() && changes && HasQuotas(*record)) status = CheckQuotas(*record, request);
  return status;
}

absl::Status MasterTenantRules::CheckQuotas(const storage::v1::TenantRecord& record,
                                            const Message& request) {
  const std::string& tenant = record.tenant();
  const Demand demand = DemandOf(request);
  Usage& usage = usages_[tenant];
  absl::Status status =
      CheckBound(record.max_events_per_run(), demand.events_per_run, tenant, "max_events_per_run");
  if (status.ok()) {
    status =
        CheckBound(record.max_payload_bytes(), demand.payload_bytes, tenant, "max_payload_bytes");
  }
  if (status.ok()) {
    status = CheckCount(usage, CountedRows::kSchedules, record.max_schedules(), demand.schedules,
                        tenant, "max_schedules");
  }
  if (status.ok()) {
    status = CheckCount(usage, CountedRows::kPolicies, record.max_policies(), demand.policies,
                        tenant, "max_policies");
  }
  if (status.ok()) {
    status = CheckCount(usage, CountedRows::kPendingEvents, record.max_pending_events(),
                        demand.events, tenant, "max_pending_events");
  }
  if (status.ok() && demand.events > 0) {
    status = Spend(usage.events, record.max_events_per_second(), static_cast<double>(demand.events),
                   tenant, "max_events_per_second");
  }
  return status;
}

// A demand of more than a second's worth passes while the budget is full, and is paid off later.
absl::Status MasterTenantRules::Spend(Budget& budget, double per_second, double amount,
                                      const std::string& tenant, const char* quota) {
  if (per_second == 0) return absl::OkStatus();
  const absl::Duration now = context_.runtime.clock().Elapsed();
  const double full = std::max(per_second, 1.0);
  budget.left =
      budget.at == -absl::InfiniteDuration()
          ? full
          : std::min(full, budget.left + per_second * absl::ToDoubleSeconds(now - budget.at));
  budget.at = now;
  const double needed = std::min(amount, full);
  if (budget.left < needed) {
    return QuotaExceeded(NameOfTenant(tenant), quota, absl::StrCat(quota, " is ", per_second),
                         absl::Seconds((needed - budget.left) / per_second));
  }
  budget.left -= amount;
  return absl::OkStatus();
}

absl::Status MasterTenantRules::CheckCount(Usage& usage, CountedRows which, int64_t max,
                                           int64_t added, const std::string& tenant,
                                           const char* quota) {
  if (max == 0 || added == 0) return absl::OkStatus();
  Count& count = usage.counts[which];
  if (!count.known) {
    context_.executor->Post([this, tenant, which, max] { CountIfDue(tenant, which, max); });
    return QuotaExceeded(NameOfTenant(tenant), quota, "the use is being counted; try again",
                         absl::Milliseconds(200));
  }
  if (count.rows + count.let_pass + added > max) {
    count.next = absl::ZeroDuration();  // some may have gone
    return QuotaExceeded(NameOfTenant(tenant), quota, absl::StrCat(quota, " is ", max),
                         kCountAgain);
  }
  count.let_pass += added;
  if (which != CountedRows::kPendingEvents) count.next = std::min(count.next, count.soonest);
  return absl::OkStatus();
}

void MasterTenantRules::Start() {
  directory_.OnChange([this] { CountAll(); });
  Tick();
}

void MasterTenantRules::CountAll() {
  for (const TenantDirectory::Record& record : directory_.All()) {
    CountIfDue(record->tenant(), CountedRows::kSchedules, record->max_schedules());
    CountIfDue(record->tenant(), CountedRows::kPolicies, record->max_policies());
    CountIfDue(record->tenant(), CountedRows::kPendingEvents, record->max_pending_events());
  }
}

void MasterTenantRules::Tick() {
  CountAll();
  context_.executor->PostAfter(kTickEvery, [this] { Tick(); });
}

void MasterTenantRules::CountIfDue(const std::string& tenant, CountedRows which, int64_t max) {
  if (max == 0) return;
  MasterContext* const context = context_of_(tenant);
  if (context == nullptr) return;
  const absl::Duration now = context_.runtime.clock().Elapsed();
  {
    absl::MutexLock lock(&mutex_);
    Count& count = usages_[tenant].counts[which];
    if (count.counting || (count.known && now < count.next)) return;
    count.counting = true;
    // The count may or may not include rows that are let pass from now on. They are added, to be
    // safe.
    count.let_pass = 0;
  }
  CountRows(*context, which, tenant, max,
            [this, tenant, which, began = now](const absl::StatusOr<int64_t>& rows) {
              OnCounted(tenant, which, began, rows);
            });
}

void MasterTenantRules::OnCounted(const std::string& tenant, CountedRows which,
                                  absl::Duration began, const absl::StatusOr<int64_t>& rows) {
  const absl::Duration now = context_.runtime.clock().Elapsed();
  absl::MutexLock lock(&mutex_);
  Count& count = usages_[tenant].counts[which];
  count.counting = false;
  if (!rows.ok()) return;
  count.known = true;
  count.rows = *rows;
  count.soonest = now + (now - began) * kCountPause;
  const bool may_be_too_high = count.let_pass > 0 && which != CountedRows::kPendingEvents;
  count.next = may_be_too_high ? count.soonest : std::max(now + kCountEvery, count.soonest);
}

}  // namespace escapement::master
