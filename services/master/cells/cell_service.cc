#include "services/master/cells/cell_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using storage::v1::CellRecord;

constexpr double kCellWeightMax = 1000;

std::string EtagOf(const CellRecord& record) { return absl::StrCat("\"", record.version(), "\""); }

v1::Cell ShowRecord(const CellRecord& record) {
  v1::Cell cell;
  cell.set_name(NameOfCell(record.cell()));
  cell.set_store_address(record.store_address());
  cell.set_state(record.draining() ? v1::Cell::DRAINING : v1::Cell::OPEN);
  cell.set_weight(record.weight());
  cell.set_version(static_cast<int64_t>(record.version()));
  cell.set_etag(EtagOf(record));
  if (record.version() > 0) {
    SetTimestamp(record.create_time_micros(), *cell.mutable_create_time());
    SetTimestamp(record.update_time_micros(), *cell.mutable_update_time());
  }
  return cell;
}

// State and weight.
CellRecord ReadCell(const v1::Cell& cell, FieldViolations& violations) {
  CellRecord record;
  if (!v1::Cell::State_IsValid(cell.state()))
    violations.Add("cell.state", "must be OPEN or DRAINING");
  record.set_draining(cell.state() == v1::Cell::DRAINING);
  const double weight = cell.weight() == 0 ? 1 : cell.weight();
  // Written so that NaN is refused.
  if (!(weight > 0 && weight <= kCellWeightMax)) {
    violations.Add("cell.weight", absl::StrCat("must be more than 0 and at most ", kCellWeightMax));
  }
  record.set_weight(weight);
  return record;
}

// Stores `next` as the version after `current`.
RecordDecision StoreCell(uint32_t cell, const CellRecord& current,
                         const std::optional<std::string>& bytes, CellRecord next, absl::Time now) {
  RecordDecision decision;
  const std::string key = CellKey(cell);
  decision.group.conditions.push_back(kv::Unchanged(kv::ColumnFamily::kMeta, key, bytes));
  decision.version_before = current.version();
  next.set_cell(cell);
  next.set_store_address(current.store_address());
  next.set_version(current.version() + 1);
  next.set_create_time_micros(current.version() > 0 ? current.create_time_micros() : ToMicros(now));
  next.set_update_time_micros(ToMicros(now));
  decision.group.mutations.push_back(
      kv::Put(kv::ColumnFamily::kMeta, key, next.SerializeAsString()));
  decision.response = std::make_unique<v1::Cell>(ShowRecord(next));
  return decision;
}

absl::StatusOr<RecordDecision> DecideCellUpdate(uint32_t cell, const v1::UpdateCellRequest& request,
                                                const std::optional<std::string>& bytes,
                                                absl::Time now) {
  ASSIGN_OR_RETURN(const auto current, ReadCellRecord(cell, bytes));
  if (!current.has_value()) return NotFound(NameOfCell(cell));
  RETURN_IF_ERROR(CheckEtag(request.cell().etag(), EtagOf(*current), NameOfCell(cell)));
  const v1::Cell shown = ShowRecord(*current);
  ASSIGN_OR_RETURN(const auto wanted,
                   ApplyUpdateMask(shown, request.cell(), request.update_mask()));
  FieldViolations violations;
  CellRecord next = ReadCell(wanted, violations);
  if (!wanted.store_address().empty() && wanted.store_address() != shown.store_address())
    violations.Add("cell.store_address", "cannot be changed");
  RETURN_IF_ERROR(violations.ToStatus());
  return StoreCell(cell, *current, bytes, std::move(next), now);
}

RecordChange ChangeOfCell(uint32_t cell, RequestMark mark, bool validate_only) {
  RecordChange change{.key = {kv::ColumnFamily::kMeta, CellKey(cell)},
                      .resource = NameOfCell(cell),
                      .mark = std::move(mark)};
  change.response = std::make_unique<v1::Cell>();
  change.validate_only = validate_only;
  return change;
}

}  // namespace

Done<v1::Cell> CellService::WithCounts(Done<v1::Cell> done) {
  return {[this, done = std::move(done)](absl::StatusOr<v1::Cell> cell) mutable {
    if (cell.ok()) {
      const absl::StatusOr<uint32_t> number = ParseCellName(cell->name(), "name");
      if (number.ok()) cell->set_tenant_count(sources_.tenants()[*number]);
    }
    done(std::move(cell));
  }};
}

void CellService::CreateCell(v1::CreateCellRequest request, Done<v1::Cell> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  const auto cell = ParseCellName(absl::StrCat("cells/", request.cell_id()), "cell_id");
  if (!cell.ok() || *cell == kHomeCell) violations.Add("cell_id", "is required: 1 to 63");
  CellRecord draft = ReadCell(request.cell(), violations);
  draft.set_store_address(request.cell().store_address());
  absl::StatusOr<OpenedStore> store =
      open_store_ != nullptr ? open_store_(draft.store_address())
                             : absl::UnimplementedError("this master serves no other cells");
  if (!store.ok()) violations.Add("cell.store_address", store.status().message());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));

  RecordChange change = ChangeOfCell(*cell, MarkOf(kAllTenants, "CreateCell", request, done),
                                     request.validate_only());
  auto opened = std::make_shared<OpenedStore>(*std::move(store));
  change.read_more = [this, cell = *cell, opened, adopt = !request.validate_only()](
                         const std::optional<std::string>& bytes,
                         absl::AnyInvocable<void(absl::Status)> read) {
    // The store is checked once, and only if there is no such cell yet.
    if (bytes.has_value() || opened->store == nullptr) return read(absl::OkStatus());
    CheckCellStore(context_, std::move(*opened), cell, adopt, std::move(read));
  };
  change.decide = [cell = *cell, draft](const std::optional<std::string>& bytes,
                                        absl::Time now) -> absl::StatusOr<RecordDecision> {
    if (bytes.has_value()) return AlreadyExists(NameOfCell(cell));
    CellRecord none;
    none.set_store_address(draft.store_address());
    return StoreCell(cell, none, bytes, draft, now);
  };
  ChangeRecord(context_, std::move(change), AsAnswer(WithCounts(std::move(done))));
}

void CellService::GetCell(v1::GetCellRequest request, Done<v1::Cell> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<uint32_t> cell = ParseCellName(request.name(), "name");
  if (!cell.ok()) return context_.Refuse(cell.status(), std::move(done));
  context_.client.MultiGet({{kv::ColumnFamily::kMeta, CellKey(*cell)}}, context_.executor,
                           [cell = *cell, done = WithCounts(std::move(done))](
                               absl::StatusOr<kv::GetResult> result) mutable {
                             if (!result.ok()) return done(StoreFailed(result.status()));
                             const auto record = ReadCellRecord(cell, result->values[0]);
                             if (!record.ok()) return done(record.status());
                             if (!record->has_value()) return done(NotFound(NameOfCell(cell)));
                             done(ShowRecord(**record));
                           });
}

void CellService::ListCells(v1::ListCellsRequest /*request*/, Done<v1::ListCellsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kMeta;
  scan.begin = std::string(kCellPrefix);
  scan.end = PrefixEnd(scan.begin);
  scan.limit = kv::kCellsMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this, done = std::move(done)](absl::StatusOr<kv::ScanResult> rows) mutable {
                         if (!rows.ok()) return done(StoreFailed(rows.status()));
                         v1::ListCellsResponse response;
                         TenantCounts tenants = sources_.tenants();
                         const auto add = [&](const CellRecord& record) {
                           v1::Cell& cell = *response.add_cells() = ShowRecord(record);
                           cell.set_tenant_count(tenants[record.cell()]);
                         };
                         if (rows->entries.empty() || rows->entries[0].key != CellKey(kHomeCell))
                           add(HomeCellRecord());
                         for (const kv::Entry& row : rows->entries) {
                           CellRecord record;
                           if (!record.ParseFromString(row.value))
                             return done(BrokenRecord("a cell"));
                           add(record);
                         }
                         done(std::move(response));
                       });
}

void CellService::UpdateCell(v1::UpdateCellRequest request, Done<v1::Cell> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  const absl::StatusOr<uint32_t> cell = ParseCellName(request.cell().name(), "cell.name");
  violations.AddStatus("", cell.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RecordChange change = ChangeOfCell(*cell, MarkOf(kAllTenants, "UpdateCell", request, done),
                                     request.validate_only());
  change.decide = [cell = *cell, request = std::move(request)](
                      const std::optional<std::string>& bytes, absl::Time now) {
    return DecideCellUpdate(cell, request, bytes, now);
  };
  ChangeRecord(context_, std::move(change), AsAnswer(WithCounts(std::move(done))));
}

void CellService::GetCellStatus(v1::GetCellStatusRequest request, Done<v1::CellStatus> done) {
  v1::GetCellRequest get;
  get.set_name(request.name());
  GetCell(std::move(get), [this, done = std::move(done)](absl::StatusOr<v1::Cell> cell) mutable {
    if (!cell.ok()) return done(cell.status());
    ReachedCell reached = sources_.reach(*ParseCellName(cell->name(), "name"));
    v1::CellStatus unserved;
    unserved.set_name(cell->name());
    if (reached.context == nullptr) reached.problem = "this master does not know it yet";
    if (!reached.problem.empty()) {
      unserved.set_problem(reached.problem);
      return done(std::move(unserved));
    }
    ReadCellStatus(std::move(reached),
                   [name = cell->name(), executor = context_.executor,
                    done = std::move(done)](absl::StatusOr<v1::CellStatus> status) mutable {
                     if (status.ok()) {
                       status->set_name(name);
                       status->set_serving(true);
                     }
                     executor->Post([status = std::move(status), done = std::move(done)]() mutable {
                       done(std::move(status));
                     });
                   });
  });
}

}  // namespace escapement::master
