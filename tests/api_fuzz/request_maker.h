// RequestMaker: random requests for any method. Most are nearly right, so that they pass the first
// checks. Some are hostile throughout.
//
// Threads: one at a time.

#ifndef TESTS_API_FUZZ_REQUEST_MAKER_H_
#define TESTS_API_FUZZ_REQUEST_MAKER_H_

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/api_fuzz/hostile_values.h"
#include "tests/api_fuzz/model.h"
#include "tests/api_fuzz/wire_api.h"

namespace escapement::api_fuzz {

class RequestMaker {
 public:
  RequestMaker(WireApi& api, const Model& model, HostileValues& values)
      : api_(api), model_(model), values_(values) {}

  std::unique_ptr<google::protobuf::Message> Make(const Method& method);

 private:
  void Fill(google::protobuf::Message* message, const std::string& path, int depth);
  // Percent of messages that set this field.
  uint64_t ChanceOf(const google::protobuf::FieldDescriptor& field, int depth);
  void Set(google::protobuf::Message* message, const google::protobuf::FieldDescriptor* field,
           const std::string& path, int depth);
  std::string Text(const google::protobuf::FieldDescriptor& field, const std::string& path);
  int TameEnum(const google::protobuf::EnumDescriptor& type);
  std::string Name(const std::string& pattern);
  void FillMask(const google::protobuf::Message& request, google::protobuf::Message* mask);
  bool Hostile() { return values_.Chance(hostility_); }

  WireApi& api_;
  const Model& model_;
  HostileValues& values_;
  // State of the request being made.
  const Method* method_ = nullptr;
  uint64_t hostility_ = 0;  // percent of its values that are hostile
  std::string name_;        // the resource that the request names
  std::vector<std::string> request_ids_;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_REQUEST_MAKER_H_
