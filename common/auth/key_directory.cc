#include "common/auth/key_directory.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/storage/access_table.h"

namespace escapement::auth {
namespace {

constexpr absl::Duration kWriteUsesEvery = absl::Minutes(1);

}  // namespace

KeyDirectory::KeyDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor)
    : client_(client),
      executor_(std::move(executor)),
      mirror_(client, kv::ColumnFamily::kKeys, {ApiKeyPrefix(), PrefixEnd(ApiKeyPrefix())},
              executor_, [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void KeyDirectory::Start() {
  mirror_.Start();
  executor_->PostAfter(kWriteUsesEvery, [this] { WriteUses(); });
}

void KeyDirectory::Take(const kv::RangeMirror::Rows& rows) {
  auto keys = std::make_shared<Keys>();
  for (const auto& [key, value] : rows) {
    auto record = std::make_shared<storage::v1::KeyRecord>();
    // A record that cannot be read is skipped: its key is refused.
    if (record->ParseFromString(value)) (*keys)[record->key_id()] = std::move(record);
  }
  absl::MutexLock lock(&mutex_);
  keys_ = std::move(keys);
}

bool KeyDirectory::loaded() const {
  absl::MutexLock lock(&mutex_);
  return keys_ != nullptr;
}

std::shared_ptr<const storage::v1::KeyRecord> KeyDirectory::Find(const std::string& key_id) const {
  absl::MutexLock lock(&mutex_);
  if (keys_ == nullptr) return nullptr;
  const auto it = keys_->find(key_id);
  return it == keys_->end() ? nullptr : it->second;
}

void KeyDirectory::NoteUse(const std::string& key_id) {
  absl::MutexLock lock(&mutex_);
  used_.insert(key_id);
}

void KeyDirectory::WriteUses() {
  absl::flat_hash_set<std::string> used;
  {
    absl::MutexLock lock(&mutex_);
    used.swap(used_);
  }
  executor_->PostAfter(kWriteUsesEvery, [this] { WriteUses(); });
  if (used.empty()) return;
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  const std::string now = EncodeApiKeyUse(client_.NowLow());
  for (const std::string& key_id : used) {
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kKeys, .key = ApiKeyUseKey(key_id), .value = now});
  }
  // A time that is not written is only a time that is not shown.
  client_.CommitAsync(std::move(commit), executor_, [](const absl::StatusOr<kv::CommitResult>&) {});
}

}  // namespace escapement::auth
