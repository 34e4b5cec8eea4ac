#include "services/token_manager/service/hosted_token_manager.h"

#include <utility>

#include "common/process/sharded_service.h"

namespace escapement::token_manager {
namespace {

TokenManagerOptions OptionsFromFlags(const ServiceContext& context) {
  TokenManagerOptions options;
  options.instance = context.instance;
  options.dead_instances = context.dead_instances;
  options.metrics = &context.metrics;
  options.lease_ttl = LeaseTtl();
  options.lease_renew_every = LeaseRenewEvery();
  return options;
}

TokenDoor::Options DoorOptions(const ServiceContext& context, LocalGrants& grants) {
  TokenDoor::Options options;
  options.instance = context.instance;
  options.local = &grants;
  options.metrics = &context.metrics;
  return options;
}

}  // namespace

HostedTokenManager::HostedTokenManager(const ServiceContext& context, kv::KvStore& store)
    : service_(OptionsFromFlags(context), store, context.runtime),
      door_(DoorOptions(context, service_.grants()), store, context.runtime),
      gate_(context.instance, store, context.runtime, /*rules=*/nullptr) {}

absl::Status HostedTokenManager::Start() {
  service_.Start();
  door_.Start();
  gate_.Start();
  return absl::OkStatus();
}

void HostedTokenManager::Drain(Closure done) {
  door_.Drain([this, done = std::move(done)]() mutable { service_.Drain(std::move(done)); });
}

}  // namespace escapement::token_manager
