// KeyRing: the keys that seal secrets at rest (sealed_value.h), read from a file.
//
//   # the first line is the current key; later lines only open older values
//   key-20261126: 7fY0sVJmVwVxkd1ZB1yTg1U0QyKLWDbVw5mPQlTQ3Xo=
//
// Each line has an id, a colon, and the base64 text of 32 random bytes. `tools/dev secret_key`
// prints such a line. Empty lines and lines that begin with '#' are comments.
//
// Threads: immutable after it was made.

#ifndef COMMON_SECRETS_KEY_RING_H_
#define COMMON_SECRETS_KEY_RING_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/secrets/secret_text.h"

namespace escapement {

inline constexpr size_t kSealingKeyBytes = 32;
inline constexpr size_t kSealingKeyIdBytesMax = 32;
inline constexpr size_t kSealingKeysMax = 100;
inline constexpr size_t kKeyRingFileBytesMax = 64 << 10;

struct SealingKey {
  std::string id;    // 1 to 32 of a–z, 0–9, '-', '_', '.'
  SecretText bytes;  // 32 bytes
};

class KeyRing {
 public:
  // INVALID_ARGUMENT with a sentence that names `place` and the line, and quotes neither keys nor
  // ids.
  static absl::StatusOr<KeyRing> Parse(absl::string_view text, absl::string_view place);
  // Errors as from Parse and ReadBoundedFile.
  static absl::StatusOr<KeyRing> Load(const std::string& path);

  const SealingKey& current() const { return keys_.front(); }
  // Null: no key has this id.
  const SealingKey* Find(absl::string_view id) const;

 private:
  explicit KeyRing(std::vector<SealingKey> keys) : keys_(std::move(keys)) {}

  std::vector<SealingKey> keys_;  // not empty
};

}  // namespace escapement

#endif  // COMMON_SECRETS_KEY_RING_H_
