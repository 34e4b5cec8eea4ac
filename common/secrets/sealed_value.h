// Sealer: encrypts secrets for storage, and opens them. KeyRing: its keys, read from the file of
// the flag --secret_keys_file.

#ifndef COMMON_SECRETS_SEALED_VALUE_H_
#define COMMON_SECRETS_SEALED_VALUE_H_

#include <cstddef>
#include <memory>
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

// KeyRing: the keys that seal secrets at rest, read from a file.
//
//   # the first line is the current key; later lines only open older values
//   key-20261126: 7fY0sVJmVwVxkd1ZB1yTg1U0QyKLWDbVw5mPQlTQ3Xo=
//
// Each line has an id, a colon, and the base64 text of 32 random bytes. `escctl admin
// secret-key` prints such a line. Empty lines and lines that begin with '#' are comments.
//
// Threads: immutable after it was made.
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

  // A line with a new key, without its newline. The id says when the key was made.
  static SecretText NewLine(absl::Time now);

 private:
  explicit KeyRing(std::vector<SealingKey> keys) : keys_(std::move(keys)) {}

  std::vector<SealingKey> keys_;  // not empty
};

inline constexpr size_t kSealedPlaintextBytesMax = 1 << 20;

// Sealer: encrypts secrets for storage with AES-256-GCM (OpenSSL), and opens them.
//
// A sealed value has
//
//   version       1 byte, 1
//   key id        1 byte with its length, then the id
//   nonce         12 bytes, see below
//   ciphertext    as many bytes as the plaintext
//   tag           16 bytes
//
// The tag also covers everything before the nonce, and the associated data: name there what the
// secret belongs to, e.g. "tenants/a/credentials/b/password". Then a value that somebody copies to
// another place in the store does not open there.
//
// The nonce is a keyed hash (HMAC-SHA256, cut) of the plaintext and the associated data, so that
// equal secrets at one place have equal sealed values: events with the same target share one
// record. A reader of the store learns no more than that. Two different secrets get the same
// nonce as rarely as with random ones, which allow 2^32 values with one key (NIST SP 800-38D, 8.3).
// Replace the key before that: put a new first line into the file, restart, and reseal each value
// for which NeedsResealing is true.
//
// Threads: any; a Sealer does not change.
class Sealer {
 public:
  explicit Sealer(KeyRing keys) : keys_(std::move(keys)) {}

  // Seals with the current key. INVALID_ARGUMENT: above kSealedPlaintextBytesMax.
  absl::StatusOr<std::string> Seal(const SecretText& plaintext,
                                   absl::string_view associated_data) const;

  // DATA_LOSS: the value is broken, or was sealed with other associated data. FAILED_PRECONDITION:
  // the ring no longer has its key. Errors quote neither the value nor the associated data.
  absl::StatusOr<SecretText> Open(absl::string_view sealed,
                                  absl::string_view associated_data) const;

  // The id of the key that sealed the value; it is not verified. DATA_LOSS: not a sealed value.
  static absl::StatusOr<std::string> KeyId(absl::string_view sealed);

  // Six bytes by which values can be told apart: the begin of the nonce. DATA_LOSS: not a sealed
  // value.
  static absl::StatusOr<std::string> Mark(absl::string_view sealed);

  // True if another key than the current one sealed the value. False for bytes that are no sealed
  // value: Open reports those.
  bool NeedsResealing(absl::string_view sealed) const;

 private:
  KeyRing keys_;
};

// The flag --secret_keys_file of services that seal or open secrets.

// Appends a sentence if the flag is set and its file cannot be read.
void ValidateSecretKeysFlag(std::vector<std::string>& errors);

// Null if the flag is not set. Call it after the validation.
std::shared_ptr<const Sealer> SealerFromFlag();

}  // namespace escapement

#endif  // COMMON_SECRETS_SEALED_VALUE_H_
