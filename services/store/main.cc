// The store: the only process that opens RocksDB.

#include "common/auth/platform_gate.h"
#include "common/base/status_macros.h"
#include "common/process/service_process.h"
#include "services/store/service/store_server.h"
#include "services/store/service/store_tasks.h"

namespace escapement::store {
namespace {

class StoreProcess final : public HostedService {
 public:
  StoreProcess(std::unique_ptr<StoreServer> server, const ServiceContext& context)
      : server_(std::move(server)),
        metrics_(context.metrics, *server_),
        gate_(context.instance, server_->store(), context.runtime, /*rules=*/nullptr) {}

  void AddRpcs(RpcTable& table) override { server_->AddRpcs(table); }
  CallGate& gate() override { return gate_.gate(); }
  absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel>) override {
    return server_->AddHttpRoutes(http);
  }
  absl::Status Start() override {
    gate_.Start();
    return absl::OkStatus();
  }
  bool Ready() override { return gate_.Ready() && server_->NotReadyReason().empty(); }
  std::string NotReadyReason() override { return server_->NotReadyReason(); }
  void Drain(Closure done) override { server_->StepDown(std::move(done)); }

 private:
  std::unique_ptr<StoreServer> server_;
  StoreMetrics metrics_;
  auth::HostedGate gate_;
};

absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
  ASSIGN_OR_RETURN(auto server, OpenStoreFromFlags(context.metrics, context.runtime));
  return std::make_unique<StoreProcess>(std::move(server), context);
}

}  // namespace
}  // namespace escapement::store

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "store",
       .description = "keeps everything durable, in RocksDB",
       .listen = "127.0.0.1:7400",
       .http_listen = "127.0.0.1:7401",
       .receive_bytes_max = escapement::store::StoreServer::kReceiveBytesMax,
       .certificates = escapement::store::ReplicationCertificates,
       .validate = escapement::store::ValidateStoreFlags,
       .task = escapement::store::StoreTaskFromFlags,
       .make = escapement::store::Make});
}
