// The counts (RunParts), payloads and changed rows (RowReads) that a policy shard reads when it
// needs them, and how far they are known.
//
// Threads: one. Pure: the caller reads and writes the store.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_PENDING_READS_H_
#define SERVICES_TOKEN_MANAGER_SHARD_PENDING_READS_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "common/kv/kv_store.h"
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

// RunParts: the counts that the owner of a policy shard keeps for each run; it is their only
// writer. A part is read when it is first needed. Parts of runs that hold tokens are pinned; others
// are kept while there is room.
class RunParts {
 public:
  explicit RunParts(size_t unpinned_max) : unpinned_max_(unpinned_max) {}

  // nullptr: not known yet; it is among what is wanted. Else until the next Trim.
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
    std::optional<storage::v1::RunPartRecord> record;  // nullopt: not known
    uint64_t pins = 0;
    std::list<std::string>::iterator unpinned;  // in unpinned_, of known ones without pins
  };
  const size_t unpinned_max_;
  absl::node_hash_map<std::string, Part> parts_;  // never iterated
  std::list<std::string> unpinned_;               // oldest first
  std::set<std::string> wanted_;
};

// Payloads of one-off events that may now end as dead letters, which repeat them. Each is read for
// one round and forgotten after it.
struct Payloads {
  std::map<std::string, std::string> known = {};  // by key in `events`
  std::set<std::string> wanted = {};
  bool arrived = false;  // some were read since the last round

  // nullptr: it is being read.
  const std::string* Find(const std::string& key) {
    const auto found = known.find(key);
    if (found != known.end()) return &found->second;
    wanted.insert(key);
    return nullptr;
  }
};

// RowReads: which rows and reports are read one by one, because the stored value may differ from
// the one in memory, and whether what is read or reported of a key is older than its deletion.
class RowReads {
 public:
  // The key is to be read: what is being read of it may be of before now.
  void Want(const std::string& key) {
    reading_.erase(key);
    wanted_.insert(key);
  }
  bool wanted() const { return !wanted_.empty(); }
  // True if the key is being read, or will be.
  bool Pending(const std::string& key) const {
    return wanted_.contains(key) || reading_.contains(key);
  }
  // A read of at most `max` keys that begins now.
  struct Read {
    uint64_t number = 0;
    std::vector<std::string> keys = {};
  };
  Read Begin(size_t max);
  // The read has an answer for the key. False: it is stale.
  bool End(const std::string& key, uint64_t number);

  // A row in memory, or a report, was deleted (or is about to be); `read_seq` as it has it.
  void NoteDeleted(const std::string& key, kv::CommitSeq read_seq);
  // The watch reports that the key was deleted: what is being read may be of before that.
  void NoteDeletion(const std::string& key) {
    if (reading_.erase(key) > 0) wanted_.insert(key);
  }
  // True if what commit `seq`, or a snapshot at `seq`, has of the key is older than its deletion.
  bool Stale(const std::string& key, kv::CommitSeq seq) const {
    const auto deleted = deleted_early_keys_.find(key);
    return deleted != deleted_early_keys_.end() && seq <= deleted->second;
  }
  void WatchedTo(kv::CommitSeq seq);

 private:
  void ForgetDeleted();

  std::set<std::string> wanted_;
  // Keys that are being read, with the number of the read. The result of a read with another number
  // is stale, and so is that of a read that began before the row was deleted.
  absl::flat_hash_map<std::string, uint64_t> reading_;  // never iterated
  uint64_t reads_ = 0;                                  // numbers given
  // Rows and reports that were deleted after a read at a snapshot that the watch has not reached
  // yet. Until it has, what the watch says about them is stale.
  std::deque<std::pair<kv::CommitSeq, std::string>> deleted_early_;
  absl::flat_hash_map<std::string, kv::CommitSeq> deleted_early_keys_;  // never iterated
  kv::CommitSeq watched_to_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_PENDING_READS_H_
