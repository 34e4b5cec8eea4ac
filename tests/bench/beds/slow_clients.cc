#include "tests/bench/beds/slow_clients.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/beds/slow_http_clients.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kConnectMax = absl::Seconds(60);

absl::Status Enough(const std::string& kind, int open, int wanted) {
  if (open >= wanted - wanted / 10) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("only ", open, " of ", wanted, " ", kind, " connections are open"));
}

}  // namespace

SlowClients::SlowClients(const Options& options) : options_(options) {}
SlowClients::~SlowClients() = default;

absl::StatusOr<std::unique_ptr<SlowClients>> SlowClients::Start(const Options& options) {
  std::unique_ptr<SlowClients> clients(new SlowClients(options));
  if (absl::Status status = clients->Connect(); !status.ok()) return status;
  return clients;
}

absl::Status SlowClients::Connect() {
  const auto deadline = absl::ToChronoTime(absl::Now() + kConnectMax);
  for (int i = 0; i < options_.grpc_connections; ++i) {
    channels_.push_back(NewChannel(options_.grpc));
    // One after the other, so that no attempt waits longer than it may.
    if (!channels_.back()->WaitForConnected(deadline))
      return absl::DeadlineExceededError(absl::StrCat("gRPC connection ", i, " was not opened"));
  }
  auto http = SlowHttpClients::Start(options_.http, options_.http_clients);
  if (!http.ok()) return http.status();
  http_ = *std::move(http);
  return absl::OkStatus();
}

absl::Status SlowClients::CheckConnected() const {
  const auto ready = std::count_if(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel->GetState(false) == GRPC_CHANNEL_READY;
  });
  if (absl::Status status = Enough("gRPC", static_cast<int>(ready), options_.grpc_connections);
      !status.ok())
    return status;
  return Enough("HTTP", http_->open(), options_.http_clients);
}

uint64_t SlowClients::http_connects() const { return http_->connects(); }

absl::Status AllowOpenFiles(uint64_t files) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= files) return absl::OkStatus();
  limit.rlim_cur = files;
  limit.rlim_max = std::max<rlim_t>(limit.rlim_max, files);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this needs ", files, " open files; raise the limit with ulimit -Hn"));
}

}  // namespace escapement::bench
