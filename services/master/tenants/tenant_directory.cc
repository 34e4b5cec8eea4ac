#include "services/master/tenants/tenant_directory.h"

#include <utility>

#include "common/storage/access_table.h"
#include "services/master/tenants/tenant_codec.h"

namespace escapement::master {

TenantDirectory::TenantDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor)
    : mirror_(client, kv::ColumnFamily::kTenants, {}, std::move(executor),
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void TenantDirectory::Take(const kv::RangeMirror::Rows& rows) {
  auto tenants = std::make_shared<Tenants>();
  (*tenants)[std::string(kDefaultTenant)] =
      std::make_shared<storage::v1::TenantRecord>(DefaultTenantRecord());
  for (const auto& [key, value] : rows) {
    auto record = std::make_shared<storage::v1::TenantRecord>();
    // A tenant whose record cannot be read counts as missing.
    if (record->ParseFromString(value)) (*tenants)[record->tenant()] = std::move(record);
  }
  absl::MutexLock lock(&mutex_);
  tenants_ = std::move(tenants);
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

}  // namespace escapement::master
