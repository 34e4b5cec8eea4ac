#include "services/handler/delivery/grpc/target_channel.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/net/name_resolver.h"
#include "common/rpc/channel.h"
#include "escapement/storage/v1/records.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::handler {
namespace {

// Consumers close the connection if pings come more often than gRPC's default limit of 5 minutes.
// TCP's user timeout, which is keepalive_timeout, detects a dead peer.
ChannelOptions ConsumerChannel(const GrpcTransport::Options& options) {
  ChannelOptions channel;
  channel.receive_bytes_max = 4 << 20;
  channel.reconnect_min = options.reconnect_min;
  channel.reconnect_max = options.reconnect_max;
  channel.connect_timeout = options.connect_timeout;
  channel.keepalive = absl::Minutes(6);
  channel.keepalive_timeout = absl::Seconds(20);
  return channel;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const storage::v1::GrpcTargetRecord& target) {
  if (!target.has_tls()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = target.tls().ca_certificates();
  options.pem_cert_chain = target.tls().client_certificate();
  options.pem_private_key = target.tls().client_key();
  return grpc::SslCredentials(options);
}

absl::StatusOr<HostPort> PlaceOf(absl::string_view uri) {
  for (const absl::string_view scheme : {"dns:///", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&uri, scheme)) break;
  }
  return ParseHostPort(uri);
}

// "ipv4:127.0.0.1:1,127.0.0.2:1".
std::string ChannelTarget(const std::vector<std::string>& addresses, uint16_t port) {
  const bool six = absl::StrContains(addresses.front(), ":");
  std::string target;
  for (const std::string& address : addresses) {
    if (absl::StrContains(address, ":") != six) continue;
    absl::StrAppend(&target, target.empty() ? (six ? "ipv6:" : "ipv4:") : ",",
                    HostPort{address, port}.ToString());
  }
  return target;
}

}  // namespace

TargetChannel::TargetChannel(const GrpcTransport::Options& options,
                             const storage::v1::GrpcTargetRecord& target)
    : options_(options), credentials_(CredentialsOf(target)), place_(PlaceOf(target.uri())) {}

bool TargetChannel::has_address() const {
  return place_.ok() && NameResolver::IsAddress(place_->host);
}

std::shared_ptr<grpc::Channel> TargetChannel::Open(
    const std::vector<std::string>& addresses) const {
  ChannelOptions channel = ConsumerChannel(options_);
  channel.credentials = credentials_;
  channel.authority = place_->ToString();
  return NewChannel(ChannelTarget(addresses, place_->port), channel);
}

}  // namespace escapement::handler
