#include "services/master/tenants/tenant_copies.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/kv/group_parts.h"
#include "common/kv/kv_store.h"
#include "common/storage/name_tables.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::TenantRecord;

constexpr size_t kCopiesAtOnce = 100;
constexpr absl::Duration kCopyAgain = absl::Seconds(1);

void PutIf(const TenantDirectory::Row* current, const TenantRecord& record, kv::Commit& commit) {
  const std::string key = TenantKey(record.tenant());
  kv::Group& group = commit.groups.emplace_back();
  std::optional<std::string> bytes;
  if (current != nullptr) bytes = current->bytes;
  group.conditions.push_back(kv::Unchanged(ColumnFamily::kTenants, key, std::move(bytes)));
  group.mutations.push_back(kv::Put(ColumnFamily::kTenants, key, record.SerializeAsString()));
}

}  // namespace

bool NewerTenant(const TenantRecord& a, const TenantRecord& b) {
  return std::pair(a.create_time_micros(), a.version()) >
         std::pair(b.create_time_micros(), b.version());
}

void TenantCopies::Start() {
  const auto wake = [this, executor = cell_.executor] { executor->Post([this] { Wake(); }); };
  home_tenants_.OnChange(wake);
  cell_.executor->Post([this, wake] {
    cell_tenants_.OnChange(wake);
    Wake();
  });
}

void TenantCopies::Wake() {
  again_ = true;
  if (writing_ == 0) Step();
}

void TenantCopies::Step() {
  again_ = failed_ = false;
  const auto wanted = home_tenants_.AllRows();
  const auto copies = cell_tenants_.AllRows();
  if (wanted == nullptr || copies == nullptr) return;  // their first change wakes
  kv::Commit to_cell;
  kv::Commit to_home;
  for (const auto& [tenant, row] : *wanted) {
    const TenantRecord& record = *row.record;
    if (record.cell() != number_) continue;
    const auto found = copies->find(tenant);
    const TenantDirectory::Row* const copy = found == copies->end() ? nullptr : &found->second;
    // A copy of a former tenant of this id says nothing of this one. It may also be out of date.
    const bool same =
        copy != nullptr && copy->record->create_time_micros() == record.create_time_micros();
    const bool copy_deleted = copy != nullptr && copy->record->delete_time_micros() != 0;
    if (record.delete_time_micros() != 0 && same && copy_deleted) {
      TenantRecord left = record;
      left.set_cell_swept(copy->record->swept());
      left.set_pending_until_micros(copy->record->pending_until_micros());
      const bool known = left.cell_swept() == record.cell_swept() &&
                         left.pending_until_micros() == record.pending_until_micros();
      if (!known && !record.cell_swept() && to_home.groups.size() < kCopiesAtOnce)
        PutIf(&row, left, to_home);
    } else if (copy == nullptr || NewerTenant(record, *copy->record)) {
      // The rows of a former tenant of this id must be gone first.
      const bool rows_left = copy_deleted && !same && !copy->record->swept();
      if (!rows_left && to_cell.groups.size() < kCopiesAtOnce) PutIf(copy, record, to_cell);
    }
  }
  const auto write = [this](MasterContext& context, kv::Commit commit) {
    if (commit.groups.empty()) return;
    ++writing_;
    context.client.CommitAsync(
        std::move(commit), cell_.executor,
        [this](const absl::StatusOr<kv::CommitResult>& result) { OnWritten(result.ok()); });
  };
  write(cell_, std::move(to_cell));
  write(home_, std::move(to_home));
}

// A commit that applied shows in a directory, which wakes; so does whatever kept it from applying.
void TenantCopies::OnWritten(bool written) {
  failed_ |= !written;
  if (--writing_ > 0) return;
  if (failed_) cell_.executor->PostAfter(kCopyAgain, [this] { Wake(); });
  if (again_) Step();
}

}  // namespace escapement::master
