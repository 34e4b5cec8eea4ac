// LimitGates: for which limits groups of a policy shard stand aside. Reservations: the groups for
// which tokens are kept back.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_LIMIT_GATES_H_
#define SERVICES_TOKEN_MANAGER_SHARD_LIMIT_GATES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "services/token_manager/holding/further_holds.h"
#include "services/token_manager/waiting/waiting_rows.h"

namespace escapement::token_manager {

// The limit of a policy, or that of one of its keys.
struct LimitName {
  Uid policy;
  std::optional<std::string> key = std::nullopt;
  friend auto operator<=>(const LimitName&, const LimitName&) = default;
};
// Why a group stands aside (FairQueue::Next).
std::string ReasonOf(const LimitName& limit);
// All limits of events: those of the policy under which they wait first.
std::vector<LimitName> LimitsOf(const Uid& policy, const RowSource& source);

// LimitGates: a limit without room is a gate before which groups of any policies stand. When it may
// have room again, they take part again: policy after policy, of each those that have waited
// longest, some at a time.
//
// Pure. Threads: one.
class LimitGates {
 public:
  // A group of `policy` stands aside for the limit.
  void Close(const LimitName& limit, const Uid& policy) { gates_[limit].policies.insert(policy); }
  // The limit may have room again.
  void Open(const LimitName& limit);
  // The same for the limits of the policy and of all its keys.
  void OpenAll(const Uid& policy);

  bool empty() const { return gates_.empty(); }
  // True if Wake has something to do.
  bool open() const { return !open_.empty(); }
  // Wakes groups before each open gate as long as it has room. wake(policy, reason, max) is
  // FairQueue::Wake of the policy.
  using WakeOf =
      absl::FunctionRef<FairQueue::Woken(const Uid& policy, const std::string& reason, size_t max)>;
  void Wake(absl::FunctionRef<bool(const LimitName& limit)> has_room, WakeOf wake);

 private:
  struct Gate {
    std::set<Uid> policies = {};  // with groups that stand aside since they were woken last
    std::set<Uid> to_wake = {};   // those whose turn is still to come
    bool opened_again = false;    // all are woken once more
  };

  std::map<LimitName, Gate> gates_;
  std::set<LimitName> open_;
};

// Reservations: groups of which an event needs several tokens at once, and that have waited so long
// that they must not be overtaken any more. The tokens that they need are kept back from all groups
// that have waited for less long.
//
// Pure. Threads: one.
class Reservations {
 public:
  using Id = std::pair<Uid, GroupKey>;  // its policy, and the group there
  struct Reserved {
    absl::Time since;  // when its first event became eligible
    std::shared_ptr<const RowSource> source;
  };
  static constexpr size_t kMax = 8;

  bool empty() const { return reserved_.empty(); }
  const std::map<Id, Reserved>& all() const { return reserved_; }
  // False: the group has one, or there are too many.
  bool Add(const Id& group, Reserved reserved) {
    return reserved_.size() < kMax && reserved_.try_emplace(group, std::move(reserved)).second;
  }
  // The limits that may have room by that; none if the group has no reservation.
  std::vector<LimitName> Remove(const Id& group);
  // Tokens of the limit that are kept back from this group.
  uint64_t KeptFrom(const LimitName& limit, const Id& group) const;

 private:
  std::map<Id, Reserved> reserved_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_LIMIT_GATES_H_
