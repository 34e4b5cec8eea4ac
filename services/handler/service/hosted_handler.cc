#include "services/handler/service/hosted_handler.h"

#include "absl/flags/flag.h"
#include "common/process/lease_flags.h"
#include "common/secrets/secret_keys_flag.h"
#include "common/tokens/token_handle.h"
#include "services/handler/delivery/address_flags.h"
#include "services/handler/delivery/kinds/transport_table.h"

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
  options.dead_instances = context.dead_instances;
  options.metrics = &context.metrics;
  options.fresh_token_key = FreshTokenKey();
  options.sealer = SealerFromFlag();
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  options.events_out_max = absl::GetFlag(FLAGS_events_out_max);
  options.retention = absl::GetFlag(FLAGS_retention);
  // The rest of the timeout is for releasing the leases, so that the next owner does not have to
  // wait until they expire.
  options.drain_max = context.drain_timeout * kDrainShare;
  return options;
}

}  // namespace

void ValidateHandlerFlags(std::vector<std::string>& errors) {
  ValidateTransportFlags(errors);
  ValidateAddressFlags(errors);
  if (absl::GetFlag(FLAGS_events_out_max) < 1)
    errors.push_back("--events_out_max: must be at least 1");
  if (absl::GetFlag(FLAGS_retention) < absl::Hours(24))
    errors.push_back("--retention: must be at least 24h");
}

HostedHandler::HostedHandler(const ServiceContext& context, kv::KvStore& store)
    : transport_(NewTransports(AddressRuleFromFlags(context.on_loopback))),
      service_(OptionsFromFlags(context), store, context.runtime, *transport_) {}

absl::Status HostedHandler::Start() {
  service_.Start();
  return absl::OkStatus();
}

}  // namespace escapement::handler
