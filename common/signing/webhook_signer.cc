#include "common/signing/webhook_signer.h"

#include <openssl/evp.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/secrets/secret_text.h"

namespace escapement {
namespace {

constexpr size_t kHmacKeyBytesMin = 24;
constexpr size_t kHmacKeyBytesMax = 64;
constexpr size_t kEd25519KeyBytes = 32;
constexpr size_t kEd25519PairBytes = 64;
constexpr size_t kEd25519SignatureBytes = 64;

struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct DigestDeleter {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string Ed25519(EVP_PKEY* key, absl::string_view text) {
  std::string signature(kEd25519SignatureBytes, '\0');
  size_t bytes = signature.size();
  const std::unique_ptr<EVP_MD_CTX, DigestDeleter> digest(EVP_MD_CTX_new());
  if (EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key) != 1 ||
      EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &bytes,
                     Bytes(text), text.size()) != 1) {
    return "";
  }
  signature.resize(bytes);
  return signature;
}

}  // namespace

// One of the two is set.
struct WebhookSigner::Key {
  SecretText hmac;
  std::unique_ptr<EVP_PKEY, KeyDeleter> ed25519;
};

WebhookSigner::WebhookSigner() = default;
WebhookSigner::WebhookSigner(WebhookSigner&&) noexcept = default;
WebhookSigner& WebhookSigner::operator=(WebhookSigner&&) noexcept = default;
WebhookSigner::~WebhookSigner() = default;

absl::StatusOr<WebhookSigner::Key> WebhookSigner::ReadKey(absl::string_view secret) {
  const bool hmac = absl::ConsumePrefix(&secret, "whsec_");
  if (!hmac && !absl::ConsumePrefix(&secret, "whsk_"))
    return absl::InvalidArgumentError("must begin with whsec_ or whsk_");
  std::string decoded;
  if (!absl::Base64Unescape(secret, &decoded))
    return absl::InvalidArgumentError("must be base64 text after its prefix");
  Key key;
  key.hmac = SecretText::TakeFrom(decoded);
  if (hmac) {
    if (key.hmac.size() < kHmacKeyBytesMin || key.hmac.size() > kHmacKeyBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("must be the base64 text of ",
                                                     kHmacKeyBytesMin, " to ", kHmacKeyBytesMax,
                                                     " bytes after whsec_"));
    }
    return key;
  }
  const SecretText bytes = std::exchange(key.hmac, SecretText());
  if (bytes.size() == kEd25519KeyBytes || bytes.size() == kEd25519PairBytes) {
    key.ed25519.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(bytes.Reveal()),
                                                   kEd25519KeyBytes));
  }
  if (key.ed25519 == nullptr) {
    return absl::InvalidArgumentError(
        "must be the base64 text of an Ed25519 key of 32 or 64 bytes after whsk_");
  }
  return key;
}

absl::Status WebhookSigner::Check(absl::string_view secret) { return ReadKey(secret).status(); }

absl::StatusOr<WebhookSigner> WebhookSigner::Make(const std::vector<std::string>& secrets) {
  WebhookSigner signer;
  for (const std::string& secret : secrets) {
    ASSIGN_OR_RETURN(Key key, ReadKey(secret));
    signer.keys_.push_back(std::move(key));
  }
  return signer;
}

std::string WebhookSigner::Sign(absl::string_view id, int64_t unix_seconds,
                                absl::string_view body) const {
  const std::string text = absl::StrCat(id, ".", unix_seconds, ".", body);
  std::string signatures;
  for (const Key& key : keys_) {
    const bool hmac = key.ed25519 == nullptr;
    absl::StrAppend(&signatures, signatures.empty() ? "" : " ", hmac ? "v1," : "v1a,",
                    absl::Base64Escape(hmac ? HmacSha256(key.hmac.Reveal(), text)
                                            : Ed25519(key.ed25519.get(), text)));
  }
  return signatures;
}

}  // namespace escapement
