// API keys: their text and its parts (ApiKeyParts), and the keys of the store (KeyDirectory).

#ifndef COMMON_AUTH_KEY_DIRECTORY_H_
#define COMMON_AUTH_KEY_DIRECTORY_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/client/range_mirror.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::auth {

// API keys as their owners see them: esc_<id>_<secret>.
//
// <id> has 16 lower-case hex digits and names the key. <secret> is 64 lower-case hex digits, 256
// random bits of OpenSSL. The platform keeps only the SHA-256 of the secret's text.
//
// Threads: pure functions, except NewApiKey, which asks the machine for random bits.

inline constexpr absl::string_view kApiKeyPrefix = "esc_";

struct ApiKeyParts {
  std::string id;
  std::string secret;

  std::string ToString() const;
};

// Not for simulated code: the bits must not be predictable.
ApiKeyParts NewApiKey();

// nullopt if the text has another form.
std::optional<ApiKeyParts> ParseApiKey(absl::string_view text);

// 32 bytes.
std::string HashApiKeySecret(absl::string_view secret);

// Takes constant time for hashes of the same length.
bool ApiKeySecretMatches(absl::string_view secret, absl::string_view hash);

// KeyDirectory: the API keys of the store, current to within milliseconds (range_mirror.h), and
// when each was last used.
//
// Threads: Find from any; the rest on `executor`. Stop the executor before it is destroyed.
class KeyDirectory {
 public:
  // `client` must outlive it.
  KeyDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor);

  void Start();

  // True once the keys have been read.
  bool loaded() const;

  // Null: no such key.
  std::shared_ptr<const storage::v1::KeyRecord> Find(const std::string& key_id) const;

  // Notes that the key was used now. The time is written within a minute.
  void NoteUse(const std::string& key_id);

 private:
  using Keys = absl::flat_hash_map<std::string, std::shared_ptr<const storage::v1::KeyRecord>>;

  void Take(const kv::RangeMirror::Rows& rows);
  void WriteUses();

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  kv::RangeMirror mirror_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mutex_);       // null until they have been read
  absl::flat_hash_set<std::string> used_ ABSL_GUARDED_BY(mutex_);  // since the last writing
};

}  // namespace escapement::auth

#endif  // COMMON_AUTH_KEY_DIRECTORY_H_
