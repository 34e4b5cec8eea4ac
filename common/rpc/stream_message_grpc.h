// Reads and writes the messages of a raw stream, whose reactor gets bytes instead of messages.
//
// gRPC tells a reactor of messages only that a read has failed, but not why: a message that cannot
// be parsed looks like the end of the stream. A reactor of bytes can tell the two apart.
//
// Threads: pure functions.

#ifndef COMMON_RPC_STREAM_MESSAGE_GRPC_H_
#define COMMON_RPC_STREAM_MESSAGE_GRPC_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "absl/status/status.h"
#include "common/rpc/unreadable_message.h"

namespace escapement {

// Parses `bytes` into `message` and empties `bytes`. UnreadableMessage if it cannot be parsed.
template <typename Message>
absl::Status ReadMessage(grpc::ByteBuffer& bytes, Message* message) {
  const grpc::Status read = grpc::SerializationTraits<Message>::Deserialize(&bytes, message);
  return read.ok() ? absl::OkStatus() : UnreadableMessage();
}

// Replaces the content of `bytes`.
template <typename Message>
void WriteMessage(const Message& message, grpc::ByteBuffer* bytes) {
  bool own_buffer = false;
  bytes->Clear();
  grpc::SerializationTraits<Message>::Serialize(message, bytes, &own_buffer);
}

}  // namespace escapement

#endif  // COMMON_RPC_STREAM_MESSAGE_GRPC_H_
