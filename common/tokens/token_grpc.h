// TokenService over gRPC: unary calls and the stream.
//
// On the stream, each message is handled as soon as it is read, and answers come in the order of
// the messages. A batch that is refused or fails ends the stream with its status, after the answers
// of earlier batches. The effect of this batch and of later ones is then unknown. The consumer may
// safely give those tokens back again.

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
  // `tokens` must outlive it.
  explicit TokenGrpc(TokenApi& tokens);
  ~TokenGrpc();

  grpc::Service* service() const { return service_.get(); }

 private:
  const std::unique_ptr<grpc::Service> service_;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_GRPC_H_
