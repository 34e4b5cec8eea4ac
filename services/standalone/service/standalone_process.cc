#include "services/standalone/service/standalone_process.h"

#include <functional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "common/base/status_macros.h"
#include "common/process/gated_service.h"
#include "common/process/sharded_service.h"
#include "common/secrets/sealed_value.h"
#include "services/emitter/service/emitter_service.h"
#include "services/handler/service/handler_service.h"
#include "services/master/service/hosted_master.h"
#include "services/store/service/store_server.h"
#include "services/store/service/store_tasks.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::standalone {
namespace {

// All services, with one store.
class AllServices final : public HostedService {
 public:
  AllServices(const ServiceContext& context, std::unique_ptr<store::StoreServer> server)
      : server_(std::move(server)),
        store_metrics_(context.metrics, *server_),
        handler_(context, server_->store()),
        token_manager_(context, server_->store()),
        emitter_(context, server_->store()),
        master_(context, server_->store(), *server_, &token_manager_.door()) {
    server_->SetLeaseHolders({.pause = [this](Closure done) { PauseLeases(std::move(done)); },
                              .resume = [this] { ResumeLeases(); }});
  }
  ~AllServices() override { server_->SetLeaseHolders({}); }

  kv::KvStore& store() { return server_->store(); }
  std::string StoreReason() const { return server_->NotReadyReason(); }

  void AddRpcs(RpcTable& table) override {
    master_.AddRpcs(table);  // also TokenService, over the token manager's door
    server_->AddExportRpc(table);
  }
  CallGate& gate() override { return master_.gate(); }

  absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel> in_process) override {
    RETURN_IF_ERROR(server_->AddHttpRoutes(http));
    return master_.AddHttpRoutes(http, std::move(in_process));
  }

  absl::Status Start() override {
    for (HostedService* service : services_) {
      RETURN_IF_ERROR(service->Start());
    }
    return absl::OkStatus();
  }

  bool Ready() override {
    for (HostedService* service : services_) {
      if (!service->Ready()) return false;
    }
    return server_->NotReadyReason().empty();
  }

  std::string NotReadyReason() override {
    if (std::string reason = server_->NotReadyReason(); !reason.empty()) return reason;
    for (HostedService* service : services_) {
      if (std::string reason = service->NotReadyReason(); !reason.empty()) return reason;
    }
    return {};
  }

  void Drain(Closure done) override {
    // The services still need the store. Then another replica takes over.
    OfEach([](HostedService& service, Closure drained) { service.Drain(std::move(drained)); },
           [this, done = std::move(done)]() mutable { server_->StepDown(std::move(done)); });
  }

 private:
  // Runs `done` once `act` has called what it got for each service.
  void OfEach(absl::FunctionRef<void(HostedService& service, Closure done)> act, Closure done) {
    const std::function<void()> acted = AtCall(kServices, std::move(done));
    for (HostedService* service : services_) act(*service, acted);
  }
  void PauseLeases(Closure done) {
    OfEach(
        [](HostedService& service, Closure paused) {
          ShardedService* sharded = service.sharded();
          sharded == nullptr ? paused() : sharded->PauseLeases(std::move(paused));
        },
        std::move(done));
  }
  void ResumeLeases() {
    for (HostedService* service : services_) {
      if (ShardedService* sharded = service->sharded()) sharded->ResumeLeases();
    }
  }

  // Destroyed in the reverse order, so the store is last.
  std::unique_ptr<store::StoreServer> server_;
  store::StoreMetrics store_metrics_;
  handler::HostedHandler handler_;
  token_manager::HostedTokenManager token_manager_;
  emitter::HostedEmitter emitter_;
  master::HostedMaster master_;
  static constexpr int kServices = 4;
  HostedService* const services_[kServices] = {&handler_, &token_manager_, &emitter_, &master_};
};

class StandaloneProcess final : public HostedService {
 public:
  StandaloneProcess(const ServiceContext& context, std::unique_ptr<store::StoreServer> server)
      : services_(context, std::move(server)), gated_(context, services_.store(), services_) {}
  void AddRpcs(RpcTable& table) override { gated_.AddRpcs(table); }
  CallGate& gate() override { return gated_.gate(); }
  absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel> in_process) override {
    return gated_.AddHttpRoutes(http, std::move(in_process));
  }
  absl::Status Start() override { return gated_.Start(); }
  bool Ready() override { return gated_.Ready(); }
  std::string NotReadyReason() override {
    // A replica that follows knows nothing more of the store than who leads.
    if (std::string reason = services_.StoreReason(); !reason.empty()) return reason;
    return gated_.NotReadyReason();
  }
  void Drain(Closure done) override { gated_.Drain(std::move(done)); }

 private:
  AllServices services_;
  tzdata::GatedService gated_;
};

}  // namespace

void ValidateFlags(std::vector<std::string>& errors) {
  store::ValidateStoreFlags(errors);
  // Its store is not there for the masters of another cell.
  if (store::StoreOptionsFromFlags().cell != 0)
    errors.push_back("--cell: a standalone process is the home cell, 0");
  ValidateLeaseFlags(errors);
  ValidateSecretKeysFlag(errors);
  master::ValidateMasterFlags(errors);
  emitter::ValidateEmitterFlags(errors);
  handler::ValidateHandlerFlags(errors);
}

std::string DefaultInstanceFile() { return store::StoreOptionsFromFlags().data_dir + "/instance"; }

std::vector<TlsPaths> Certificates() {
  std::vector<TlsPaths> all = store::ReplicationCertificates();
  for (TlsPaths& paths : master::KafkaIngestCertificates()) all.push_back(std::move(paths));
  return all;
}

absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
  ASSIGN_OR_RETURN(auto server, store::OpenStoreFromFlags(context.metrics, context.runtime));
  return std::make_unique<StandaloneProcess>(context, std::move(server));
}

}  // namespace escapement::standalone
