// What must hold of every answer, whatever the request was. Each function says what is wrong, or
// "".
//
// Pure.

#ifndef TESTS_API_FUZZ_JUDGE_H_
#define TESTS_API_FUZZ_JUDGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <string>

namespace escapement::api_fuzz {

// An error must be one that a client can act on: not INTERNAL, UNKNOWN, DATA_LOSS, UNIMPLEMENTED or
// out of time, with an ErrorInfo, for INVALID_ARGUMENT with its fields, and with plain texts only.
std::string JudgeStatus(const grpc::Status& status);

// All strings of an answer are free of control characters, and an error inside it is as of
// JudgeStatus.
std::string JudgeTexts(const google::protobuf::Message& answer);

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_JUDGE_H_
