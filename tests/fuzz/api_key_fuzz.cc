// Any bytes as an API key, and as the value of the header `authorization`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/auth/authenticator.h"
#include "common/auth/key_directory.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

// An authenticator over an empty store. It notes the tokens that it is asked to verify.
struct Bed {
  Bed() {
    executor->Post([this] { keys.Start(); });
    runtime.RunUntil([this] { return keys.loaded(); }, absl::Minutes(1));
  }

  sim::SimRuntime runtime{1};
  kv::MemKvStore store{runtime, kv::MemKvStore::Options()};
  std::shared_ptr<Executor> executor = runtime.NewExecutor("test");
  kv::KvClient client{store, runtime, kv::KvClient::Options()};
  auth::KeyDirectory keys{client, executor};
  std::optional<std::string> token;
  auth::Authenticator authenticator{
      {.required = true,
       .verify_token = [this](absl::string_view text) -> absl::StatusOr<Caller> {
         token = std::string(text);
         return MakeError(absl::StatusCode::kUnauthenticated, "CREDENTIAL_INVALID", "a token");
       }},
      keys,
      [this] { return client.NowLow(); }};
};

void CheckKey(absl::string_view input) {
  const auto parts = auth::ParseApiKey(input);
  if (!parts.has_value()) return;
  Require(parts->ToString() == input, "a key has one form", input);
  Require(parts->id.size() == 16 && parts->secret.size() == 64, "its parts have fixed sizes",
          input);
  const std::string hash = auth::HashApiKeySecret(parts->secret);
  Require(auth::ApiKeySecretMatches(parts->secret, hash), "a secret matches its hash", input);
  Require(!auth::ApiKeySecretMatches(parts->id, hash), "another one does not", input);
}

void CheckHeader(absl::string_view input) {
  static Bed* const bed = new Bed();
  bed->token.reset();
  const absl::Status status = bed->authenticator.Identify({.authorization = input}).status();
  const std::string reason = ErrorReason(status);
  Require(absl::IsUnauthenticated(status), "nobody comes in", input);
  Require((reason == "CREDENTIAL_MISSING") == input.empty(), "only a missing header is missing",
          input);
  Require(input.empty() || reason == "CREDENTIAL_MALFORMED" || reason == "CREDENTIAL_INVALID",
          "an error has one of two reasons", input);
  if (bed->token.has_value()) {
    Require(absl::StartsWithIgnoreCase(input, "bearer "), "a token follows Bearer", input);
    Require(!bed->token->empty() && absl::StrContains(input, *bed->token) &&
                !absl::StartsWith(*bed->token, auth::kApiKeyPrefix),
            "the token is part of the header, and not an API key", input);
  }
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  escapement::fuzz::CheckKey(input);
  escapement::fuzz::CheckHeader(input);
  escapement::fuzz::CheckHeader(absl::StrCat("Bearer ", input));
  return 0;
}
