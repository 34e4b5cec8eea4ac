// MethodAccess: the right that a call needs, and where its requests name their tenant. For an RPC
// both come from the method's options in the proto.
//
// Threads: immutable.

#ifndef COMMON_RPC_METHOD_ACCESS_H_
#define COMMON_RPC_METHOD_ACCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "escapement/v1/access.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace escapement {

class MethodAccess {
 public:
  // FAILED_PRECONDITION if the method has no role (escapement.v1.access).
  static absl::StatusOr<MethodAccess> Of(const google::protobuf::MethodDescriptor& method);

  // A call of a door that is no RPC, such as the page's sign-in. Its requests name no resource.
  static MethodAccess OfDoor(std::string name, v1::Access access);

  const std::string& name() const { return name_; }  // "CreateSchedule"
  const v1::Access& access() const { return access_; }

  // The resource that the request names, by the first variable of the path in google.api.http:
  // "tenants/t/schedules/s". "" if the method has none.
  std::string ResourceOf(const google::protobuf::Message& request) const;

  // request_id of the request; "" if it has none.
  static std::string RequestIdOf(const google::protobuf::Message& request);

 private:
  std::string name_;
  v1::Access access_;
  std::vector<const google::protobuf::FieldDescriptor*> resource_path_;  // the last is a string
};

// The tenant's id in a resource name: "t" of "tenants/t/schedules/s"; "" for another form.
std::string TenantOf(const std::string& resource);

}  // namespace escapement

#endif  // COMMON_RPC_METHOD_ACCESS_H_
