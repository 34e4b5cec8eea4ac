// TokenService over gRPC: unary calls and the stream.
//
// The stream: each message is taken as soon as it is read, and answered in the order of the
// messages. A batch that is refused or fails ends the stream with its status, after the answers of
// the batches before it: what was done of it and of those behind it is unknown, and giving the
// tokens back again is safe.

#ifndef COMMON_TOKENS_TOKEN_GRPC_H_
#define COMMON_TOKENS_TOKEN_GRPC_H_

#include <memory>

#include "common/tokens/token_api.h"

namespace grpc {
class Service;
}

namespace escapement {

class TokenGrpc {
 public:
  // `tokens` outlives it.
  explicit TokenGrpc(TokenApi& tokens);
  ~TokenGrpc();

  grpc::Service* service() const { return service_.get(); }

 private:
  const std::unique_ptr<grpc::Service> service_;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_GRPC_H_
