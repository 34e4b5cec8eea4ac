// SecuredPlatform: all services as processes that require credentials and speak TLS, over one
// store.
//
// The certificate of a service has the role SERVICE; that of the client, DNS:operator, the role
// OPERATOR. An API key of tenants/- in a file is the first admin's.
//
// Threads: the main thread only (integration/platform.h).

#ifndef TESTS_INTEGRATION_SECURED_PLATFORM_H_
#define TESTS_INTEGRATION_SECURED_PLATFORM_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/status_conversion.h"
#include "common/tls/testing/test_certificates.h"
#include "common/tls/tls_files.h"
#include "escapement/v1/key_service.pb.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/platform.h"

namespace escapement::integration {

class SecuredPlatform {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `name` is that of a new folder.
  explicit SecuredPlatform(const std::string& name);

  // Starts the services in this order and waits until a master accepts admin().
  absl::Status Start(const std::vector<std::string>& services);
  Platform& platform() { return *platform_; }
  const std::string& folder() const { return folder_; }

  // Clients without a certificate, with the operator's, with the services', and with one that has
  // the name of the services but is from the authority of the clients.
  const PeerTls& nobody() const { return nobody_; }
  const PeerTls& operator_tls() const { return operator_; }
  const PeerTls& service_tls() const { return service_; }
  const PeerTls& impostor_tls() const { return impostor_; }
  // Values of authorization headers.
  const std::string& admin() const { return admin_; }
  static std::string Bearer(const v1::ApiKey& key) { return "Bearer " + key.secret(); }

  std::shared_ptr<grpc::Channel> Channel(const std::string& service, const PeerTls& tls) const;
  // `method` is "/package.Service/Method".
  fixtures::RawAnswer Grpc(const std::string& service, const std::string& method,
                           const std::string& message, const PeerTls& tls,
                           const Headers& headers) const;
  // The whole HTTPS answer, with its head.
  std::string Https(const std::string& service, const std::string& verb, const std::string& path,
                    const std::string& body, const PeerTls& tls, const Headers& headers) const;

  // A call of the first master as the admin. `method` is "KeyService/CreateKey".
  template <typename Response>
  absl::StatusOr<Response> Call(const std::string& method,
                                const google::protobuf::Message& request) const {
    const fixtures::RawAnswer answer =
        Grpc("master", "/escapement.v1." + method, request.SerializeAsString(), nobody_,
             {{"authorization", admin_}});
    if (!answer.status.ok()) return FromGrpcStatus(answer.status);
    Response response;
    if (answer.messages.size() != 1 || !response.ParseFromString(answer.messages[0]))
      return absl::InternalError("the answer cannot be read");
    return response;
  }
  v1::ApiKey NewKey(const std::string& parent, v1::Access::Role role) const;
  // Waits until this service answers a call with this credential with this code. At most 5 s.
  absl::Status AwaitCode(const std::string& service, const std::string& authorization,
                         grpc::StatusCode code) const;

 private:
  const testing::TestCa ca_;         // issues to the services
  const testing::TestCa client_ca_;  // issues to the operator, and to an impostor
  const std::string folder_;
  PeerTls nobody_, operator_, service_, impostor_;
  std::string admin_;
  std::unique_ptr<Platform> platform_;
  // By service and certificate.
  mutable std::map<std::pair<std::string, std::string>, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_SECURED_PLATFORM_H_
