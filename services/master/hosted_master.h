// HostedMaster: a MasterService with its gRPC services and flags, as a process hosts it: the
// master's own and standalone.

#ifndef SERVICES_MASTER_HOSTED_MASTER_H_
#define SERVICES_MASTER_HOSTED_MASTER_H_

#include <vector>

#include "common/kv/kv_store.h"
#include "common/service/service_process.h"
#include "services/master/master_grpc.h"
#include "services/master/master_service.h"

namespace escapement::master {

class HostedMaster final : public HostedService {
 public:
  // Both outlive it.
  HostedMaster(const ServiceContext& context, kv::KvStore& store);

  std::vector<grpc::Service*> GrpcServices() override { return grpc_.services(); }
  absl::Status Start() override;
  bool Ready() override { return service_.Ready(); }
  void Drain(Closure done) override;

 private:
  MasterService service_;
  MasterGrpc grpc_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_HOSTED_MASTER_H_
