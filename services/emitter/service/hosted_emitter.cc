#include "services/emitter/service/hosted_emitter.h"

#include "absl/flags/flag.h"
#include "common/process/lease_flags.h"
#include "common/tzdata/database.h"

ABSL_FLAG(absl::Duration, emit_ahead, absl::Seconds(5),
          "how long before their due time events are written to the queue");

namespace escapement::emitter {
namespace {

EmitterService::Options OptionsFromFlags(const ServiceContext& context) {
  EmitterService::Options options;
  options.instance = context.instance;
  options.dead_instances = context.dead_instances;
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  options.ahead = absl::GetFlag(FLAGS_emit_ahead);
  options.tz_rev = tzdata::ThisMachine().revision;
  options.metrics = &context.metrics;
  return options;
}

}  // namespace

void ValidateEmitterFlags(std::vector<std::string>& errors) {
  const absl::Duration ahead = absl::GetFlag(FLAGS_emit_ahead);
  if (ahead < absl::Seconds(2) || ahead > absl::Minutes(5))
    errors.push_back("--emit_ahead: must be from 2s to 5m");
}

HostedEmitter::HostedEmitter(const ServiceContext& context, kv::KvStore& store)
    : service_(OptionsFromFlags(context), store, context.runtime) {}

absl::Status HostedEmitter::Start() {
  service_.Start();
  return absl::OkStatus();
}

}  // namespace escapement::emitter
