// PgLog: a SharedLog in PostgreSQL (12 or later), or in anything that speaks like it.
//
// It uses what every installation has: tables, prepared statements, READ COMMITTED. No extension,
// trigger, advisory lock or NOTIFY. All replicas must use the same role, which may then end
// connections of a former leader. A pooler must give each client a connection of its own (session
// mode). docs/adr/0019 says why the statements are safe.
//
// It has two connections: one appends and leads, the other does the rest. The first is kept open
// from the first ReadState on, so that a takeover need not connect. Each has a thread, and a second
// one that looks for a server that was promoted beside its own.
//
// PostgreSQL's configuration decides how much can be lost; pg_findings.h names it. The sessions
// turn synchronous_commit on if it is off or local. Only a report waits for no standby.

#ifndef COMMON_KV_LOG_PG_PG_LOG_H_
#define COMMON_KV_LOG_PG_PG_LOG_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/log/pg/pg_findings.h"
#include "common/kv/log/shared_log.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class PgLog final : public SharedLog {
 public:
  struct Options {
    std::string url;                // pg_connection.h
    std::string store = "default";  // several logs may share a database: 1 to 32 of [a-z0-9-]
    // Runs before it connects for the first time, on a thread of the log, until it has succeeded
    // once; for example to make the schema. It may block. May be empty.
    std::function<absl::Status()> before_connect = nullptr;
    // A statement that waits so long for another writer's transaction fails. Then the log ends the
    // other writer's connection.
    absl::Duration lock_timeout = absl::Milliseconds(500);
    // The server ends a statement after this.
    absl::Duration statement_timeout = absl::Seconds(10);
    // The connection counts as lost if the server is silent for so long.
    absl::Duration silence_max = absl::Seconds(10);
    absl::Duration hosts_asked_every = absl::Seconds(5);  // as in PgSession
    int appends_in_flight_max = 64;
  };

  // Connects later. INVALID_ARGUMENT for bad options.
  static absl::StatusOr<std::unique_ptr<PgLog>> Make(Runtime& runtime, const Options& options);
  ~PgLog() override;

  void ReadState(Callback<LogState> done) override;
  void Lead(LeadRequest request, Callback<LeadResult> done) override;
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override;
  void Read(ReadRequest request, Callback<ReadResult> done) override;
  void MissingFiles(std::vector<SnapshotFile> files,
                    Callback<std::vector<SnapshotFile>> done) override;
  void PutPart(SnapshotPart part, std::function<void(absl::Status)> done) override;
  void PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) override;
  void ListSnapshots(Callback<std::vector<Snapshot>> done) override;
  void ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) override;
  void Trim(uint32_t snapshots_kept, Callback<TrimResult> done) override;
  void PutReport(std::string replica, std::string details,
                 std::function<void(absl::Status)> done) override;
  void ListReports(Callback<std::vector<ReplicaReport>> done) override;

  // The facts of the server that the log is connected to now, except `pooler`. Errors as ReadState.
  void ReadServerFacts(Callback<PgServerFacts> done);

  // Cuts both connections, as a network may.
  void Disconnect();

 private:
  class Core;
  explicit PgLog(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_LOG_H_
