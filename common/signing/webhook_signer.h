// WebhookSigner: signatures of Standard Webhooks (https://www.standardwebhooks.com, specification
// 1.0), with HMAC-SHA256 ("v1") and Ed25519 ("v1a").
//
// Threads: immutable after it was made.

#ifndef COMMON_SIGNING_WEBHOOK_SIGNER_H_
#define COMMON_SIGNING_WEBHOOK_SIGNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

class WebhookSigner {
 public:
  // Each secret is "whsec_" and base64 of 24 to 64 bytes (HMAC), or "whsk_" and base64 of an
  // Ed25519 key: 32 bytes, or 64 with the public key behind them. INVALID_ARGUMENT otherwise; the
  // error does not quote the secret.
  static absl::StatusOr<WebhookSigner> Make(const std::vector<std::string>& secrets);
  // OK, or what is wrong with one secret.
  static absl::Status Check(absl::string_view secret);

  WebhookSigner(WebhookSigner&&) noexcept;
  WebhookSigner& operator=(WebhookSigner&&) noexcept;
  ~WebhookSigner();

  // The value of webhook-signature: one signature for each secret, in their order, with blanks
  // between them. The signed text is `id`, '.', `unix_seconds`, '.', `body`.
  std::string Sign(absl::string_view id, int64_t unix_seconds, absl::string_view body) const;

 private:
  struct Key;
  WebhookSigner();
  static absl::StatusOr<Key> ReadKey(absl::string_view secret);

  std::vector<Key> keys_;
};

}  // namespace escapement

#endif  // COMMON_SIGNING_WEBHOOK_SIGNER_H_
