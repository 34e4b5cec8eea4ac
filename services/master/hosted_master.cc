#include "services/master/hosted_master.h"

#include <utility>

namespace escapement::master {

HostedMaster::HostedMaster(const ServiceContext& context, kv::KvStore& store, Tokens tokens)
    : service_({.instance = context.instance, .metrics = &context.metrics}, store, context.runtime),
      grpc_(service_.schedules(), service_.events(), service_.runs(), service_.policies()),
      store_grpc_(store) {
  if (tokens == Tokens::kElsewhere) return;
  TokenDoor::Options options;
  options.instance = context.instance;
  options.metrics = &context.metrics;
  door_ = std::make_unique<TokenDoor>(std::move(options), store, context.runtime);
  door_grpc_ = std::make_unique<TokenGrpc>(*door_);
}

std::vector<grpc::Service*> HostedMaster::GrpcServices() {
  std::vector<grpc::Service*> services = grpc_.services();
  services.push_back(store_grpc_.service());
  if (door_grpc_ != nullptr) services.push_back(door_grpc_->service());
  return services;
}

absl::Status HostedMaster::Start() {
  service_.Start();
  if (door_ != nullptr) door_->Start();
  return absl::OkStatus();
}

bool HostedMaster::Ready() { return service_.Ready() && (door_ == nullptr || door_->Ready()); }

void HostedMaster::Drain(Closure done) {
  if (door_ == nullptr) return service_.Drain(std::move(done));
  // The door waits for what is under way, which without the store may take long.
  service_.Drain([this, done = std::move(done)]() mutable { door_->Drain(std::move(done)); });
}

}  // namespace escapement::master
