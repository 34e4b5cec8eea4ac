// TokenService over gRPC: unary calls and the stream.
//
// On the stream, each message is handled as soon as it is read, and answers come in the order of
// the messages. A batch that is refused or fails ends the stream with its status, after the answers
// of earlier batches. The effect of this batch and of later ones is then unknown. The consumer may
// safely give those tokens back again.
//
// An override on the stream passes the gate as a call of PolicyService.OverridePolicy: with its
// role and its audit, and with the rules of the policy's tenant.

#ifndef COMMON_TOKENS_TOKEN_GRPC_H_
#define COMMON_TOKENS_TOKEN_GRPC_H_

#include "common/tokens/token_door.h"

namespace escapement {

class RpcTable;

// Adds TokenService to `table`. `tokens` outlives the server.
void AddTokenRpcs(TokenApi& tokens, RpcTable& table);

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_GRPC_H_
