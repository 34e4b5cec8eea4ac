#include "services/master/tenants/tenant_service.h"

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/rpc/method_access.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/tenants/tenant_codec.h"
#include "services/master/tenants/tenant_copies.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::TenantRecord;

constexpr absl::Duration kLookEvery = absl::Milliseconds(1);
// A directory that is further behind is not waited for: the change has been made.
constexpr absl::Duration kKnownWithin = absl::Seconds(1);

// nullopt: there is none, or it was deleted. DATA_LOSS if it cannot be read.
absl::StatusOr<std::optional<TenantRecord>> ReadRecord(const std::string& tenant,
                                                       const std::optional<std::string>& bytes) {
  if (!bytes.has_value()) {
    if (tenant == kDefaultTenant) return DefaultTenantRecord();
    return std::nullopt;
  }
  TenantRecord record;
  if (!record.ParseFromString(*bytes)) return BrokenRecord(NameOfTenant(tenant));
  if (record.delete_time_micros() != 0) return std::nullopt;
  return record;
}

RecordChange ChangeOf(const std::string& tenant, RequestMark mark) {
  RecordChange change{.key = {ColumnFamily::kTenants, TenantKey(tenant)},
                      .resource = NameOfTenant(tenant),
                      .mark = std::move(mark)};
  return change;
}

void RequireUnchanged(const std::string& tenant, const std::optional<std::string>& bytes,
                      RecordDecision& decision) {
  decision.group.conditions.push_back(
      kv::Unchanged(ColumnFamily::kTenants, TenantKey(tenant), bytes));
  decision.refusals.push_back(absl::OkStatus());
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// The answer to who wants the id of a deleted tenant that has rows left.
absl::Status TenantNotSwept(const TenantRecord& former, absl::Time now) {
  const absl::Time pending_until = FromMicros(former.pending_until_micros());
  const std::string when =
      pending_until > now ? absl::StrCat("events of it are pending until ", TimeText(pending_until))
                          : "what it had is being deleted";
  return FailedPrecondition(
      "TENANT_BEING_DELETED",
      absl::StrCat(NameOfTenant(former.tenant()), " was deleted at ",
                   TimeText(FromMicros(former.delete_time_micros())), ", and ", when,
                   ". Its id can be used again when nothing is left: about ",
                   absl::FormatDuration(3 * kTenantSweepEvery), " after that"),
      {{"resource", NameOfTenant(former.tenant())}});
}

// The record that a deleted tenant leaves in `tenants`.
TenantRecord Tombstone(const TenantRecord& record, uint64_t version, absl::Time now) {
  TenantRecord deleted;
  deleted.set_tenant(record.tenant());
  deleted.set_version(version);
  deleted.set_create_time_micros(record.create_time_micros());
  deleted.set_delete_time_micros(ToMicros(now));
  deleted.set_cell(record.cell());
  return deleted;
}

// Stores `next` as the version after `current`.
RecordDecision Store(const std::string& tenant, const std::optional<TenantRecord>& current,
                     const std::optional<std::string>& bytes, TenantRecord next, absl::Time now) {
  RecordDecision decision;
  RequireUnchanged(tenant, bytes, decision);
  decision.version_before = current.has_value() ? current->version() : 0;
  next.set_tenant(tenant);
  next.set_version(decision.version_before + 1);
  next.set_create_time_micros(decision.version_before > 0 ? current->create_time_micros()
                                                          : ToMicros(now));
  next.set_update_time_micros(ToMicros(now));
  if (current.has_value()) {
    next.set_former_delete_time_micros(current->former_delete_time_micros());
    next.set_cell(current->cell());
  }
  if (next.suspended()) {
    next.set_suspend_time_micros(current.has_value() && current->suspended()
                                     ? current->suspend_time_micros()
                                     : ToMicros(now));
  }
  decision.group.mutations.push_back(
      {.cf = ColumnFamily::kTenants, .key = TenantKey(tenant), .value = next.SerializeAsString()});
  decision.response = std::make_unique<v1::Tenant>(ShowTenant(next));
  return decision;
}

absl::StatusOr<RecordDecision> DecideCreate(const std::string& tenant, TenantRecord draft,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  TenantRecord former;
  if (tenant == kDefaultTenant) return AlreadyExists(NameOfTenant(tenant));
  if (bytes.has_value()) {
    if (!former.ParseFromString(*bytes)) return BrokenRecord(NameOfTenant(tenant));
    if (former.delete_time_micros() == 0) return AlreadyExists(NameOfTenant(tenant));
    if (!former.swept() || (former.cell() != kHomeCell && !former.cell_swept()))
      return TenantNotSwept(former, now);
    draft.set_former_delete_time_micros(former.delete_time_micros());
  }
  return Store(tenant, std::nullopt, bytes, std::move(draft), now);
}

absl::StatusOr<RecordDecision> DecideUpdate(const std::string& tenant,
                                            const v1::UpdateTenantRequest& request,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  ASSIGN_OR_RETURN(const auto current, ReadRecord(tenant, bytes));
  if (!current.has_value()) return NotFound(NameOfTenant(tenant));
  RETURN_IF_ERROR(CheckEtag(request.tenant().etag(), TenantEtag(*current), NameOfTenant(tenant)));
  ASSIGN_OR_RETURN(const auto wanted,
                   ApplyUpdateMask(ShowTenant(*current), request.tenant(), request.update_mask()));
  if (!wanted.cell().empty() && wanted.cell() != NameOfCell(current->cell()))
    return InvalidField("tenant.cell", "cannot be changed");
  ASSIGN_OR_RETURN(auto next, ReadTenant(wanted));
  return Store(tenant, current, bytes, std::move(next), now);
}

void RequireEmpty(ColumnFamily cf, const std::string& prefix, absl::Status refusal,
                  RecordDecision& decision) {
  decision.group.conditions.push_back({.cf = cf,
                                       .key = prefix,
                                       .kind = kv::Condition::Kind::kRangeCount,
                                       .value = PrefixEnd(prefix),
                                       .number = 0});
  decision.refusals.push_back(std::move(refusal));
}

void RequireNothingLeft(const std::string& tenant, RecordDecision& decision) {
  RequireEmpty(ColumnFamily::kSchedules, SchedulePrefix(tenant),
               FailedPrecondition("TENANT_HAS_SCHEDULES",
                                  absl::StrCat(NameOfTenant(tenant), " has schedules")),
               decision);
  RequireEmpty(ColumnFamily::kPolicies, PolicyPrefix(tenant),
               FailedPrecondition("TENANT_HAS_POLICIES",
                                  absl::StrCat(NameOfTenant(tenant), " has policies")),
               decision);
}

// `keys` are the rows of all API keys of the tenant. `retired`: the version of the tenant that its
// cell, another one, has let go; 0: none.
absl::StatusOr<RecordDecision> DecideDelete(const std::string& tenant,
                                            const v1::DeleteTenantRequest& request,
                                            const std::vector<std::string>& keys, uint64_t retired,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  ASSIGN_OR_RETURN(const auto current, ReadRecord(tenant, bytes));
  if (!current.has_value()) return NotFound(NameOfTenant(tenant));
  RETURN_IF_ERROR(CheckEtag(request.etag(), TenantEtag(*current), NameOfTenant(tenant)));
  if (tenant == kDefaultTenant) {
    return FailedPrecondition("DEFAULT_TENANT", "the tenant \"default\" cannot be deleted");
  }
  // By then every master refuses changes in the tenant.
  if (!current->suspended() ||
      now - FromMicros(current->suspend_time_micros()) < kTenantSuspendedMin) {
    return FailedPrecondition("TENANT_NOT_SUSPENDED",
                              absl::StrCat(NameOfTenant(tenant), " must have been SUSPENDED for ",
                                           absl::FormatDuration(kTenantSuspendedMin)));
  }
  if (current->cell() != kHomeCell && !request.validate_only() && retired != current->version())
    return Contended(NameOfTenant(tenant));
  RecordDecision decision;
  RequireUnchanged(tenant, bytes, decision);
  RequireNothingLeft(tenant, decision);
  decision.group.conditions.push_back({.cf = ColumnFamily::kKeys,
                                       .key = ApiKeyPrefix(tenant),
                                       .kind = kv::Condition::Kind::kRangeCount,
                                       .value = PrefixEnd(ApiKeyPrefix(tenant)),
                                       .number = keys.size()});
  decision.refusals.push_back(Contended(NameOfTenant(tenant)));
  for (const std::string& key : keys) {
    decision.group.mutations.push_back(kv::Delete(ColumnFamily::kKeys, key));
    const std::optional<std::string> id = DecodeApiKeyKey(key);
    if (id.has_value())
      decision.group.mutations.push_back(kv::Delete(ColumnFamily::kKeys, ApiKeyUseKey(*id)));
  }
  decision.version_before = current->version();
  decision.group.mutations.push_back(
      kv::Put(ColumnFamily::kTenants, TenantKey(tenant),
              Tombstone(*current, current->version() + 1, now).SerializeAsString()));
  decision.response = std::make_unique<google::protobuf::Empty>();
  return decision;
}

// `record` as the home cell has it.
absl::StatusOr<RecordDecision> DecideRetire(const TenantRecord& record,
                                            const std::optional<std::string>& bytes,
                                            absl::Time now) {
  RecordDecision decision;
  decision.response = std::make_unique<google::protobuf::Empty>();
  TenantRecord copy;
  if (bytes.has_value() && !copy.ParseFromString(*bytes))
    return BrokenRecord(NameOfTenant(record.tenant()));
  RequireUnchanged(record.tenant(), bytes, decision);
  const bool retired = copy.delete_time_micros() != 0;
  if (NewerTenant(copy, record) && !retired) return Contended(NameOfTenant(record.tenant()));
  if (retired && !NewerTenant(record, copy)) return decision;
  RequireNothingLeft(record.tenant(), decision);
  // With the version that it had: if the deletion is cut off now and the tenant is changed instead,
  // that makes a newer one.
  decision.group.mutations.push_back(
      kv::Put(ColumnFamily::kTenants, TenantKey(record.tenant()),
              Tombstone(record, record.version(), now).SerializeAsString()));
  return decision;
}

absl::StatusOr<v1::ListTenantsResponse> PageOf(const kv::ScanResult& result, int32_t size,
                                               const std::string& list, bool with_default,
                                               const std::string& only) {
  v1::ListTenantsResponse response;
  const auto add = [&](const TenantRecord& record) {
    if (response.tenants_size() == size) {
      response.set_next_page_token(EncodePageToken(list, record.tenant()));
      return false;
    }
    *response.add_tenants() = ShowTenant(record);
    return true;
  };
  std::string last;
  bool default_due = with_default && (only.empty() || only == kDefaultTenant);
  for (const kv::Entry& entry : result.entries) {
    TenantRecord record;
    if (!record.ParseFromString(entry.value)) return BrokenRecord("a tenant");
    if (!only.empty() && record.tenant() != only) continue;
    last = record.tenant();
    if (record.delete_time_micros() != 0) continue;
    if (record.tenant() == kDefaultTenant) default_due = false;
    if (default_due && record.tenant() > kDefaultTenant) {
      default_due = false;
      if (!add(DefaultTenantRecord())) return response;
    }
    if (!add(record)) return response;
  }
  if (result.more) {
    // Deleted tenants have made the page shorter. '-' is the first character of the ids behind it.
    response.set_next_page_token(EncodePageToken(list, absl::StrCat(last, "-")));
  } else if (default_due) {
    add(DefaultTenantRecord());
  }
  return response;
}

// Counts one kind of rows after the other.
class UsageCounting : public std::enable_shared_from_this<UsageCounting> {
 public:
  UsageCounting(MasterContext& context, const v1::Tenant& tenant, Done<v1::TenantUsage> done)
      : context_(context),
        tenant_(ParseTenantName(tenant.name(), "name").value()),
        done_(std::move(done)) {
    *usage_.mutable_quotas() = tenant.quotas();
  }

  void Step() {
    static constexpr CountedRows kKinds[] = {CountedRows::kSchedules, CountedRows::kPolicies,
                                             CountedRows::kPendingEvents};
    if (next_ == std::size(kKinds)) return done_(std::move(usage_));
    const CountedRows kind = kKinds[next_++];
    CountRows(context_, kind, tenant_, kCountRowsMax,
              [self = shared_from_this(), kind](absl::StatusOr<int64_t> rows) {
                if (!rows.ok()) return self->done_(rows.status());
                self->Show(kind, *rows);
                self->Step();
              });
  }

 private:
  void Show(CountedRows kind, int64_t rows) {
    switch (kind) {
      case CountedRows::kSchedules:
        return usage_.set_schedule_count(rows);
      case CountedRows::kPolicies:
        return usage_.set_policy_count(rows);
      case CountedRows::kPendingEvents:
        return usage_.set_pending_event_count(rows);
    }
  }

  MasterContext& context_;
  const std::string tenant_;
  Done<v1::TenantUsage> done_;
  size_t next_ = 0;
  v1::TenantUsage usage_;
};

}  // namespace

void RetireTenant(MasterContext& cell, TenantRecord record, bool validate_only,
                  absl::AnyInvocable<void(absl::Status)> done) {
  RecordChange change = ChangeOf(record.tenant(), RequestMark());
  change.validate_only = validate_only;
  change.decide = [record = std::move(record)](const std::optional<std::string>& bytes,
                                               absl::Time now) {
    return DecideRetire(record, bytes, now);
  };
  change.response = std::make_unique<google::protobuf::Empty>();
  ChangeRecord(cell, std::move(change),
               [done = std::move(done)](auto changed) mutable { done(changed.status()); });
}

TenantCounts TenantService::Counts() const {
  TenantCounts counts;
  for (const TenantDirectory::Record& record : directory_.All()) ++counts[record->cell()];
  return counts;
}

absl::StatusOr<uint32_t> TenantService::CellOfNew() const {
  if (!cells_.loaded()) return NotReady();
  const std::vector<storage::v1::CellRecord> cells = cells_.All();
  const TenantCounts counts = Counts();
  std::optional<uint32_t> chosen = ChooseCell(cells, counts, elsewhere_.served);
  if (!chosen.has_value()) chosen = ChooseCell(cells, counts, [](uint32_t) { return true; });
  if (chosen.has_value()) return *chosen;
  return FailedPrecondition("CELL_DRAINING", "no cell takes new tenants");
}

template <typename Response>
void TenantService::AnswerWhenKnown(std::string tenant, uint64_t version, Response response,
                                    Done<Response> done, absl::Duration waited) {
  if ((directory_.Shows(tenant, version) && elsewhere_.shows(tenant, version)) ||
      waited >= kKnownWithin)
    return done(std::move(response));
  context_.executor->PostAfter(
      kLookEvery, [this, tenant = std::move(tenant), version, response = std::move(response),
                   done = std::move(done), waited]() mutable {
        AnswerWhenKnown(std::move(tenant), version, std::move(response), std::move(done),
                        waited + kLookEvery);
      });
}

void TenantService::Change(RecordChange change, Done<v1::Tenant> done) {
  const bool dry = change.validate_only;
  Done<v1::Tenant> answer(
      [this, dry, done = std::move(done)](absl::StatusOr<v1::Tenant> tenant) mutable {
        if (!tenant.ok() || dry) return done(std::move(tenant));
        const auto version = static_cast<uint64_t>(tenant->version());
        std::string id = TenantOf(tenant->name());
        AnswerWhenKnown(std::move(id), version, *std::move(tenant), std::move(done));
      });
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(answer)));
}

void TenantService::CreateTenant(v1::CreateTenantRequest request, Done<v1::Tenant> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!IsTenantId(request.tenant_id())) {
    violations.Add("tenant_id",
                   "is required: 1-63 characters of a-z, 0-9 and '-', beginning with a letter or "
                   "digit");
  }
  absl::StatusOr<TenantRecord> draft = ReadTenant(request.tenant());
  violations.AddStatus("", draft.status());
  std::optional<uint32_t> cell;
  if (!request.tenant().cell().empty()) {
    const absl::StatusOr<uint32_t> named = ParseCellName(request.tenant().cell(), "tenant.cell");
    violations.AddStatus("", named.status());
    if (named.ok()) cell = *named;
  }
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const std::string& tenant = request.tenant_id();
  RequestMark mark = MarkOf(kAllTenants, "CreateTenant", request, done);
  RecordChange change = ChangeOf(tenant, std::move(mark));
  // The cell may have been created by another master just now: its row is read.
  if (cell.has_value()) {
    draft->set_cell(*cell);
    change.read_more = [this, cell = *cell](const std::optional<std::string>&,
                                            absl::AnyInvocable<void(absl::Status)> read) {
      context_.client.MultiGet(
          {{ColumnFamily::kMeta, CellKey(cell)}}, context_.executor,
          [cell, read = std::move(read)](absl::StatusOr<kv::GetResult> result) mutable {
            if (!result.ok()) return read(StoreFailed(result.status()));
            read(CheckTakesTenants(cell, result->values[0]));
          });
    };
  }
  change.decide = [this, tenant, draft = *std::move(draft), chosen = cell.has_value()](
                      const std::optional<std::string>& bytes,
                      absl::Time now) mutable -> absl::StatusOr<RecordDecision> {
    if (!chosen) {
      ASSIGN_OR_RETURN(const uint32_t number, CellOfNew());
      draft.set_cell(number);
    }
    return DecideCreate(tenant, draft, bytes, now);
  };
  change.response = std::make_unique<v1::Tenant>();
  change.validate_only = request.validate_only();
  Change(std::move(change), std::move(done));
}

void TenantService::GetTenant(v1::GetTenantRequest request, Done<v1::Tenant> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.name(), "name");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  context_.client.MultiGet(
      {{ColumnFamily::kTenants, TenantKey(*tenant)}}, context_.executor,
      [tenant = *tenant, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        const auto record = ReadRecord(tenant, result->values[0]);
        if (!record.ok()) return done(record.status());
        if (!record->has_value()) return done(NotFound(NameOfTenant(tenant)));
        done(ShowTenant(**record));
      });
}

void TenantService::ListTenants(v1::ListTenantsRequest request,
                                Done<v1::ListTenantsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  // A caller of one tenant sees that one.
  const std::string only = done.caller()->tenant;
  std::string list = absl::StrCat("ListTenants ", only);
  const absl::StatusOr<PageRequest> page = ReadPage(list, request);
  if (!page.ok()) return context_.Refuse(page.status(), std::move(done));
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kTenants;
  if (!page->position.empty()) scan.begin = TenantKey(page->position);
  if (!only.empty()) {
    scan.begin = TenantKey(only);
    scan.end = KeyAfter(scan.begin);
  }
  scan.limit = static_cast<uint32_t>(page->size) + 1;
  const bool with_default = page->position <= kDefaultTenant;
  context_.client.Scan(
      std::move(scan), context_.executor,
      [list = std::move(list), size = static_cast<int32_t>(page->size), with_default, only,
       done = std::move(done)](absl::StatusOr<kv::ScanResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        done(PageOf(*result, size, list, with_default, only));
      });
}

void TenantService::UpdateTenant(v1::UpdateTenantRequest request, Done<v1::Tenant> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  if (!request.has_tenant()) violations.Add("tenant", "is required");
  CheckRequestId(request.request_id(), violations);
  const absl::StatusOr<std::string> tenant =
      ParseTenantName(request.tenant().name(), "tenant.name");
  if (request.has_tenant()) violations.AddStatus("", tenant.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark = MarkOf(kAllTenants, "UpdateTenant", request, done);
  RecordChange change = ChangeOf(*tenant, std::move(mark));
  change.validate_only = request.validate_only();
  change.decide = [tenant = *tenant, request = std::move(request)](
                      const std::optional<std::string>& bytes, absl::Time now) {
    return DecideUpdate(tenant, request, bytes, now);
  };
  change.response = std::make_unique<v1::Tenant>();
  Change(std::move(change), std::move(done));
}

void TenantService::DeleteTenant(v1::DeleteTenantRequest request,
                                 Done<google::protobuf::Empty> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.name(), "name");
  violations.AddStatus("", tenant.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const TenantDirectory::Record record = directory_.Find(*tenant);
  if (record == nullptr || record->cell() == kHomeCell)
    return DeleteHere(*tenant, 0, std::move(request), std::move(done));
  // Its cell lets it go only if it would be deleted now. The real request may also be a repeated
  // one, with a remembered answer.
  v1::DeleteTenantRequest trial = request;
  trial.clear_request_id();
  trial.set_validate_only(true);
  DeleteHere(
      *tenant, 0, std::move(trial),
      [this, record, request = std::move(request),
       done = std::move(done)](const absl::StatusOr<google::protobuf::Empty>& allowed) mutable {
        const std::string tenant = record->tenant();
        if (!allowed.ok()) return DeleteHere(tenant, 0, std::move(request), std::move(done));
        const bool validate_only = request.validate_only();
        elsewhere_.retire(*record, validate_only,
                          [this, tenant, version = record->version(), request = std::move(request),
                           done = std::move(done)](absl::Status retired) mutable {
                            if (!retired.ok())
                              return context_.Refuse(std::move(retired), std::move(done));
                            DeleteHere(tenant, version, std::move(request), std::move(done));
                          });
      });
}

void TenantService::DeleteHere(const std::string& tenant, uint64_t retired,
                               v1::DeleteTenantRequest request,
                               Done<google::protobuf::Empty> done) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kKeys;
  scan.begin = ApiKeyPrefix(tenant);
  scan.end = PrefixEnd(scan.begin);
  scan.limit = kKeysOfTenantMax + 1;
  scan.keys_only = true;
  context_.client.Scan(
      std::move(scan), context_.executor,
      [this, tenant, retired, request = std::move(request),
       done = std::move(done)](absl::StatusOr<kv::ScanResult> rows) mutable {
        if (!rows.ok()) return done(StoreFailed(rows.status()));
        std::vector<std::string> keys;
        for (kv::Entry& entry : rows->entries) keys.push_back(std::move(entry.key));
        RecordChange change = ChangeOf(tenant, MarkOf(kAllTenants, "DeleteTenant", request, done));
        change.validate_only = request.validate_only();
        change.decide = [tenant, retired, keys = std::move(keys), request = std::move(request)](
                            const std::optional<std::string>& bytes, absl::Time now) {
          return DecideDelete(tenant, request, keys, retired, bytes, now);
        };
        change.response = std::make_unique<google::protobuf::Empty>();
        const bool dry = change.validate_only;
        Done<google::protobuf::Empty> answer(
            [this, dry, tenant,
             done = std::move(done)](absl::StatusOr<google::protobuf::Empty> deleted) mutable {
              if (!deleted.ok() || dry) return done(std::move(deleted));
              AnswerWhenKnown(std::move(tenant), 0, *std::move(deleted), std::move(done));
            });
        ChangeRecord(context_, std::move(change), AsAnswer(std::move(answer)));
      });
}

void TenantService::GetTenantUsage(v1::GetTenantUsageRequest request, Done<v1::TenantUsage> done) {
  v1::GetTenantRequest get;
  get.set_name(request.name());
  GetTenant(std::move(get),
            [this, done = std::move(done)](absl::StatusOr<v1::Tenant> tenant) mutable {
              if (!tenant.ok()) return done(tenant.status());
              std::make_shared<UsageCounting>(context_, *tenant, std::move(done))->Step();
            });
}

}  // namespace escapement::master
