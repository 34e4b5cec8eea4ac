#include "tests/doors/secured_standalone.h"

#include <poll.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/status/errors.h"
#include "escapement/v1/tenant_service.pb.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::doors {
namespace {

std::string KeyFile(const std::string& folder) { return folder + "/first.key"; }

std::vector<std::string> WithSecurity(std::vector<std::string> flags, const std::string& folder) {
  flags.push_back("--require_credentials");
  flags.push_back("--bootstrap_key_file=" + KeyFile(folder));
  return flags;
}

}  // namespace

SecuredStandalone::SecuredStandalone(const std::string& name, std::vector<std::string> flags)
    : folder_(integration::NewFolder(name)),
      platform_({.bin = integration::BuiltFolder(),
                 .folder = folder_,
                 .extra_arguments = {{"standalone", WithSecurity(std::move(flags), folder_)}}}) {
  const std::string key = absl::StrCat("esc_", kBootstrapKeyId, "_", std::string(64, '7'));
  std::ofstream(KeyFile(folder_)) << key << "\n";
  admin_ = "Bearer " + key;
}

absl::Status SecuredStandalone::Start() {
  RETURN_IF_ERROR(platform_.Start({"standalone"}));
  channel_ = NewChannel(platform_.grpc_address("standalone"));
  return AwaitAnswer(admin_, "");
}

fixtures::RawAnswer SecuredStandalone::Grpc(const std::string& path,
                                            const std::vector<std::string>& messages,
                                            const std::string& authorization) {
  fixtures::RawCallOptions options;
  if (!authorization.empty()) options.metadata.emplace_back("authorization", authorization);
  return fixtures::RawCall(channel_, path, messages, std::move(options));
}

integration::HttpAnswer SecuredStandalone::Http(integration::HttpCall call,
                                                const std::string& authorization) {
  if (!authorization.empty()) call.headers.emplace_back("Authorization", authorization);
  auto answer = integration::HttpSend(platform_.http_address("standalone"), call);
  return answer.ok() ? *std::move(answer)
                     : integration::HttpAnswer{.body = answer.status().ToString()};
}

v1::ApiKey SecuredStandalone::NewKey(const std::string& parent, v1::Access::Role role) {
  v1::CreateKeyRequest request;
  request.set_parent(parent);
  request.mutable_key()->set_role(role);
  const auto key = Call<v1::ApiKey>("CreateKey", request);
  CHECK(key.ok()) << key.status();
  return *key;
}

absl::Status SecuredStandalone::AwaitAnswer(const std::string& authorization,
                                            const std::string& reason) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  absl::Status last;
  do {
    last = Call<v1::ListTenantsResponse>("ListTenants", v1::ListTenantsRequest(), authorization)
               .status();
    if (reason.empty() ? last.ok() : ErrorReason(last) == reason) return absl::OkStatus();
    poll(nullptr, 0, 20);  // before the next try
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(absl::StrCat("still answered ", last.ToString()));
}

const rest::RestRoute* SecuredStandalone::RouteOf(const std::string& method) {
  for (const rest::RestRoute& route : fixtures::PublicRoutes().routes()) {
    if (route.method->name() == method) return &route;
  }
  for (const rest::RestRoute& route : fixtures::PublicRoutes().line_routes()) {
    if (route.method->name() == method) return &route;
  }
  return nullptr;
}

std::unique_ptr<google::protobuf::Message> SecuredStandalone::NewMessage(
    const google::protobuf::Descriptor* type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

}  // namespace escapement::doors
