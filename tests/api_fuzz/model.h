// Model: the state that the platform has acknowledged, as far as a client can know it.
//
// Threads: one at a time.

#ifndef TESTS_API_FUZZ_MODEL_H_
#define TESTS_API_FUZZ_MODEL_H_

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::api_fuzz {

// The value of a string field, or "" if the message has no such field.
std::string StringOf(const google::protobuf::Message& message, const std::string& field);

// Says how `read` contradicts `acknowledged`, or returns "". It compares only fields that the
// platform does not change: all of a policy, the definition of a schedule, an event until it has
// ended, and the name of other resources.
std::string Difference(const google::protobuf::Message& acknowledged,
                       const google::protobuf::Message& read);

class Model {
 public:
  void Exists(std::unique_ptr<google::protobuf::Message> resource);
  // The resource exists; its fields are unknown.
  void ExistsByName(const std::string& name);
  void Deleted(const std::string& name);
  // The resource may exist or not.
  void Forget(const std::string& name);

  bool Knows(const std::string& name) const { return known_.contains(name); }
  bool IsGone(const std::string& name) const { return gone_.contains(name); }
  // nullptr if the resource is unknown, or known only by name.
  const google::protobuf::Message* Find(const std::string& name) const;
  // Sorted names that match a pattern such as "tenants/*/policies/*", or all names.
  std::vector<std::string> Names(absl::string_view pattern = "") const;
  const std::set<std::string>& gone() const { return gone_; }

  // Keeps handles from answers: tokens, page tokens, request ids.
  void KeepHandles(const google::protobuf::Message& answer);
  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::string>& page_tokens() const { return page_tokens_; }

 private:
  std::map<std::string, std::unique_ptr<google::protobuf::Message>> known_;
  std::set<std::string> gone_;
  std::vector<std::string> tokens_;
  std::vector<std::string> page_tokens_;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_MODEL_H_
