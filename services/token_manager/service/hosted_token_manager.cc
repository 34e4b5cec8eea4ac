#include "services/token_manager/service/hosted_token_manager.h"

#include <utility>

#include "common/process/sharded_service.h"

namespace escapement::token_manager {
namespace {

TokenManagerOptions OptionsFromFlags(const ServiceContext& context) {
  return {.instance = context.instance,
          .dead_instances = context.dead_instances,
          .metrics = &context.metrics,
          .lease_ttl = LeaseTtl(),
          .lease_renew_every = LeaseRenewEvery()};
}

}  // namespace

HostedTokenManager::HostedTokenManager(const ServiceContext& context, kv::KvStore& store)
    : service_(OptionsFromFlags(context), store, context.runtime),
      door_(
          {.instance = context.instance, .local = &service_.grants(), .metrics = &context.metrics},
          store, context.runtime),
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
