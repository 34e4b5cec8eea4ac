#include "tests/integration/secured_platform.h"

#include <poll.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/tls/testing/tls_client.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::integration {
namespace {

// Every service has this one; it needs no more than an operator.
constexpr char kCheap[] = "/escapement.v1.TokenService/ReleaseTokens";
constexpr char kOneForgedToken[] =
    "\x0a\x06"
    "forged";  // ReleaseTokensRequest.tokens

}  // namespace

SecuredPlatform::SecuredPlatform(const std::string& name) : folder_(NewFolder(name)) {
  const std::string ca = folder_ + "/ca.pem";
  testing::WriteFile(ca, ca_.pem());
  testing::WriteFile(folder_ + "/client_ca.pem", client_ca_.pem());
  const auto service = testing::WriteIdentity(
      ca_.Issue(10, "DNS:escapement-service,DNS:localhost,IP:127.0.0.1"), folder_, "tls");
  const auto client =
      testing::WriteIdentity(client_ca_.Issue(20, "DNS:operator"), folder_, "client");
  const auto impostor =
      testing::WriteIdentity(client_ca_.Issue(21, "DNS:escapement-service"), folder_, "impostor");
  nobody_ = {.ca = ca};
  operator_ = {.ca = ca, .cert = client.cert, .key = client.key};
  impostor_ = {.ca = ca, .cert = impostor.cert, .key = impostor.key};
  service_ = {.ca = ca, .cert = service.cert, .key = service.key};
  const std::string key = absl::StrCat("esc_0123456789abcdef_", std::string(64, '7'));
  testing::WriteFile(folder_ + "/first.key", key);
  admin_ = "Bearer " + key;
  const std::vector<std::string> flags = {
      "--tls_cert=" + service.cert,
      "--tls_key=" + service.key,
      "--tls_client_ca=" + folder_ + "/client_ca.pem",
      "--tls_service_ca=" + ca,
      "--peer_ca=" + ca,
      "--require_credentials",
      "--certificate_roles=DNS:escapement-service=service,DNS:operator=operator"};
  std::vector<std::string> of_master = flags;
  of_master.push_back("--bootstrap_key_file=" + folder_ + "/first.key");
  platform_ =
      std::make_unique<Platform>(Platform::Options{.bin = BuiltFolder(),
                                                   .folder = folder_,
                                                   .extra_arguments = {{"store", flags},
                                                                       {"master", of_master},
                                                                       {"token_manager", flags},
                                                                       {"emitter", flags},
                                                                       {"handler", flags}},
                                                   .tls = nobody_});
}

absl::Status SecuredPlatform::Start(const std::vector<std::string>& services) {
  RETURN_IF_ERROR(platform_->Start(services));
  return AwaitCode("master", admin_, grpc::StatusCode::OK);
}

std::shared_ptr<grpc::Channel> SecuredPlatform::Channel(const std::string& service,
                                                        const PeerTls& tls) const {
  std::shared_ptr<grpc::Channel>& channel = channels_[{service, tls.cert}];
  if (channel == nullptr) {
    ChannelOptions options;
    options.tls = tls;
    channel = NewChannel(platform_->grpc_address(service), options);
  }
  return channel;
}

fixtures::RawAnswer SecuredPlatform::Grpc(const std::string& service, const std::string& method,
                                          const std::string& message, const PeerTls& tls,
                                          const Headers& headers) const {
  fixtures::RawCallOptions options;
  options.timeout = absl::Seconds(20);
  options.metadata = headers;
  return fixtures::RawCall(Channel(service, tls), method, {message}, std::move(options));
}

std::string SecuredPlatform::Https(const std::string& service, const std::string& verb,
                                   const std::string& path, const std::string& body,
                                   const PeerTls& tls, const Headers& headers) const {
  const std::string& address = platform_->http_address(service);
  int port = 0;
  CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  auto client = testing::TlsClient::Connect(port, tls);
  CHECK(client.ok()) << client.status();
  std::string request = absl::StrCat(verb, " ", path, " HTTP/1.1\r\nHost: ", address,
                                     "\r\nConnection: close\r\nContent-Length: ", body.size());
  for (const auto& [name, value] : headers) absl::StrAppend(&request, "\r\n", name, ": ", value);
  (*client)->Write(absl::StrCat(request, "\r\n\r\n", body));
  return (*client)->ReadToEnd();
}

v1::ApiKey SecuredPlatform::NewKey(const std::string& parent, v1::Access::Role role) const {
  v1::CreateKeyRequest request;
  request.set_parent(parent);
  request.mutable_key()->set_role(role);
  const auto key = Call<v1::ApiKey>("KeyService/CreateKey", request);
  CHECK(key.ok()) << key.status();
  return *key;
}

absl::Status SecuredPlatform::AwaitCode(const std::string& service,
                                        const std::string& authorization,
                                        grpc::StatusCode code) const {
  const auto channel = Channel(service, nobody_);
  fixtures::RawCallOptions options;
  options.metadata = {{"authorization", authorization}};
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  grpc::Status last;
  do {
    last = fixtures::RawCall(channel, kCheap, {kOneForgedToken}, options).status;
    if (last.error_code() == code) return absl::OkStatus();
    poll(nullptr, 0, 10);  // before the next try
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(
      absl::StrCat(service, " still answers ", last.error_code(), ": ", last.error_message()));
}

}  // namespace escapement::integration
