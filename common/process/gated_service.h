// GatedService: a hosted service that takes part only while this machine's time zone database is
// the one in force (tzdata_gate.h). Until then the service is not started and not ready. When
// another database comes into force, the service is drained, which releases its leases, and stays
// not ready.
//
// Threads: as HostedService. The gate's executor starts the service, and drains it if the gate
// closes.

#ifndef COMMON_PROCESS_GATED_SERVICE_H_
#define COMMON_PROCESS_GATED_SERVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/tzdata/tzdata_gate.h"

namespace escapement::tzdata {

class GatedService final : public HostedService {
 public:
  // All arguments must outlive it.
  GatedService(const ServiceContext& context, kv::KvStore& store, HostedService& inner);
  ~GatedService() override;

  void AddRpcs(RpcTable& table) override { inner_.AddRpcs(table); }
  CallGate& gate() override { return inner_.gate(); }
  absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel> in_process) override {
    return inner_.AddHttpRoutes(http, std::move(in_process));
  }
  absl::Status Start() override;
  bool Ready() override { return gate_.Open() && inner_.Ready(); }
  std::string NotReadyReason() override;
  void Drain(Closure done) override;

 private:
  enum class Inner { kNew, kStarted, kDraining, kDrained };
  void StartInner();
  void DrainInner();
  void OnDrained();

  HostedService& inner_;
  // Only on the gate's executor.
  Inner state_ = Inner::kNew;
  std::vector<Closure> when_drained_;
  TzdataGate gate_;
};

}  // namespace escapement::tzdata

#endif  // COMMON_PROCESS_GATED_SERVICE_H_
