// What token managers and masters promise to consumers: TokenService without the wire.
//
// Threads: any; callbacks run on a thread of the implementation and are quick. Each runs once, with
// UNAVAILABLE if the effect is not known to be durable (the call may be repeated: it is
// idempotent).

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

  // INVALID_ARGUMENT for what the proto says is refused, with nothing done.
  virtual void CompleteTokens(const v1::CompleteTokensRequest& request,
                              Done<v1::CompleteTokensResponse> done) = 0;
  virtual void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                             Done<v1::ReleaseTokensResponse> done) = 0;
  virtual void ExtendTokens(const v1::ExtendTokensRequest& request,
                            Done<v1::ExtendTokensResponse> done) = 0;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_API_H_
