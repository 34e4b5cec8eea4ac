// TokenApi: TokenService without the wire, as token managers and masters offer it to consumers.
//
// Threads: any. Callbacks run on a thread of the implementation and must be quick. Each runs once.
// UNAVAILABLE means that the effect may not be durable: the call may be repeated, because it is
// idempotent.

#ifndef COMMON_TOKENS_TOKEN_API_H_
#define COMMON_TOKENS_TOKEN_API_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement {

class TokenApi {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Response>>)>;

  virtual ~TokenApi() = default;

  // INVALID_ARGUMENT if the request breaks the contract in the proto; then nothing is done.
  virtual void CompleteTokens(const v1::CompleteTokensRequest& request,
                              Done<v1::CompleteTokensResponse> done) = 0;
  virtual void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                             Done<v1::ReleaseTokensResponse> done) = 0;
  virtual void ExtendTokens(const v1::ExtendTokensRequest& request,
                            Done<v1::ExtendTokensResponse> done) = 0;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_API_H_
