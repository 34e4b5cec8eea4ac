// WireApi: the public methods of a server, found by gRPC reflection, and calls of them by bytes. It
// knows no method or message of the API, so it finds a new RPC without a change.
//
// Threads: one at a time.

#ifndef TESTS_API_FUZZ_WIRE_API_H_
#define TESTS_API_FUZZ_WIRE_API_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::api_fuzz {

struct Method {
  std::string path;  // "/escapement.v1.RunService/GetRun"
  const google::protobuf::MethodDescriptor* descriptor = nullptr;
  // From the method's google.api.http rule: the field with the resource's name, and the form of
  // that name. For example "schedule.name" and "tenants/*/schedules/*". Empty if the method has
  // none.
  std::string name_field;
  std::string pattern;

  bool streams() const { return descriptor->client_streaming(); }
  const std::string& name() const { return descriptor->name(); }
};

// "tenants/a/schedules/b" matches "tenants/*/schedules/*".
bool Matches(absl::string_view name, absl::string_view pattern);

class WireApi {
 public:
  // May change an answer before anything reads it; for tests of the judges.
  using Spoil = std::function<void(const Method& method, fixtures::RawAnswer& answer)>;

  // Finds the services of `package` on the server at `address`.
  static absl::StatusOr<std::unique_ptr<WireApi>> Connect(const std::string& address,
                                                          const std::string& package);

  const std::vector<Method>& methods() const { return methods_; }
  // The Get method for resources with such names; nullptr if there is none.
  const Method* GetterOf(absl::string_view name) const;
  std::unique_ptr<google::protobuf::Message> New(const google::protobuf::Descriptor* type);

  void set_spoil(Spoil spoil) { spoil_ = std::move(spoil); }
  fixtures::RawAnswer Call(const Method& method, const std::vector<std::string>& messages,
                           fixtures::RawCallOptions options = {});

 private:
  WireApi() : pool_(&database_), factory_(&pool_) {}

  std::shared_ptr<grpc::Channel> channel_;
  google::protobuf::SimpleDescriptorDatabase database_;
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
  std::vector<Method> methods_;
  Spoil spoil_;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_WIRE_API_H_
