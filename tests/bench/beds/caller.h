// Caller: how the client of a benchmark calls a platform: by plaintext and without credentials, or
// over TLS and with an API key.
//
// Threads: any.

#ifndef TESTS_BENCH_BEDS_CALLER_H_
#define TESTS_BENCH_BEDS_CALLER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/tls/server_tls.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace escapement::bench {

struct Caller {
  std::optional<PeerTls> tls = std::nullopt;  // nothing: plaintext
  std::string api_key = {};                   // empty: none
};

// A channel to the service at "host:port".
std::shared_ptr<grpc::Channel> NewChannelOf(const Caller& caller, const std::string& address);

// Adds the caller's API key, if it has one, to a call.
void AddCredentials(const Caller& caller, grpc::ClientContext& context);

// Waits until the master at `address` accepts the caller's credentials. A master stores the key of
// its bootstrap file within some seconds. UNAUTHENTICATED or UNAVAILABLE if it takes too long.
absl::Status AwaitAccepted(const Caller& caller, const std::string& address);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_CALLER_H_
