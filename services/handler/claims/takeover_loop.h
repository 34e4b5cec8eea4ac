// TakeoverLoop: finds, when a queue shard has been acquired, what its former owner had claimed and
// not ended, and sends it again once no attempt of the former owner can be under way any more.
//
// The former owner began nothing after its lease's end (or after it released the shard); each claim
// says how long its attempts may take. The claims keep their names: their ends are written beside
// those of the former owner.
//
// Of granted claims (docs/design/throttling.md) those that were put after the former owner's end
// are new to everybody and go to the GrantedLoop. Of the others the owners of their policy shards
// are told, at the same instant at which own ones are sent again: they grant them a new claim.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/handler/claims/takeover.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/granted/granted_loop.h"
#include "services/handler/intake/row_resolver.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

class TakeoverLoop {
 public:
  // `ends` and `granted` outlive it.
  TakeoverLoop(ShardState& state, EndLoop& ends, GrantedLoop& granted)
      : state_(state), ends_(ends), granted_(granted) {}

  // Reads the shard's claims, then calls `ready`: the keys of one-off events that are claimed are
  // held from then on. Called again before that it begins anew: what the watch missed meanwhile is
  // not to be taken for what has come since.
  void Start(std::function<void()> ready);

  void Step(absl::Time now);

  // The store's time at which the next claim may be sent again.
  std::optional<absl::Time> NextDue() const;

  void Stop() { left_.clear(); }

 private:
  struct Left {
    LeftClaim claim;
    absl::Time not_before;
    bool asked = false;  // its rows are being read, a part at a time
    bool reading = false;
    absl::Time asked_at;  // what it is judged by was read after this
    std::vector<kv::Key> unread;
    // Of one-off events, by key; never iterated.
    absl::flat_hash_map<std::string, std::string> rows;
    bool read() const { return asked && !reading && unread.empty(); }
  };
  void OnScanned(std::vector<kv::Entry> inflight, kv::CommitSeq seq);
  bool ResendGranted(Left& left, absl::Time now);
  void AskForRows(Left& left, absl::Time now);
  void ReadRows(const std::shared_ptr<Left>& left);
  bool Adopt(Left& left, absl::Time now);
  // nullopt: not known yet.
  std::optional<std::vector<ResolvedRow>> ResolveAll(Left& left);

  ShardState& state_;
  EndLoop& ends_;
  GrantedLoop& granted_;
  uint64_t scan_ = 0;  // the one that counts
  std::function<void()> ready_;
  std::list<std::shared_ptr<Left>> left_;  // in the order of their claims
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_TAKEOVER_LOOP_H_
