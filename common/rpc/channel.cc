#include "common/rpc/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/rpc/host_port.h"
#include "common/tls/credentials_grpc.h"
#include "grpcpp/grpcpp.h"

namespace escapement {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& target,
                                          const ChannelOptions& options) {
  const auto millis = [](absl::Duration d) {
    return static_cast<int>(absl::ToInt64Milliseconds(d));
  };
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.receive_bytes_max));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, millis(options.reconnect_min));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, millis(options.reconnect_max));
  // Despite its name, this limits how long an attempt to connect may last.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, millis(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, millis(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Connections between services ignore a proxy in the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.authority.empty()) {
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, options.authority);
    const auto host = ParseHostPort(options.authority);
    arguments.SetSslTargetNameOverride(host.ok() ? host->host : options.authority);
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = options.credentials;
  if (credentials == nullptr) {
    credentials = options.tls.has_value() ? NewChannelCredentials(*options.tls)
                                          : grpc::InsecureChannelCredentials();
  }
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

namespace {

constexpr int kLinesPerSecond = 10;

// Decides which lines are written.
class Budget {
 public:
  // True if a line may be written; then `left_out` is the number of lines before it that were not.
  bool Take(int* left_out) {
    const absl::Duration now =
        absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
    absl::MutexLock lock(&mutex_);
    if (now - second_began_ >= absl::Seconds(1)) {
      second_began_ = now;
      written_ = 0;
    }
    if (written_ == kLinesPerSecond) {
      ++left_out_;
      return false;
    }
    ++written_;
    *left_out = left_out_;
    left_out_ = 0;
    return true;
  }

 private:
  absl::Mutex mutex_;
  absl::Duration second_began_ ABSL_GUARDED_BY(mutex_);
  int written_ ABSL_GUARDED_BY(mutex_) = 0;
  int left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

void WriteLine(gpr_log_func_args* line) {
  static Budget* const budget = new Budget;  // gRPC's threads may outlive everything
  int left_out = 0;
  if (!budget->Take(&left_out)) return;
  Log(line->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug, "grpc",
      "gRPC says",
      {{"line", line->message},
       {"at", absl::StrCat(line->file, ":", line->line)},
       {"left_out_before", left_out}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace escapement
