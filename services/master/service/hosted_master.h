// HostedMaster: a MasterService with its RPCs and the gate in front of them, the public
// StoreService over the store that it uses, a door for consumers' tokens, all of them as REST, and
// the page at /ui. If the flags say so, it also takes events from Kafka. The master's own process
// hosts it, and standalone.

#ifndef SERVICES_MASTER_SERVICE_HOSTED_MASTER_H_
#define SERVICES_MASTER_SERVICE_HOSTED_MASTER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/auth/platform_gate.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/process/service_process.h"
#include "common/rest/rest_door.h"
#include "common/tokens/token_door.h"
#include "services/master/ingest/kafka/kafka_ingest.h"
#include "services/master/ingest/ndjson_door.h"
#include "services/master/page/page_door.h"
#include "services/master/service/cell_masters.h"

namespace escapement::master {

class HostedMaster final : public HostedService {
 public:
  // The arguments outlive it. `tokens`: where tokens are given back, which is the token manager's
  // door in standalone. Null: a door of its own.
  HostedMaster(const ServiceContext& context, kv::KvStore& store, kv::StoreAdmin& admin,
               TokenApi* tokens = nullptr);

  void AddRpcs(RpcTable& table) override;
  CallGate& gate() override { return gate_.gate(); }
  absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel> in_process) override;
  absl::Status Start() override;
  bool Ready() override;
  std::string NotReadyReason() override;
  void Drain(Closure done) override;

 private:
  // Does nothing if the ingestion is off.
  absl::Status StartKafka();
  // Drains everything but the ingestion from Kafka.
  void DrainDoors(Closure done);

  CellMasters masters_;
  auth::HostedGate gate_;
  kv::KvStore& store_;
  kv::StoreAdmin& admin_;
  std::unique_ptr<TokenDoor> door_;   // null if tokens are given back elsewhere
  std::unique_ptr<TokenApi> tokens_;  // over the doors of all cells, and the policies
  std::unique_ptr<rest::RestDoor> rest_;
  std::unique_ptr<NdjsonDoor> ndjson_;
  std::unique_ptr<PageDoor> page_;
  Runtime& runtime_;
  Metrics& metrics_;
  std::atomic<bool> kafka_failed_ = false;
  std::unique_ptr<KafkaIngest> kafka_;  // null if it is off, or before Start
};

// The value of --connection_age: how long a gRPC connection takes calls; infinite if it is 0.
absl::Duration ConnectionAgeFromFlag();

// Appends a sentence for each of the master's flags that has an impossible value.
void ValidateMasterFlags(std::vector<std::string>& errors);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_HOSTED_MASTER_H_
