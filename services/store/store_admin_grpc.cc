#include "services/store/store_admin_grpc.h"

#include "common/base/micros.h"
#include "common/rpc/status_conversion.h"
#include "escapement/internal/v1/store.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::store {

namespace wire = ::escapement::internal::v1;

namespace {

void InfoToWire(const kv::RocksKvStore::Info& info, wire::StoreInfo* out) {
  out->set_incarnation(info.incarnation);
  out->set_seq(info.seq);
  out->set_partitions(info.layout.partitions);
  out->set_queue_shards(info.layout.queue_shards);
  out->set_store_time_micros(ToMicros(info.store_time));
  out->set_clock_disagreement_micros(absl::ToInt64Microseconds(info.clock_disagreement));
  out->set_clock_hold(info.clock_hold);
  out->set_clock_held_micros(absl::ToInt64Microseconds(info.clock_held_for));
  out->set_accepting(info.accepting);
  out->set_commits(info.commits);
  out->set_syncs(info.syncs);
}

}  // namespace

class StoreAdminGrpc::Service final : public wire::StoreAdminService::CallbackService {
 public:
  explicit Service(kv::RocksKvStore& store) : store_(store) {}

  grpc::ServerUnaryReactor* GetStoreInfo(grpc::CallbackServerContext* context,
                                         const wire::GetStoreInfoRequest*,
                                         wire::StoreInfo* info) override {
    InfoToWire(store_.info(), info);
    return Finish(context);
  }

  grpc::ServerUnaryReactor* ConfirmClock(grpc::CallbackServerContext* context,
                                         const wire::ConfirmClockRequest*,
                                         wire::StoreInfo* info) override {
    auto* reactor = context->DefaultReactor();
    store_.ConfirmClock([info, reactor](absl::StatusOr<kv::RocksKvStore::Info> confirmed) {
      if (confirmed.ok()) InfoToWire(*confirmed, info);
      reactor->Finish(ToGrpcStatus(confirmed.status()));
    });
    return reactor;
  }

 private:
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  kv::RocksKvStore& store_;
};

StoreAdminGrpc::StoreAdminGrpc(kv::RocksKvStore& store)
    : service_(std::make_unique<Service>(store)) {}
StoreAdminGrpc::~StoreAdminGrpc() = default;

grpc::Service* StoreAdminGrpc::service() { return service_.get(); }

}  // namespace escapement::store
