// RunParts: the part of a policy shard's owner in the runs it works on: counts of which it is the
// only writer. Read when first needed; parts of runs that hold tokens are pinned, others kept as
// long as there is room.
//
// Threads: one. Pure but for what the caller reads and writes for it.

#ifndef SERVICES_TOKEN_MANAGER_JUDGING_RUN_PARTS_H_
#define SERVICES_TOKEN_MANAGER_JUDGING_RUN_PARTS_H_

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::token_manager {

class RunParts {
 public:
  explicit RunParts(size_t unpinned_max) : unpinned_max_(unpinned_max) {}

  // nullptr: not known yet; it is among what is wanted.
  storage::v1::RunPartRecord* Find(const std::string& key);

  // Must be followed by as many Unpin. A part that is not known is wanted.
  void Pin(const std::string& key);
  void Unpin(const std::string& key);

  bool wanted() const { return !wanted_.empty(); }
  std::vector<std::string> TakeWanted(size_t max);
  // What was read; nullopt: there is none. Of a known part it changes nothing.
  void Put(const std::string& key, const std::optional<std::string>& value);

  // Forgets the parts not pinned beyond the bound, oldest first. Not while a commit that has
  // changed some is under way: what is read meanwhile would be of before it.
  void Trim();

  size_t size() const { return parts_.size(); }

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

#endif  // SERVICES_TOKEN_MANAGER_JUDGING_RUN_PARTS_H_
