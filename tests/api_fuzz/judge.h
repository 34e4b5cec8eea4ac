// Rules for every answer, whatever the request was. Each function says what is wrong, or returns
// "".
//
// Pure.

#ifndef TESTS_API_FUZZ_JUDGE_H_
#define TESTS_API_FUZZ_JUDGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <string>

namespace escapement::api_fuzz {

// A client must be able to act on an error. It may not be INTERNAL, UNKNOWN, DATA_LOSS,
// UNIMPLEMENTED or DEADLINE_EXCEEDED. It has an ErrorInfo and plain texts; INVALID_ARGUMENT also
// names the fields.
std::string JudgeStatus(const grpc::Status& status);

// No string in an answer may have control characters. Errors inside an answer follow JudgeStatus.
std::string JudgeTexts(const google::protobuf::Message& answer);

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_JUDGE_H_
