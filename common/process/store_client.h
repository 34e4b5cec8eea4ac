// --store: the addresses of the store, for each service that does not open the data folder itself.

#ifndef COMMON_PROCESS_STORE_CLIENT_H_
#define COMMON_PROCESS_STORE_CLIENT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/leader_seeking_kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/process/gated_service.h"
#include "common/process/service_process.h"

namespace escapement {

// Appends a sentence if --store is impossible.
void ValidateStoreFlag(std::vector<std::string>& errors);

// A client of the store at --store, with TLS if there are credentials. It connects when it is first
// needed, and again after each break. If the store is replicated, it goes where the leader is
// (common/kv/wire/leader_seeking_kv_store.h). `runtime` must outlive the client.
std::unique_ptr<kv::LeaderSeekingKvStore> NewStoreClient(
    Runtime& runtime, std::shared_ptr<grpc::ChannelCredentials> credentials);
// The same for the store at `addresses`, which are from ParseStoreAddresses.
std::unique_ptr<kv::LeaderSeekingKvStore> NewStoreClient(
    Runtime& runtime, std::shared_ptr<grpc::ChannelCredentials> credentials,
    std::vector<std::string> addresses);

// A `Hosted` with its own client of the store. It is made from a ServiceContext and a KvStore, and
// a StoreAdmin if it wants one. It takes part while this machine's time zone database is the one in
// force. It is not ready while the store's leader is too old for it (kStoreProtocol).
template <typename Hosted>
std::unique_ptr<HostedService> HostWithStore(const ServiceContext& context) {
  class WithStore final : public HostedService {
   public:
    explicit WithStore(const ServiceContext& context)
        : store_(NewStoreClient(context.runtime, context.store_credentials)),
          hosted_(Make(context, *store_)),
          gated_(context, *store_, hosted_) {}
    void AddRpcs(RpcTable& table) override { gated_.AddRpcs(table); }
    CallGate& gate() override { return gated_.gate(); }
    absl::Status AddHttpRoutes(HttpServer& http,
                               std::shared_ptr<grpc::Channel> in_process) override {
      return gated_.AddHttpRoutes(http, std::move(in_process));
    }
    absl::Status Start() override { return gated_.Start(); }
    bool Ready() override { return gated_.Ready() && store_->TooOld().empty(); }
    std::string NotReadyReason() override {
      if (std::string reason = store_->TooOld(); !reason.empty()) return reason;
      return gated_.NotReadyReason();
    }
    void Drain(Closure done) override { gated_.Drain(std::move(done)); }

   private:
    static Hosted Make(const ServiceContext& context, kv::LeaderSeekingKvStore& store) {
      if constexpr (std::is_constructible_v<Hosted, const ServiceContext&, kv::KvStore&,
                                            kv::StoreAdmin&>) {
        return Hosted(context, store, store);
      } else {
        return Hosted(context, store);
      }
    }
    // Destroyed in the reverse order.
    std::unique_ptr<kv::LeaderSeekingKvStore> store_;
    Hosted hosted_;
    tzdata::GatedService gated_;
  };
  return std::make_unique<WithStore>(context);
}

// The value of --store: where the processes of one store serve.
//
// Pure.

// A replicated store has two or three processes. The bound catches a list of something else.
inline constexpr size_t kStoreAddressesMax = 16;

// "host:port", or several of them separated by commas; spaces around them are ignored.
// INVALID_ARGUMENT with a reason that a person can act on: an address that is not host:port, has no
// port or occurs twice, or more than kStoreAddressesMax.
absl::StatusOr<std::vector<std::string>> ParseStoreAddresses(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_PROCESS_STORE_CLIENT_H_
