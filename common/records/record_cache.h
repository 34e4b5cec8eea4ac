// RecordCache: a cache of the states and definitions of schedules.
//
// A watch keeps states current, but only as a hint: every commit that depends on a state has it as
// a condition. Definitions are immutable. The cache is bounded: when it reaches a bound, it forgets
// all states or all definitions and reads them again.
//
// Threads: one, that of `executor`.

#ifndef COMMON_RECORDS_RECORD_CACHE_H_
#define COMMON_RECORDS_RECORD_CACHE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/timetable.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "common/secrets/sealed_value.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

struct CachedState {
  std::string bytes;
  std::optional<storage::v1::StateRecord> record;  // nullopt: the schedule has none
  kv::CommitSeq seq = 0;
};

// The condition that the state of the schedule is as it was read.
kv::Condition StateUnchanged(const Uid& uid, const CachedState& state);

// The timetable of a definition. The first get() makes it, because most events need none.
class LazyTimetable {
 public:
  // `definition` must outlive it.
  void Use(const storage::v1::DefinitionRecord& definition) { definition_ = &definition; }
  const cron::Timetable* get() const;

 private:
  mutable const storage::v1::DefinitionRecord* definition_ = nullptr;  // null: nothing to make
  mutable std::unique_ptr<const cron::Timetable> timetable_;
};

struct CachedDefinition {
  std::shared_ptr<const storage::v1::DefinitionRecord> record;  // null: it does not exist
  std::shared_ptr<const std::string> payload;                   // an alias into `record`
  // When the schedule fires, without the limit of StateRecord.finish_micros. Null if it cannot be
  // read, and for one-off events.
  LazyTimetable timetable;
  std::string target_key;  // see row_judge.h
  // Why the secrets of the target could not be opened (OpenSecretsWith). Empty: they are open.
  std::string closed;
  absl::Duration timeout;
};

// CachedDefinition::closed begins with it, and so does the error of an attempt.
inline constexpr absl::string_view kSecretsClosed = "its secrets cannot be opened";

class RecordCache {
 public:
  // Calls `on_fetched` on `executor` after each fetch. `client` must outlive it.
  RecordCache(kv::KvClient& client, std::shared_ptr<Executor> executor,
              std::function<void()> on_fetched);
  ~RecordCache();

  // Calls `on_changed` on `executor` when the watch reports a change of a cached state. Call it
  // before Start.
  void NotifyChanges(std::function<void(const Uid&)> on_changed) {
    on_changed_ = std::move(on_changed);
  }
  // Calls `on_runs_ended` on `executor` when the watch reports a state, cached or not, that may end
  // waiting rows before they are due: the schedule is deleted, or has cancelled runs. Call it
  // before Start.
  void NotifyRunsEnded(std::function<void(const Uid&)> on_runs_ended) {
    on_runs_ended_ = std::move(on_runs_ended);
  }
  // Opens the secrets of the deliveries that are read from now on. Null: there are no keys, and
  // definitions with secrets get CachedDefinition::closed. Without this call secrets stay sealed.
  // Call it before Start.
  void OpenSecretsWith(std::shared_ptr<const Sealer> sealer) {
    opens_secrets_ = true;
    sealer_ = std::move(sealer);
  }
  void Start();

  // Returns null if the record is not cached. The next Fetch then reads it.
  std::shared_ptr<const CachedState> State(const Uid& uid);
  std::shared_ptr<const CachedDefinition> Definition(const Uid& uid, uint64_t version);
  // Like State, but does not make Fetch read it.
  std::shared_ptr<const CachedState> StateIfKnown(const Uid& uid) const;
  // Like Definition, but does not make Fetch read it.
  std::shared_ptr<const CachedDefinition> DefinitionIfKnown(const Uid& uid, uint64_t version) const;

  // Drops a state that has proved to be old. The answer of a read that is under way is ignored too.
  void ForgetState(const Uid& uid);

  // Reads the records that State and Definition have missed. If a fetch is under way, the next one
  // follows it.
  void Fetch();

  // Forgets all states and reopens the watch. Call it when the session is lost.
  void Restart();

 private:
  void OpenWatch();
  void ForgetStates();
  void OnBatch(const kv::WatchBatch& batch);
  void Read(std::vector<kv::Key> keys);
  void OnRead(uint64_t reading, const std::vector<kv::Key>& keys,
              absl::StatusOr<kv::GetResult> result);
  // Returns CachedDefinition::closed.
  std::string OpenDelivery(storage::v1::DefinitionRecord& record) const;
  void KeepDefinition(const std::string& key, const std::optional<std::string>& value);

  kv::KvClient& client_;
  std::shared_ptr<Executor> executor_;
  std::function<void()> on_fetched_;
  std::function<void(const Uid&)> on_changed_;
  std::function<void(const Uid&)> on_runs_ended_;
  bool opens_secrets_ = false;
  std::shared_ptr<const Sealer> sealer_;
  std::shared_ptr<int> alive_;  // replaced at each restart: callbacks of before are ignored
  std::unique_ptr<kv::Watch> watch_;
  // By key; never iterated.
  absl::flat_hash_map<std::string, std::shared_ptr<const CachedState>> states_;
  // By key; never iterated.
  absl::flat_hash_map<std::string, std::shared_ptr<const CachedDefinition>> definitions_;
  size_t definition_bytes_ = 0;
  // The definition found last: many successive one-off events have the same one.
  struct Found {
    Uid uid;
    uint64_t version = 0;
    std::shared_ptr<const CachedDefinition> definition;  // null: none
  };
  Found found_;
  // The keys that are wanted or being read, with the number of the read; kWanted: none has begun.
  // The answer of a read with another number is ignored, because the key was forgotten after that
  // read began. Never iterated.
  absl::flat_hash_map<std::string, uint64_t> reading_;
  static constexpr uint64_t kWanted = 0;
  uint64_t readings_ = 0;  // counts reads
  // In the order in which they were missed. A key that was forgotten and missed again is here
  // twice.
  std::deque<std::string> wanted_states_;
  std::deque<std::string> wanted_definitions_;
  size_t reads_ = 0;  // under way in the present fetch
};

}  // namespace escapement

#endif  // COMMON_RECORDS_RECORD_CACHE_H_
