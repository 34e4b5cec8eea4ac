// ReplicaLoop: one replica of a store: follows the log, takes over when the leader is silent,
// leads, and steps down.
//
//   follow: read the log's state every kPollInterval, apply new rows
//     | silence, or a handover (TakeoverTimer), and all rows are applied
//     v
//   lead: Lead over the state as seen, leader record acknowledged, serve (ReplicaCopy)
//     | another one leads, or a handover (HandOver, ReplicaCopy::WriteHandover)
//     v
//   follow
//
// If the copy has rows that the log does not have, it waits for kPatience, because a leader may
// append lost rows again. If all of these rows may have been unacknowledged, it then drops the copy
// and begins with a snapshot or the log's beginning. If the log does not show whether it has the
// copy's rows, because it was trimmed beyond them or is damaged, it does the same, but the copy is
// renamed and not deleted. If the log lacks an acknowledged row
// (LogPlace::proven), or is another log, the replica refuses: it keeps its copy, serves nothing,
// and looks again, until the log has the rows or an operator accepts the loss. A leader that cannot
// append lost rows again refuses until it is restarted.
//
// Threads: all work is done on one executor. Any thread may call the public methods.

#ifndef COMMON_KV_REPLICA_REPLICA_LOOP_H_
#define COMMON_KV_REPLICA_REPLICA_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/replica_copy.h"
#include "common/kv/replica/replica_snapshots.h"
#include "common/kv/replica/takeover_timer.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

enum class ReplicaRole : uint8_t { kStarting, kFollower, kCandidate, kLeader, kRefusing };

struct ReplicaStatus {
  ReplicaRole role = ReplicaRole::kStarting;
  LogTerm leader;              // as last seen in the log
  std::string leader_address;  // empty: none is known
  uint64_t log_seq = 0;        // the log's last row, as last seen
  uint64_t applied_seq = 0;    // the copy's
  uint64_t proven_seq = 0;     // the copy's last row that is known to have been acknowledged
  uint64_t log_bytes = 0;      // bytes of all rows up to it
  absl::Duration behind;       // how long the copy has had less than the log; zero while it leads
  // How long ago the last acknowledged row was begun; zero unless it leads. A leader appends at
  // least every kBeatInterval. From kLeaseMax on it answers nothing, and another one may lead.
  absl::Duration unacknowledged;
  // The newest snapshot's last row and its store time; 0 and InfinitePast if none is known.
  uint64_t snapshot_seq = 0;
  absl::Time snapshot_time = absl::InfinitePast();
  absl::Status problem;  // the present obstacle; OK without one
};

class ReplicaLoop {
 public:
  static constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
  static constexpr absl::Duration kPatience = kSilenceMax;
  static constexpr absl::Duration kReportInterval = absl::Seconds(1);

  struct Options {
    std::string owner;    // unique for each life of a process
    std::string address;  // where clients reach this replica
    std::string name;     // the same in each life of the process; for its reports in the log
    // Makes a report's details, on the loop's executor. Null: there are no reports.
    std::function<std::string(const ReplicaStatus&)> report = nullptr;
    // A snapshot is made when the log has grown by so much since the last one, or after so long. A
    // follower makes it; the leader only if it is overdue by a quarter. Among followers the one
    // that made the last one comes first.
    uint64_t snapshot_log_bytes = uint64_t{1} << 30;
    absl::Duration snapshot_age = absl::Hours(24);
    absl::Duration snapshot_check = absl::Seconds(10);  // how often it looks
    // Called on the loop's executor when the role has changed. May be empty.
    std::function<void(ReplicaRole)> on_role;
    // The log may lack acknowledged rows that the copy has: the copy is set aside.
    bool accept_loss = false;
  };
  // The arguments must outlive the loop.
  ReplicaLoop(Runtime& runtime, SharedLog& log, ReplicaCopy& copy, ReplicaSnapshots& snapshots,
              Options options);
  ~ReplicaLoop();

  void Start();
  // Stops leading at once, without a handover. Stops the snapshots, too. Blocks until the copy is
  // no longer used.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // If this replica leads, it gives up its term so that another one takes over at once. Otherwise
  // it does nothing. Then runs `done` on the loop's executor.
  void HandOver(Closure done);

  ReplicaStatus status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void ReadState();
  void PollAfter(absl::Duration delay);
  void OnState(const absl::StatusOr<LogState>& state);
  void Follow(const LogState& state);
  void BeginCopy();
  void OnRestored(const absl::StatusOr<ReplicaSnapshots::Found>& found);
  void Report();
  void CheckSnapshots();
  void OnNewest(const absl::StatusOr<ReplicaSnapshots::Found>& newest);
  bool SnapshotIsDue(const ReplicaSnapshots::Found& newest);
  void ReadRows();
  void OnRows(absl::StatusOr<ReadResult> result);
  void OnForeignRows(const absl::Status& why);
  void OnProvenRead(const absl::Status& why, const absl::Status& proven);
  void DropCopy(const absl::Status& why);
  void SetCopyAside(const absl::Status& why);
  void Refuse(const absl::Status& why);
  void TryToLead(const LogState& state);
  void OnLed(const LeadResult& result);
  void OnLeaderRecord(uint64_t epoch, std::string record, const absl::Status& acknowledged);
  void OnStarted(uint64_t epoch, const absl::Status& status);
  void OnHandedOver(uint64_t epoch);
  void OnEnded(uint64_t epoch, const absl::Status& why);
  void StepDown();
  void Note(const absl::Status& problem) ABSL_LOCKS_EXCLUDED(mu_);
  void NoteCopy(const LogPlace& place) ABSL_LOCKS_EXCLUDED(mu_);
  void SetRole(ReplicaRole role) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<LeaderLog> leader_log() const ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  Runtime& runtime_;
  SharedLog& log_;
  ReplicaCopy& copy_;
  ReplicaSnapshots& snapshots_;
  const Options options_;
  const std::shared_ptr<Executor> executor_;

  // On the executor.
  Executor::TimerId poll_timer_ = 0;  // 0 while a call to the log is under way
  LogState state_;                    // the last one read
  bool restoring_ = false;
  uint64_t uploaded_seq_ = 0;  // the last row of the last snapshot that this process has made
  TakeoverTimer timer_;
  ReplicaRole role_ = ReplicaRole::kStarting;
  absl::Duration end_known_since_;               // when it tried to lead
  uint64_t attempted_epoch_ = 0;                 // the epoch that the last try to lead would begin
  bool serving_ = false;                         // the copy leads, from StartLeading to StopLeading
  bool has_lost_ = false;                        // the log lost rows of this process's term
  bool handing_over_ = false;                    // WriteHandover has no answer yet
  std::optional<absl::Duration> behind_since_;   // since when the copy has had less than the log
  absl::Duration read_at_;                       // the last read of rows began
  std::optional<absl::Duration> foreign_since_;  // since when the copy has rows that the log lacks

  mutable absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<LeaderLog> leader_log_ ABSL_GUARDED_BY(mu_);  // null without a term
  ReplicaStatus status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_REPLICA_LOOP_H_
