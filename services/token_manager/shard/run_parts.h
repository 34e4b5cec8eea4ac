// RunParts: the counts that the owner of a policy shard keeps for each run; it is their only
// writer. A part is read when it is first needed. Parts of runs that hold tokens are pinned; others
// are kept while there is room.
//
// Threads: one. Pure: the caller reads and writes the store.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_RUN_PARTS_H_
#define SERVICES_TOKEN_MANAGER_SHARD_RUN_PARTS_H_

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::token_manager {

// Takes the first elements of the set, at most `max`.
template <typename T>
std::vector<T> TakeFirst(std::set<T>& set, size_t max) {
  std::vector<T> taken;
  while (!set.empty() && taken.size() < max)
    taken.push_back(std::move(set.extract(set.begin()).value()));
  return taken;
}

class RunParts {
 public:
  explicit RunParts(size_t unpinned_max) : unpinned_max_(unpinned_max) {}

  // nullptr: not known yet; it is among what is wanted.
  storage::v1::RunPartRecord* Find(const std::string& key);

  // Must be followed by as many Unpin. A part that is not known is wanted.
  void Pin(const std::string& key);
  void Unpin(const std::string& key);

  bool wanted() const { return !wanted_.empty(); }
  std::vector<std::string> TakeWanted(size_t max) { return TakeFirst(wanted_, max); }
  // Sets a part as it was read; nullopt: there is none. A known part stays as it is.
  void Put(const std::string& key, const std::optional<std::string>& value);

  // Evicts parts above the bound that are not pinned, the oldest first. Not while a commit that
  // changes parts is under way: a read during it would return the counts before it.
  void Trim();

 private:
  struct Part {
    storage::v1::RunPartRecord record;
    bool known = false;
    uint64_t pins = 0;
    std::list<std::string>::iterator unpinned;  // in unpinned_, of known ones without pins
  };
  const size_t unpinned_max_;
  absl::flat_hash_map<std::string, Part> parts_;  // never iterated
  std::list<std::string> unpinned_;               // oldest first
  std::set<std::string> wanted_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_RUN_PARTS_H_
