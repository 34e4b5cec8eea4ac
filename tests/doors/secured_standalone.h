// SecuredStandalone: a standalone process that requires credentials, and calls of it through both
// doors.
//
// Threads: the main thread only (integration/platform.h).

#ifndef TESTS_DOORS_SECURED_STANDALONE_H_
#define TESTS_DOORS_SECURED_STANDALONE_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rest/route_table.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/key_service.pb.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::doors {

// The id of the bootstrap key, tenants/-/keys/{id}.
inline constexpr char kBootstrapKeyId[] = "0123456789abcdef";

class SecuredStandalone {
 public:
  // `name` is that of a new folder.
  explicit SecuredStandalone(const std::string& name, std::vector<std::string> flags = {});

  // Waits until the bootstrap key is accepted.
  absl::Status Start();
  integration::Platform& platform() { return platform_; }
  const std::string& folder() const { return folder_; }

  // An authorization header's value: of the bootstrap key, an admin of all tenants.
  const std::string& admin() const { return admin_; }

  // `authorization` may be "": no header.
  fixtures::RawAnswer Grpc(const std::string& path, const std::vector<std::string>& messages,
                           const std::string& authorization);
  integration::HttpAnswer Http(integration::HttpCall call, const std::string& authorization);

  // A unary gRPC call. `authorization` defaults to admin().
  template <typename Response>
  absl::StatusOr<Response> Call(const std::string& method, const google::protobuf::Message& request,
                                const std::string& authorization = "admin") {
    const rest::RestRoute* route = RouteOf(method);
    const fixtures::RawAnswer answer = Grpc(route->grpc_path, {request.SerializeAsString()},
                                            authorization == "admin" ? admin_ : authorization);
    if (!answer.status.ok()) return FromGrpcStatus(answer.status);
    Response response;
    if (answer.messages.size() != 1 || !response.ParseFromString(answer.messages[0]))
      return absl::InternalError("the answer cannot be read");
    return response;
  }

  // Creates a key of `parent`.
  v1::ApiKey NewKey(const std::string& parent, v1::Access::Role role);
  // Waits until a call with this credential has the code and reason; "" is OK. At most 10 s.
  absl::Status AwaitAnswer(const std::string& authorization, const std::string& reason);

  // The route of a unary RPC or of Ingest; null: none.
  static const rest::RestRoute* RouteOf(const std::string& method);
  static std::unique_ptr<google::protobuf::Message> NewMessage(
      const google::protobuf::Descriptor* type);

 private:
  const std::string folder_;
  integration::Platform platform_;
  std::string admin_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace escapement::doors

#endif  // TESTS_DOORS_SECURED_STANDALONE_H_
