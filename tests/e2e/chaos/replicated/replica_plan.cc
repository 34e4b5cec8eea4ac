#include "tests/e2e/chaos/replicated/replica_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "common/sim/sim_random.h"

namespace escapement::chaos {
namespace {

using Kind = Fault::Kind;

// Pause between two faults of one group, in which it can work.
constexpr absl::Duration kRest = absl::Seconds(1);
constexpr absl::Duration kShortest = absl::Milliseconds(100);

struct Card {
  Kind kind;
  const char* victim;
  absl::Duration length_max;
  Cut cut = Cut::kNone;
};

// The zombie's length is exact.
constexpr absl::Duration kZombie = kZombiePause;

constexpr Card kDeck[] = {
    {Kind::kKill, "store.leader", absl::Seconds(2)},
    {Kind::kPause, "store.leader", kZombie},
    {Kind::kPromote, "postgres", absl::Seconds(1)},
    {Kind::kKill, "postgres.writer", absl::Seconds(1)},
    {Kind::kCut, "leader>postgres", absl::Seconds(5), Cut::kNoAnswer},
    {Kind::kPause, "postgres.writer", absl::Seconds(6)},
    {Kind::kKill, "postgres", absl::Seconds(2)},
    {Kind::kForget, "store.follower", absl::Seconds(2)},
    {Kind::kCut, "leader>postgres", absl::Seconds(5), Cut::kTorn},
    {Kind::kTerminate, "store.leader", absl::Seconds(1)},
    {Kind::kPause, "postgres", absl::Seconds(5)},
    {Kind::kCut, "clients>leader", absl::Seconds(5), Cut::kBlackHole},
    {Kind::kKill, "store.leader", absl::Seconds(5)},
    {Kind::kPause, "store.leader", absl::Seconds(6)},
    {Kind::kTerminate, "postgres", absl::Seconds(2)},
    {Kind::kTerminate, "postgres.writer", absl::Seconds(1)},
    {Kind::kCut, "leader>postgres", absl::Seconds(2), Cut::kReset},
    {Kind::kKill, "store.follower", absl::Seconds(2)},
    {Kind::kKill, "postgres.standby", absl::Seconds(4)},
    {Kind::kCut, "leader>postgres", absl::Seconds(6), Cut::kBlackHole},
    {Kind::kForget, "store.leader", absl::Seconds(2)},
    {Kind::kCut, "leader>postgres", absl::Seconds(5), Cut::kNoRequest},
    {Kind::kPause, "postgres.standby", absl::Seconds(5)},
    {Kind::kCut, "clients>leader", absl::Seconds(5), Cut::kReset},
    {Kind::kPause, "store.leader", kZombie},
    {Kind::kPause, "store.follower", absl::Seconds(6)},
    {Kind::kCut, "leader>postgres", absl::Seconds(5), Cut::kSlow},
    {Kind::kCut, "follower>postgres", absl::Seconds(6), Cut::kBlackHole},
    {Kind::kKill, "store.leader", absl::Seconds(1)},
    {Kind::kSplit, "postgres", absl::Seconds(8)},
};

class Planner {
 public:
  explicit Planner(const ReplicaPlanOptions& options)
      : options_(options), random_(options.seed, "replicas") {}

  std::vector<Fault> Plan() {
    // The first cards of the deck come first, so that also a short run has the rarest kinds.
    std::vector<Card> cards;
    for (int i = 0; i < options_.faults; ++i)
      cards.push_back(kDeck[static_cast<size_t>(i) % std::size(kDeck)]);
    for (size_t i = cards.size(); i > 1; --i) std::swap(cards[i - 1], cards[random_.Below(i)]);
    std::map<std::string, std::vector<Fault>> groups;
    for (const Card& card : cards) {
      Fault fault = Draw(card);
      groups[GroupOf(fault)].push_back(std::move(fault));
    }
    std::vector<Fault> faults;
    for (auto& [name, group] : groups) {
      Spread(group);
      for (Fault& fault : group) faults.push_back(std::move(fault));
    }
    std::stable_sort(faults.begin(), faults.end(),
                     [](const Fault& a, const Fault& b) { return a.begin < b.begin; });
    return faults;
  }

 private:
  // From 0 to its length.
  Fault Draw(const Card& card) {
    Fault fault;
    fault.kind = card.kind;
    fault.victim = card.victim;
    fault.cut = card.cut;
    fault.end = card.length_max == kZombie ? kZombie : random_.Between(kShortest, card.length_max);
    // Both ways to heal: the bytes that the link held come late, or are lost. After a split, either
    // the leader or a follower stays with the old primary.
    fault.reset = card.cut == Cut::kTorn || random_.Below(2) == 0;
    return fault;
  }

  // Puts the group's faults one behind the other, with random pauses.
  void Spread(std::vector<Fault>& group) {
    absl::Duration room = options_.end - options_.begin;
    for (const Fault& fault : group) room -= fault.end + kRest;
    room = std::max(room, absl::ZeroDuration());
    std::vector<absl::Duration> offsets;
    for (size_t i = 0; i < group.size(); ++i)
      offsets.push_back(random_.Between(absl::ZeroDuration(), room));
    std::sort(offsets.begin(), offsets.end());
    absl::Duration used = options_.begin;
    for (size_t i = 0; i < group.size(); ++i) {
      const absl::Duration length = group[i].end;
      group[i].begin = used + offsets[i];
      group[i].end = group[i].begin + length;
      used += length + kRest;
    }
  }

  const ReplicaPlanOptions& options_;
  sim::SimRandom random_;
};

}  // namespace

std::string GroupOf(const Fault& fault) {
  if (fault.kind == Kind::kCut) return "links";
  if (absl::StartsWith(fault.victim, "postgres")) return "postgres";
  return fault.victim == "store.leader" ? "leaders" : "followers";
}

std::vector<Fault> PlanReplicaChaos(const ReplicaPlanOptions& options) {
  return Planner(options).Plan();
}

}  // namespace escapement::chaos
