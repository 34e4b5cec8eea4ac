// RecordCache: the states and definitions of the schedules whose rows are being handled.
//
// States are kept current by a watch, but only as a hint: each claim has the state it was decided
// by as a condition. Definitions are immutable. Bounded: when a bound is reached everything is
// forgotten and read anew.
//
// Threads: one, that of `executor`.

#ifndef COMMON_RECORDS_RECORD_CACHE_H_
#define COMMON_RECORDS_RECORD_CACHE_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/timetable.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

struct CachedState {
  std::string bytes;
  std::optional<storage::v1::StateRecord> record;  // nullopt: there is none
  kv::CommitSeq seq = 0;
};

// "The state of the schedule is as it was read."
kv::Condition StateUnchanged(const Uid& uid, const CachedState& state);

struct CachedDefinition {
  std::shared_ptr<const storage::v1::DefinitionRecord> record;  // null: there is none
  std::shared_ptr<const std::string> payload;                   // the record's
  // When it fires, but for StateRecord.finish_micros; null if that cannot be read, and of one-off
  // events.
  std::shared_ptr<const cron::Timetable> timetable;
  std::string target_key;  // see TargetKeyOf
  absl::Duration timeout;
};

// "grpc:" uri, or "http:" scheme://host:port.
std::string TargetKeyOf(const storage::v1::TargetRecord& target);

class RecordCache {
 public:
  // `on_fetched` is called on `executor` after each fetch.
  RecordCache(kv::KvClient& client, std::shared_ptr<Executor> executor,
              std::function<void()> on_fetched);
  ~RecordCache();

  // `on_changed` is called on `executor` whenever a watch tells of a change of a known state.
  // Before Start.
  void NotifyChanges(std::function<void(const Uid&)> on_changed) {
    on_changed_ = std::move(on_changed);
  }
  // `on_runs_ended` is called on `executor` whenever a watch tells of a state, known or not, by
  // which rows that wait end before they are due: the schedule is deleted, or has cancelled runs.
  // Before Start.
  void NotifyRunsEnded(std::function<void(const Uid&)> on_runs_ended) {
    on_runs_ended_ = std::move(on_runs_ended);
  }
  void Start();

  // Null: not known yet; it is read by the next Fetch.
  std::shared_ptr<const CachedState> State(const Uid& uid);
  std::shared_ptr<const CachedDefinition> Definition(const Uid& uid, uint64_t version);
  // As State, without asking for it.
  std::shared_ptr<const CachedState> StateIfKnown(const Uid& uid) const;
  // As Definition, without asking for it.
  std::shared_ptr<const CachedDefinition> DefinitionIfKnown(const Uid& uid, uint64_t version) const;

  // What a read under way says of it may be older than what made it wrong: it is read again.
  void ForgetState(const Uid& uid);

  // Reads what was asked for, if anything, and unless a read is under way already (what was asked
  // for meanwhile follows it).
  void Fetch();

  // Forgets everything and opens the watch anew (the session was lost).
  void Restart();

 private:
  void OpenWatch();
  void ForgetStates();
  void OnBatch(const kv::WatchBatch& batch);
  void Read(std::vector<kv::Key> keys);
  void OnRead(uint64_t reading, const std::vector<kv::Key>& keys,
              absl::StatusOr<kv::GetResult> result);
  void KeepDefinition(const std::string& key, const std::optional<std::string>& value);

  kv::KvClient& client_;
  std::shared_ptr<Executor> executor_;
  std::function<void()> on_fetched_;
  std::function<void(const Uid&)> on_changed_;
  std::function<void(const Uid&)> on_runs_ended_;
  std::shared_ptr<int> alive_;  // its address changes with each restart
  std::unique_ptr<kv::Watch> watch_;
  // By key; never iterated.
  absl::flat_hash_map<std::string, std::shared_ptr<const CachedState>> states_;
  // By key; never iterated.
  absl::flat_hash_map<std::string, std::shared_ptr<const CachedDefinition>> definitions_;
  size_t definition_bytes_ = 0;
  // What was found last: many one-off events in a row have the same definition.
  struct Found {
    Uid uid;
    uint64_t version = 0;
    std::shared_ptr<const CachedDefinition> definition;  // null: nothing
  };
  Found found_;
  // Keys whose read is under way, with its number: not wanted again. What another read says of
  // them was asked before they were forgotten. Never iterated.
  absl::flat_hash_map<std::string, uint64_t> reading_;
  uint64_t readings_ = 0;  // numbers given
  std::set<std::string> wanted_states_;
  std::set<std::string> wanted_definitions_;
  size_t reads_ = 0;  // of the fetch under way
};

}  // namespace escapement

#endif  // COMMON_RECORDS_RECORD_CACHE_H_
