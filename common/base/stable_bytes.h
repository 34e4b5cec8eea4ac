// Bytes of protobuf messages that can be compared and hashed. A pure function.

#ifndef COMMON_BASE_STABLE_BYTES_H_
#define COMMON_BASE_STABLE_BYTES_H_

#include <string>

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace escapement {

// Serializes so that equal messages have equal bytes.
std::string SerializeDeterministically(const google::protobuf::MessageLite& message);

}  // namespace escapement

#endif  // COMMON_BASE_STABLE_BYTES_H_
