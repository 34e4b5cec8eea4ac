// Converts the KvStore contract's types to and from escapement.internal.v1 (store.proto), for both
// sides of the wire.
//
// Reading moves byte strings out of the message. It checks values only as far as the types require;
// the store validates calls. DATA_LOSS if an answer lacks its result.

#ifndef COMMON_KV_WIRE_KV_WIRE_H_
#define COMMON_KV_WIRE_KV_WIRE_H_

#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::internal::v1 {
class CommitCall;
class MultiGetCall;
class ScanCall;
class OpenWatchCall;
class ClockCall;
class StoreAnswer;
class KvWatchBatch;
}  // namespace escapement::internal::v1

namespace escapement::kv {

namespace wire = ::escapement::internal::v1;

void ToWire(const CommitRequest& request, wire::CommitCall& call);
CommitRequest FromWire(wire::CommitCall& call);
void ToWire(const std::vector<Key>& keys, wire::MultiGetCall& call);
std::vector<Key> FromWire(wire::MultiGetCall& call);
void ToWire(const ScanRequest& request, wire::ScanCall& call);
ScanRequest FromWire(wire::ScanCall& call);
void ToWire(const WatchRequest& request, wire::OpenWatchCall& call);
WatchRequest FromWire(wire::OpenWatchCall& call);

void ToWire(const ClockCall& call, wire::ClockCall& out);
ClockCall FromWire(wire::ClockCall& call);

void ToWire(const absl::StatusOr<SessionInfo>& info, wire::StoreAnswer& answer);
void ToWire(const absl::StatusOr<CommitResult>& result, wire::StoreAnswer& answer);
void ToWire(absl::StatusOr<GetResult> result, wire::StoreAnswer& answer);
void ToWire(absl::StatusOr<ScanResult> result, wire::StoreAnswer& answer);
void ToWire(const absl::StatusOr<ClockState>& state, wire::StoreAnswer& answer);
void ToWire(absl::StatusOr<v1::StoreStatus> status, wire::StoreAnswer& answer);
void ToWire(const absl::StatusOr<v1::HandOverResponse>& handed_over, wire::StoreAnswer& answer);
void ToWire(WatchBatch batch, wire::StoreAnswer& answer);
void ToWire(const absl::Status& status, wire::StoreAnswer& answer);

absl::Status StatusFromWire(const wire::StoreAnswer& answer);
absl::StatusOr<SessionInfo> SessionFromWire(wire::StoreAnswer& answer);
absl::StatusOr<CommitResult> CommitFromWire(wire::StoreAnswer& answer);
absl::StatusOr<GetResult> GetFromWire(wire::StoreAnswer& answer);
absl::StatusOr<ScanResult> ScanFromWire(wire::StoreAnswer& answer);
absl::StatusOr<ClockState> ClockFromWire(wire::StoreAnswer& answer);
absl::StatusOr<v1::StoreStatus> StoreStatusFromWire(wire::StoreAnswer& answer);
absl::StatusOr<v1::HandOverResponse> HandedOverFromWire(wire::StoreAnswer& answer);
WatchBatch WatchBatchFromWire(wire::KvWatchBatch& batch);

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_KV_WIRE_H_
