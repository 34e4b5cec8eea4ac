#include "common/secrets/sealed_value.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_file.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

ABSL_FLAG(
    std::string, secret_keys_file, "",
    "file with the keys that encrypt the secrets of targets, made by `escctl admin secret-key`; "
    "without it targets can have no secrets. Master and handler need the same file");

namespace escapement {

namespace {

bool IsKeyId(absl::string_view id) {
  return !id.empty() && id.size() <= kSealingKeyIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '_' ||
                  c == '.';
         });
}

// Empty: not the base64 text of a key. The text must be exactly as an encoder writes it.
SecretText DecodeKey(absl::string_view text) {
  std::string decoded;
  std::string encoded;
  SecretText key;
  if (absl::Base64Unescape(text, &decoded) && decoded.size() == kSealingKeyBytes) {
    absl::Base64Escape(decoded, &encoded);
    if (encoded == text) key = SecretText(absl::string_view(decoded));
  }
  WipeText(decoded);
  WipeText(encoded);
  return key;
}

}  // namespace

absl::StatusOr<KeyRing> KeyRing::Parse(absl::string_view text, absl::string_view place) {
  std::vector<SealingKey> keys;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(place, ":", number, ": ", why));
    };
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return refused("the line must be `id: key`");
    const absl::string_view id = absl::StripAsciiWhitespace(line.substr(0, colon));
    if (!IsKeyId(id)) return refused("the id must be 1 to 32 of a-z, 0-9, '-', '_', '.'");
    SecretText key = DecodeKey(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (key.empty()) return refused("the key must be the base64 text of 32 bytes");
    for (const SealingKey& other : keys) {
      if (other.id == id) return refused("an earlier line has the same id");
      if (other.bytes.Equals(key)) return refused("an earlier line has the same key");
    }
    if (keys.size() == kSealingKeysMax)
      return refused(absl::StrCat("there are more than ", kSealingKeysMax, " keys"));
    keys.push_back({std::string(id), std::move(key)});
  }
  if (keys.empty()) return absl::InvalidArgumentError(absl::StrCat(place, " has no key"));
  return KeyRing(std::move(keys));
}

absl::StatusOr<KeyRing> KeyRing::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadBoundedFile(path, kKeyRingFileBytesMax));
  const SecretText content = SecretText::TakeFrom(text);
  return Parse(content.Reveal(), path);
}

const SealingKey* KeyRing::Find(absl::string_view id) const {
  for (const SealingKey& key : keys_) {
    if (key.id == id) return &key;
  }
  return nullptr;
}

SecretText KeyRing::NewLine(absl::Time now) {
  std::string bytes(kSealingKeyBytes, '\0');
  CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                   static_cast<int>(bytes.size())) == 1);
  std::string key;
  absl::Base64Escape(bytes, &key);
  std::string line =
      absl::StrCat("key-", absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone()), ": ", key);
  WipeText(bytes);
  WipeText(key);
  return SecretText::TakeFrom(line);
}

namespace {

constexpr char kVersion = 1;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kMarkBytes = 6;
constexpr absl::string_view kNonceKeyLabel = "escapement: key of nonces";
constexpr size_t kAssociatedDataBytesMax = 64 << 10;
static_assert(kSealingKeyIdBytesMax < 128);

struct CipherDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, CipherDeleter>;

unsigned char* Bytes(char* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* Bytes(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

struct SealedParts {
  absl::string_view header;  // version and key id
  absl::string_view key_id;
  absl::string_view nonce;
  absl::string_view ciphertext;
  absl::string_view tag;
};

absl::Status Broken() { return absl::DataLossError("the bytes are not a sealed value"); }

absl::StatusOr<SealedParts> Split(absl::string_view sealed) {
  if (sealed.size() < 2 || sealed[0] != kVersion) return Broken();
  const size_t id_bytes = static_cast<unsigned char>(sealed[1]);
  const size_t header_bytes = 2 + id_bytes;
  if (id_bytes == 0 || id_bytes > kSealingKeyIdBytesMax ||
      sealed.size() < header_bytes + kNonceBytes + kTagBytes ||
      sealed.size() - header_bytes - kNonceBytes - kTagBytes > kSealedPlaintextBytesMax) {
    return Broken();
  }
  SealedParts parts;
  parts.header = sealed.substr(0, header_bytes);
  parts.key_id = sealed.substr(2, id_bytes);
  parts.nonce = sealed.substr(header_bytes, kNonceBytes);
  parts.ciphertext = sealed.substr(header_bytes + kNonceBytes,
                                   sealed.size() - header_bytes - kNonceBytes - kTagBytes);
  parts.tag = sealed.substr(sealed.size() - kTagBytes);
  return parts;
}

// HMAC-SHA256. Its bytes are a key or reveal equal secrets, so they are wiped.
SecretText Hmac(absl::string_view key, absl::string_view text) {
  SecretText mac = SecretText::OfSize(32);
  unsigned int bytes = 0;
  const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                         Bytes(text), text.size(), Bytes(mac.data()), &bytes);
  return made != nullptr && bytes == mac.size() ? std::move(mac) : SecretText();
}

// Empty if OpenSSL refuses. The key of the hash is not the one that encrypts.
std::string NonceOf(const SealingKey& key, const SecretText& plaintext,
                    absl::string_view associated_data) {
  const SecretText hash_key = Hmac(key.bytes.Reveal(), kNonceKeyLabel);
  // The size in front keeps the two texts apart.
  std::string text = absl::StrCat(associated_data.size(), ":", associated_data, plaintext.Reveal());
  const SecretText mac = Hmac(hash_key.Reveal(), text);
  WipeText(text);
  return std::string(mac.Reveal().substr(0, kNonceBytes));
}

// The key, the nonce, and the data that is only authenticated; null if OpenSSL refuses.
Cipher Begin(bool encrypt, const SealingKey& key, absl::string_view nonce, absl::string_view header,
             absl::string_view associated_data) {
  Cipher cipher(EVP_CIPHER_CTX_new());
  // The default length of a GCM nonce is 12 bytes.
  bool good = cipher != nullptr &&
              EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key.bytes.Reveal()),
                                Bytes(nonce), encrypt ? 1 : 0) == 1;
  // The header says its own length, so header and data cannot be shifted against each other.
  for (const absl::string_view part : {header, associated_data}) {
    int written = 0;
    good = good && (part.empty() || EVP_CipherUpdate(cipher.get(), nullptr, &written, Bytes(part),
                                                     static_cast<int>(part.size())) == 1);
  }
  return good ? std::move(cipher) : nullptr;
}

bool Transform(EVP_CIPHER_CTX* cipher, absl::string_view from, char* to) {
  int written = 0;
  return from.empty() || (EVP_CipherUpdate(cipher, Bytes(to), &written, Bytes(from),
                                           static_cast<int>(from.size())) == 1 &&
                          written == static_cast<int>(from.size()));
}

bool Finish(EVP_CIPHER_CTX* cipher) {
  unsigned char block[16];  // GCM writes nothing here
  int written = 0;
  return EVP_CipherFinal_ex(cipher, block, &written) == 1;
}

}  // namespace

absl::StatusOr<std::string> Sealer::Seal(const SecretText& plaintext,
                                         absl::string_view associated_data) const {
  if (plaintext.size() > kSealedPlaintextBytesMax ||
      associated_data.size() > kAssociatedDataBytesMax) {
    return absl::InvalidArgumentError("the secret is too large");
  }
  const SealingKey& key = keys_.current();
  const std::string header = absl::StrCat(std::string(1, kVersion),
                                          std::string(1, static_cast<char>(key.id.size())), key.id);
  const std::string nonce = NonceOf(key, plaintext, associated_data);
  const Cipher cipher = nonce.empty() ? nullptr : Begin(true, key, nonce, header, associated_data);
  std::string ciphertext(plaintext.size(), '\0');
  std::string tag(kTagBytes, '\0');
  if (cipher == nullptr || !Transform(cipher.get(), plaintext.Reveal(), ciphertext.data()) ||
      !Finish(cipher.get()) ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) != 1) {
    return absl::InternalError("OpenSSL cannot seal the secret");
  }
  return absl::StrCat(header, nonce, ciphertext, tag);
}

absl::StatusOr<SecretText> Sealer::Open(absl::string_view sealed,
                                        absl::string_view associated_data) const {
  ASSIGN_OR_RETURN(const SealedParts parts, Split(sealed));
  const SealingKey* const key = keys_.Find(parts.key_id);
  if (key == nullptr)
    return absl::FailedPreconditionError("the key ring has no key with the id of the sealed value");
  const absl::Status forged = absl::DataLossError(
      "the sealed value was changed, or it belongs to another place or another key");
  if (associated_data.size() > kAssociatedDataBytesMax) return forged;
  const Cipher cipher = Begin(false, *key, parts.nonce, parts.header, associated_data);
  // The bytes are wiped unless the tag is right.
  SecretText plaintext = SecretText::OfSize(parts.ciphertext.size());
  std::string tag(parts.tag);  // OpenSSL takes a pointer to non-const
  if (cipher == nullptr || !Transform(cipher.get(), parts.ciphertext, plaintext.data()) ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      !Finish(cipher.get())) {
    return forged;
  }
  return plaintext;
}

absl::StatusOr<std::string> Sealer::KeyId(absl::string_view sealed) {
  ASSIGN_OR_RETURN(const SealedParts parts, Split(sealed));
  return std::string(parts.key_id);
}

absl::StatusOr<std::string> Sealer::Mark(absl::string_view sealed) {
  ASSIGN_OR_RETURN(const SealedParts parts, Split(sealed));
  return std::string(parts.nonce.substr(0, kMarkBytes));
}

bool Sealer::NeedsResealing(absl::string_view sealed) const {
  const absl::StatusOr<SealedParts> parts = Split(sealed);
  return parts.ok() && parts->key_id != keys_.current().id;
}

void ValidateSecretKeysFlag(std::vector<std::string>& errors) {
  const std::string path = absl::GetFlag(FLAGS_secret_keys_file);
  if (path.empty()) return;
  if (const auto keys = KeyRing::Load(path); !keys.ok())
    errors.push_back(absl::StrCat("--secret_keys_file: ", keys.status().message()));
}

std::shared_ptr<const Sealer> SealerFromFlag() {
  const std::string path = absl::GetFlag(FLAGS_secret_keys_file);
  if (path.empty()) return nullptr;
  auto keys = KeyRing::Load(path);
  if (!keys.ok()) return nullptr;
  return std::make_shared<const Sealer>(*std::move(keys));
}

}  // namespace escapement
