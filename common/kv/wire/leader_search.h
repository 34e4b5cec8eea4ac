// LeaderSearch: decides which of several stores a client calls. HeldWatch: a watch that is
// requested before that store is known. JoinStatuses: the status of stores of which none leads.

#ifndef COMMON_KV_WIRE_LEADER_SEARCH_H_
#define COMMON_KV_WIRE_LEADER_SEARCH_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/kv_store.h"
#include "common/rpc/host_port.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::kv {

// HeldWatch: a watch that is requested before the store that will serve it is known.
//
// The requester's handle is made at once. Later, Open opens the watch of a store and moves the ends
// that the requester has moved. Or End ends the watch before it began.
//
// Threads: any. Open or End is called once.
class HeldWatch {
 public:
  HeldWatch(WatchRequest request, WatchObserver observer)
      : gate_(std::make_shared<ObserverGate>(std::move(observer))), request_(std::move(request)) {}

  // The requester's handle.
  static std::unique_ptr<Watch> HandleOf(std::shared_ptr<HeldWatch> watch);

  void Open(KvStore& store) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& why) { gate_->Lagged(why); }

 private:
  class Handle;

  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  void MoveEnd(size_t range, std::string end) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<ObserverGate> gate_;

  WatchRequest request_;  // for Open

  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Watch> inner_ ABSL_GUARDED_BY(mu_);
  // The last end of each range that was moved before inner_ was there.
  std::map<size_t, std::string> moved_ends_ ABSL_GUARDED_BY(mu_);
};

// At most this many addresses that only stores have named are candidates; the oldest is dropped. A
// store that names a new address each time would otherwise fill the memory.
inline constexpr size_t kNamedStoresMax = 4;
// In one round at most this many newly named addresses are asked. This bounds the hops.
inline constexpr int kHopsMax = 4;
// More addresses of one name are ignored.
inline constexpr size_t kAddressesOfNameMax = 16;

struct StoreAddress {
  std::string target;  // host:port
  // The configured host:port if `target` is one of the addresses of its host. The store must then
  // prove that name. Empty: the host of `target`.
  std::string authority = {};

  friend bool operator<(const StoreAddress& a, const StoreAddress& b) {
    return std::tie(a.target, a.authority) < std::tie(b.target, b.authority);
  }
  friend bool operator==(const StoreAddress&, const StoreAddress&) = default;
};

// LeaderSearch: decides which of several stores a client calls.
//
// Several stores share one log, and one of them leads. The others refuse every call with NotLeader
// (common/kv/not_leader.h). The client calls the store that led last, until a call fails. Then it
// asks all the stores that it knows (a probe each) until one of them answers as the leader.
//
// The candidates are the configured addresses, the addresses of configured names, and the last few
// addresses that stores named as the leader's.
//
// A second way to a new leader is doubt. If the current store is silent while calls wait, the
// client asks the others as well, and goes to one that leads. The log lets only one store lead at a
// time, so the silent one does not lead any more.
//
// Pure. Threads: one at a time.
class LeaderSearch {
 public:
  // `addresses`: host:port, valid, at least one. A client with one address calls it at once. With
  // several it searches first.
  explicit LeaderSearch(const std::vector<std::string>& addresses);

  // The store to call; nullopt during a search.
  const std::optional<StoreAddress>& current() const { return current_; }
  bool doubting() const { return doubting_; }

  // False while there is one address only and it has never answered NotLeader. A broken connection
  // then begins no search.
  bool has_choice() const;
  // False if the only candidate is an IP address: then doubt leads nowhere.
  bool can_doubt() const;

  std::vector<StoreAddress> Candidates() const;

  // A call to `from` failed with `error`. Returns true if this begins a search.
  bool OnCallFailed(const StoreAddress& from, const absl::Status& error);

  // The current store is silent while calls wait for it.
  void Doubt();
  // The current store has answered.
  void Trust();

  // Call it before the candidates are asked once more.
  void BeginRound();
  // `answer`: OK if `from` leads. Returns an address to ask now, if the answer named a new one.
  std::optional<StoreAddress> OnProbe(const StoreAddress& from, const absl::Status& answer);

  // The configured hosts that are names. The search works without their addresses, but then finds
  // only one store behind each name.
  std::vector<std::string> Names() const;
  // `addresses`: as text, without ports. If there is one address only, the name itself stays the
  // candidate.
  void OnAddresses(absl::string_view name, const std::vector<std::string>& addresses);

  // UNAVAILABLE, with the last answer of each candidate.
  absl::Status NoLeader() const;

 private:
  struct Configured {
    HostPort place;
    std::vector<std::string> addresses;  // fewer than two: call the name
  };

  // Adds `address`, which a store named as the leader's. Nothing if it is known or refused.
  std::optional<StoreAddress> AddNamed(absl::string_view address);

  std::vector<Configured> configured_;
  std::deque<std::string> named_;
  std::optional<StoreAddress> current_;
  bool doubting_ = false;
  bool not_leader_seen_ = false;
  int hops_ = 0;
  std::map<StoreAddress, std::string> last_answers_;  // dropped with the candidate
};

// The answer of one process of a store about its status.
struct StatusAnswer {
  StoreAddress from;
  absl::StatusOr<v1::StoreStatus> status;
};

// True if a process that leads has given the status, or the store is not replicated.
bool OfLeader(const v1::StoreStatus& status);

// One status of several: the log as the answer shows it that has seen most of it, each replica as
// it has last reported itself, and one entry for each process without an answer. The first answer's
// error if all are errors; there must be one.
absl::StatusOr<v1::StoreStatus> JoinStatuses(const std::vector<StatusAnswer>& answers);

// The address in canonical form, if it is host:port with a port and a plausible host: an IP
// address, or a name of letters, digits, dots, hyphens and underscores. Nothing otherwise, so that
// no other kind of gRPC target ("unix:…") is taken from an answer.
std::optional<std::string> PlainAddress(absl::string_view address);

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_LEADER_SEARCH_H_
