// Reads the content of a data folder after its last store has ended.

#ifndef TESTS_E2E_CHAOS_BASE_COMMIT_FILE_H_
#define TESTS_E2E_CHAOS_BASE_COMMIT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"

namespace escapement::chaos {

// Reads one column family from a running store, in pages.
absl::Status ReadFamily(kv::KvStore& store, kv::ColumnFamily cf, kv::MemDisk* disk);

struct EndState {
  kv::MemDisk disk;
  kv::CommitSeq seq = 0;  // the last commit that the store's last life left durable
};

// Opens the folder like a store.
absl::StatusOr<EndState> ReadEndState(const std::string& data_dir);

// The store's decisions, for checkers that judge commits. The store's process writes them before
// they are durable, into one file for each life of the process.
//
// A killed process leaves decisions in its file that never became durable; they are always the last
// ones. Each life notes the last commit it found durable. Decisions of a former life after that
// commit do not count.
//
// Threads: one at a time.

class CommitFile {
 public:
  // Makes a new file in `folder`, for a life that has found commits up to `found`.
  static absl::StatusOr<std::unique_ptr<CommitFile>> Begin(const std::string& folder,
                                                           kv::CommitSeq found);
  // Makes a new file for a term of a replicated store's leader. Several processes may share the
  // folder, since each epoch belongs to one of them.
  static absl::StatusOr<std::unique_ptr<CommitFile>> BeginTerm(const std::string& folder,
                                                               uint64_t epoch);
  ~CommitFile();
  CommitFile(const CommitFile&) = delete;
  CommitFile& operator=(const CommitFile&) = delete;

  // Writes with one call, so only a kill can tear the last record. `now`: true time. Ends the
  // process if it cannot write.
  void Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records, absl::Time now);

 private:
  static absl::StatusOr<std::unique_ptr<CommitFile>> Make(const std::string& path, uint64_t number);
  explicit CommitFile(int fd) : fd_(fd) {}
  const int fd_;
};

struct LoggedCommit {
  kv::CommitRecord record;
  absl::Time time;  // when it was decided
};

struct CommitFiles {
  std::vector<LoggedCommit> commits;  // the durable commits 1, 2, 3 …
  uint64_t undone = 0;                // decisions that were lost when a life was killed
  int lives = 0;
};

// Reads all files of `folder`. `found`: the last commit that is durable in the end. DATA_LOSS if
// the files do not hold every commit up to it.
absl::StatusOr<CommitFiles> ReadCommitFiles(const std::string& folder, kv::CommitSeq found);

// The epochs whose terms have a file, in order.
std::vector<uint64_t> TermsIn(const std::string& folder);
// The decisions of this term's leader. Only the log says which of them are durable.
absl::StatusOr<std::vector<LoggedCommit>> ReadTermFile(const std::string& folder, uint64_t epoch);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_BASE_COMMIT_FILE_H_
