#include "services/master/hosted_master.h"

#include <utility>

namespace escapement::master {

HostedMaster::HostedMaster(const ServiceContext& context, kv::KvStore& store)
    : service_({.instance = context.instance, .metrics = &context.metrics}, store, context.runtime),
      grpc_(service_.schedules(), service_.events(), service_.runs(), service_.policies()) {}

absl::Status HostedMaster::Start() {
  service_.Start();
  return absl::OkStatus();
}

void HostedMaster::Drain(Closure done) { service_.Drain(std::move(done)); }

}  // namespace escapement::master
