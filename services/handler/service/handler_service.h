// HandlerService: delivers due events. It owns queue shards by lease. For each shard it loads the
// rows that are due soon, claims them, sends them at their due time, and commits their ends
// (docs/design/overview.md).
//
// The same class runs in the handler process, in standalone and in the simulation.
//
// Threads: all methods may be called from any thread. The work happens on the service's own
// executor, which the destructor stops.

#ifndef SERVICES_HANDLER_SERVICE_HANDLER_SERVICE_H_
#define SERVICES_HANDLER_SERVICE_HANDLER_SERVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/runtime/runtime.h"
#include "services/handler/base/metrics.h"
#include "services/handler/base/options.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class HandlerService {
 public:
  // `store`, `runtime` and `transport` must outlive it.
  HandlerService(HandlerOptions options, kv::KvStore& store, Runtime& runtime,
                 DeliveryTransport& transport);
  ~HandlerService();
  HandlerService(const HandlerService&) = delete;
  HandlerService& operator=(const HandlerService&) = delete;

  // Begins to acquire shards as soon as the store answers.
  void Start();

  // Claims no further rows, waits for open sends (at most HandlerOptions::drain_max), releases the
  // leases, then calls `done` on the service's executor. While the store cannot be reached, `done`
  // is not called, so the caller must set a time limit.
  void Drain(Closure done);

  // True once the store has answered and the shares are being balanced.
  bool Ready() const;

  const HandlerMetrics& metrics() const;

  // Lives as long as this.
  ShardedService& sharded();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// HostedHandler: a HandlerService with its transports and flags. The handler process and standalone
// host it.

// Appends one sentence for each flag of the handler with an invalid value.
void ValidateHandlerFlags(std::vector<std::string>& errors);

class HostedHandler final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedHandler(const ServiceContext& context, kv::KvStore& store);

  absl::Status Start() override;
  bool Ready() override { return service_.Ready(); }
  ShardedService* sharded() override { return &service_.sharded(); }
  void Drain(Closure done) override { service_.Drain(std::move(done)); }

 private:
  const std::unique_ptr<DeliveryTransport> transport_;
  HandlerService service_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SERVICE_HANDLER_SERVICE_H_
