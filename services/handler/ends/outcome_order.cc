#include "services/handler/ends/outcome_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace escapement::handler {
namespace {

// Keys are sorted, because outcomes are large and their claims lie elsewhere in memory.
struct Key {
  uint64_t claim = 0;  // its order
  uint32_t entry = 0;
  uint64_t first = 0;
  size_t place = 0;
  bool operator<(const Key& other) const {
    return std::tie(claim, entry, first) < std::tie(other.claim, other.entry, other.first);
  }
};

}  // namespace

void SortByEvent(std::vector<Outcome>& outcomes) {
  std::vector<Key> keys;
  keys.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes)
    keys.push_back({outcome.claim->order, outcome.entry, outcome.first, keys.size()});
  if (std::is_sorted(keys.begin(), keys.end())) return;
  std::sort(keys.begin(), keys.end());
  std::vector<Outcome> sorted;
  sorted.reserve(outcomes.size());
  for (const Key& key : keys) sorted.push_back(std::move(outcomes[key.place]));
  outcomes = std::move(sorted);
}

}  // namespace escapement::handler
