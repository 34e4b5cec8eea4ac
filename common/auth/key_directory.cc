#include "common/auth/key_directory.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/storage/name_tables.h"

namespace escapement::auth {

namespace {

constexpr size_t kIdBytes = 8;
constexpr size_t kSecretBytes = 32;

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  CHECK_EQ(
      RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(random.size())),
      1);
  return absl::BytesToHexString(random);
}

bool IsHex(absl::string_view text, size_t bytes) {
  return text.size() == 2 * bytes && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string ApiKeyParts::ToString() const { return absl::StrCat(kApiKeyPrefix, id, "_", secret); }

ApiKeyParts NewApiKey() { return {RandomHex(kIdBytes), RandomHex(kSecretBytes)}; }

std::optional<ApiKeyParts> ParseApiKey(absl::string_view text) {
  if (!absl::StartsWith(text, kApiKeyPrefix)) return std::nullopt;
  text.remove_prefix(kApiKeyPrefix.size());
  const size_t underscore = text.find('_');
  if (underscore == absl::string_view::npos) return std::nullopt;
  const absl::string_view id = text.substr(0, underscore);
  const absl::string_view secret = text.substr(underscore + 1);
  if (!IsHex(id, kIdBytes) || !IsHex(secret, kSecretBytes)) return std::nullopt;
  return ApiKeyParts{std::string(id), std::string(secret)};
}

std::string HashApiKeySecret(absl::string_view secret) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

bool ApiKeySecretMatches(absl::string_view secret, absl::string_view hash) {
  const std::string own = HashApiKeySecret(secret);
  return own.size() == hash.size() && CRYPTO_memcmp(own.data(), hash.data(), own.size()) == 0;
}

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
