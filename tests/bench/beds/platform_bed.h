// PlatformBed is the platform that a benchmark measures.
//
// Caller: how the client of a benchmark calls a platform: by plaintext and without credentials, or
// over TLS and with an API key.
//
// Threads: any.

#ifndef TESTS_BENCH_BEDS_PLATFORM_BED_H_
#define TESTS_BENCH_BEDS_PLATFORM_BED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"
#include "tests/bench/figures/machine.h"
#include "tests/integration/platform.h"

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

// Security: the files that make a platform of a benchmark secure: an authority, a certificate for
// all services, and the file of the first API key.
//
// Threads: immutable after construction.

class Security {
 public:
  // Writes the files to `folder`, which exists.
  explicit Security(const std::string& folder);

  // The flags of a service: TLS on its ports, mTLS with the store, required credentials.
  std::vector<std::string> FlagsOf(const std::string& service) const;
  // A client without a certificate, with the API key of an admin.
  const Caller& client() const { return client_; }

 private:
  std::vector<std::string> flags_;
  std::string key_file_;
  Caller client_;
};

// PlatformBed: the platform to be measured, as one standalone process or as at least five. It knows
// how much its processes use. It may use TLS on all ports and require credentials. It may have
// several cells; then "handler@1" is the handler of cell 1.
//
// Threads: none of its own; the main thread only (it starts processes).

class PlatformBed {
 public:
  struct Options {
    std::string bin;     // holds services/{service}/{service}
    std::string folder;  // made if missing; two beds may use it one after the other
    bool separate = false;
    int handlers = 1;  // only if separate
    int emitters = 1;
    int cells = 1;  // more than one only if separate and not secured
    // True: TLS on every port, mTLS between the services, and every call needs credentials.
    bool secured = false;
    std::map<std::string, std::vector<std::string>> extra_arguments = {};    // by service
    std::map<std::string, std::vector<std::string>> process_arguments = {};  // by process
  };
  explicit PlatformBed(const Options& options);

  // Starts all processes and returns when each is ready, and, if secured, when the master accepts
  // caller(). May be called again after Stop and KillAll.
  absl::Status Start();
  // Sends SIGTERM in reverse order. Returns an error unless each process exits with 0.
  absl::Status Stop();
  // Sends SIGKILL to all.
  void KillAll();

  // "standalone" or "separate".
  const std::string& mode() const { return mode_; }
  // Names of the processes: services, "handler.2"…
  const std::vector<std::string>& names() const { return names_; }
  // The address of a process that runs this service.
  const std::string& front(const std::string& service) const;
  // The HTTP address of the same process.
  const std::string& http_front(const std::string& service) const;
  // How clients call it.
  Caller caller() const { return security_.has_value() ? security_->client() : Caller(); }
  integration::Platform& platform() { return platform_; }
  const std::string& folder() const { return options_.folder; }
  std::string data_folder() const { return options_.folder + "/data"; }

  // Sum of a metric over the processes of the service, with all labels and without histogram
  // buckets.
  absl::StatusOr<double> Metric(const std::string& service, const std::string& name) const;
  // The same for one process.
  absl::StatusOr<double> MetricOf(const std::string& process, const std::string& name) const;
  // Processor time of all processes since their start.
  double CpuSeconds() const;
  double CpuSeconds(const std::string& name) const;
  uint64_t ResidentBytes() const;
  uint64_t ResidentBytes(const std::string& name) const;

  // Waits until all processes together have used less than `share` of a core for a second. Then
  // their background work (compaction…) is over.
  absl::Status AwaitIdle(double share = kQuietShare, absl::Duration timeout = kQuietMax) const;

 private:
  // The page that the HTTP port of a process answers.
  absl::StatusOr<std::string> Page(const std::string& process, const std::string& path) const;

  const Options options_;
  const std::string mode_;
  std::vector<std::string> names_;
  const std::optional<Security> security_;  // nothing: plaintext
  integration::Platform platform_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_PLATFORM_BED_H_
