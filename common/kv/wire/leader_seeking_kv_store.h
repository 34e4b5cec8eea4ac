// LeaderSeekingKvStore: a KvStore served by several processes, of which one leads. It has one
// connection for each address (GrpcKvStore) and sends every call to the store that leads.
//
// - If the leader's connection breaks, or a store answers NotLeader, all known stores are asked
//   until one leads (leader_search.h). The failed call keeps its error: this class never sends a
//   call twice, since only the caller knows whether that is right. KvClient sends it again.
// - Calls that come during a search are held, in their order, and sent once the leader is known. A
//   call that was held for `held_max` fails with UNAVAILABLE.
// - When the client leaves a store, that store's stream ends: its open calls fail with UNAVAILABLE
//   and its watches end. So a request is open at one store at most.
// - GetStatus asks all known stores if none leads, or if the leader does not answer in time, and
//   joins what they say. AskClock fails with UNAVAILABLE then: a question must not wait as long as
//   a commit may, for a leader that hangs.
// - With one address this is GrpcKvStore, until that store answers NotLeader.
//
// A request may still be on its way to the store that was left. That store refuses it: it stopped
// leading before another store could. To lead again takes seconds, in which it reads what is on the
// way and sees the end of the stream.
//
// Threads: as KvStore; callbacks run on gRPC's threads or on this store's executor. Do not destroy
// it in a callback.

#ifndef COMMON_KV_WIRE_LEADER_SEEKING_KV_STORE_H_
#define COMMON_KV_WIRE_LEADER_SEEKING_KV_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/backoff/backoff.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/leader_search.h"
#include "common/kv/wire/store_connection.h"
#include "common/net/name_resolver.h"
#include "common/runtime/runtime.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::kv {

class LeaderSeekingKvStore final : public KvStore, public StoreAdmin {
 public:
  struct Options {
    std::vector<std::string> addresses;  // as LeaderSearch's
    // Makes the channel to a store, from common/rpc/channel.h with its default limits. The store
    // must prove `address.authority`, or the host of its target if that is empty.
    std::function<std::shared_ptr<grpc::Channel>(const StoreAddress& address)> connect = nullptr;
    // Replaces `connect`: makes the whole connection. The simulation has no channels.
    std::function<std::unique_ptr<StoreConnection>(const StoreAddress& address)> open = nullptr;
    // Optional. Called when a search ends at another store than the last one.
    std::function<void(const StoreAddress& leader)> on_leader = nullptr;
    // Null: the machine's.
    std::unique_ptr<NameResolver> resolver = nullptr;

    absl::Duration held_max = absl::Seconds(2);
    absl::Duration answer_max = absl::Seconds(5);  // for AskClock and GetStatus of the leader
    // Between two rounds of a search.
    BackoffPolicy round_backoff = {.min = absl::Milliseconds(25), .max = absl::Milliseconds(250)};
    // Addresses of names are at least this old before a search looks them up again.
    absl::Duration lookup_every = absl::Seconds(1);
    // If calls wait and no answer came for this long, the current store is asked for a sign of
    // life. If none came for `doubt_after`, the other stores are asked whether they lead.
    absl::Duration silent_after = absl::Seconds(1);
    absl::Duration doubt_after = absl::Milliseconds(1500);
  };

  // Further calls during a search fail with UNAVAILABLE at once.
  static constexpr size_t kHeldCallsMax = 10'000;

  // `runtime` must outlive the store.
  LeaderSeekingKvStore(Runtime& runtime, Options options);
  ~LeaderSeekingKvStore() override;

  // Why no call is sent: the store that leads speaks less than this program needs (kStoreProtocol).
  // Calls fail or wait, as in a search, and it goes on asking. Otherwise empty.
  std::string TooOld();

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;
  void GetStatus(Callback<v1::StoreStatus> done) override;
  void HandOver(Callback<v1::HandOverResponse> done) override;

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_LEADER_SEEKING_KV_STORE_H_
