// HostedEmitter: an EmitterService with its flags. The emitter process and standalone host it.

#ifndef SERVICES_EMITTER_SERVICE_HOSTED_EMITTER_H_
#define SERVICES_EMITTER_SERVICE_HOSTED_EMITTER_H_

#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "services/emitter/service/emitter_service.h"

namespace escapement::emitter {

// Appends one sentence for each flag of the emitter with an invalid value.
void ValidateEmitterFlags(std::vector<std::string>& errors);

class HostedEmitter final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedEmitter(const ServiceContext& context, kv::KvStore& store);

  absl::Status Start() override;
  bool Ready() override { return service_.Ready(); }
  std::string NotReadyReason() override { return service_.NotReadyReason(); }
  void Drain(Closure done) override { service_.Drain(std::move(done)); }

 private:
  EmitterService service_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_SERVICE_HOSTED_EMITTER_H_
