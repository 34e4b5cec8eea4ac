// HandlerService: delivers due events. It owns queue shards by lease; of each it loads the rows due
// soon, claims them, sends them at their due time, and commits how they ended
// (docs/design/overview.md).
//
// The same class runs in the handler process, in standalone and in the simulation.
//
// Threads: Start, Drain and metrics from any; everything else happens on an executor of its own.
// Drain (or the loss of the process) comes before destruction; the destructor stops the executor.

#ifndef SERVICES_HANDLER_HANDLER_SERVICE_H_
#define SERVICES_HANDLER_HANDLER_SERVICE_H_

#include <memory>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/metrics.h"
#include "services/handler/options.h"

namespace escapement::handler {

class HandlerService {
 public:
  // `store`, `runtime` and `transport` outlive it.
  HandlerService(HandlerOptions options, kv::KvStore& store, Runtime& runtime,
                 DeliveryTransport& transport);
  ~HandlerService();
  HandlerService(const HandlerService&) = delete;
  HandlerService& operator=(const HandlerService&) = delete;

  // Begins to acquire shards as soon as the store answers.
  void Start();

  // Claims nothing more, waits for what is under way (at most Options::drain_max), releases the
  // leases, then calls `done` on the service's executor. If the store cannot be reached it does not
  // return: the caller bounds it.
  void Drain(Closure done);

  // True once it takes part: the store has answered and the shares are being balanced. Any thread.
  bool Ready() const;

  const HandlerMetrics& metrics() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_HANDLER_SERVICE_H_
