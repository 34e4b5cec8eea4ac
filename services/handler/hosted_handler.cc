#include "services/handler/hosted_handler.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "common/service/lease_flags.h"
#include "common/tokens/token_handle.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/target_transport.h"
#include "services/handler/handler_service.h"
#include "services/handler/metrics.h"

ABSL_FLAG(int, http_connections_per_target, 64,
          "concurrent HTTP requests to one origin (scheme://host:port)");
ABSL_FLAG(int, http_threads, 1,
          "threads that drive the HTTP connections; use more for many https targets; 0: one for "
          "each core, at most 4");
ABSL_FLAG(uint64_t, events_out_max, 16'384,
          "events that one handler has claimed and that are not answered");
ABSL_FLAG(absl::Duration, retention, absl::Hours(24 * 7),
          "how long records of ended events are kept");

namespace escapement::handler {
namespace {

constexpr double kDrainShare = 0.8;

HandlerOptions OptionsFromFlags(const ServiceContext& context) {
  HandlerOptions options;
  options.instance = context.instance;
  options.metrics = &context.metrics;
  options.fresh_token_key = FreshTokenKey();
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  options.events_out_max = absl::GetFlag(FLAGS_events_out_max);
  options.retention = absl::GetFlag(FLAGS_retention);
  // What is left of the timeout is for releasing the leases, so that the next owner need not wait
  // for them to run out.
  options.drain_max = context.drain_timeout * kDrainShare;
  return options;
}

HttpTransport::Options HttpOptionsFromFlags() {
  HttpTransport::Options options;
  options.threads = absl::GetFlag(FLAGS_http_threads);
  if (options.threads == 0)
    options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  options.in_flight_per_origin_max = absl::GetFlag(FLAGS_http_connections_per_target);
  return options;
}

}  // namespace

void ValidateHandlerFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_http_connections_per_target) < 1 ||
      absl::GetFlag(FLAGS_http_connections_per_target) > 1024) {
    errors.push_back("--http_connections_per_target: must be from 1 to 1024");
  }
  if (absl::GetFlag(FLAGS_http_threads) < 0 || absl::GetFlag(FLAGS_http_threads) > 64)
    errors.push_back("--http_threads: must be from 0 to 64");
  if (absl::GetFlag(FLAGS_events_out_max) < 1)
    errors.push_back("--events_out_max: must be at least 1");
  if (absl::GetFlag(FLAGS_retention) < absl::Hours(24))
    errors.push_back("--retention: must be at least 24h");
}

struct HostedHandler::Parts {
  Parts(const ServiceContext& context, kv::KvStore& store)
      : transport(std::make_unique<HttpTransport>(HttpOptionsFromFlags()),
                  std::make_unique<GrpcTransport>(GrpcTransport::Options{})),
        service(OptionsFromFlags(context), store, context.runtime, transport) {}

  TargetTransport transport;
  HandlerService service;
};

HostedHandler::HostedHandler(const ServiceContext& context, kv::KvStore& store)
    : parts_(std::make_unique<Parts>(context, store)) {}
HostedHandler::~HostedHandler() = default;

std::vector<grpc::Service*> HostedHandler::GrpcServices() { return {}; }

absl::Status HostedHandler::Start() {
  parts_->service.Start();
  return absl::OkStatus();
}

bool HostedHandler::Ready() { return parts_->service.Ready(); }
void HostedHandler::Drain(Closure done) { parts_->service.Drain(std::move(done)); }

}  // namespace escapement::handler
