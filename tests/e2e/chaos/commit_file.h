// What the store decided, written down by the store's process itself before it is durable, in one
// file for each life of the process, for checkers that judge commits.
//
// A process that is killed leaves decisions that are in the file and not in the store, always the
// last ones. Each life begins its file with the last commit it found durable: whatever a former
// life has written beyond that never was.
//
// Threads: one at a time.

#ifndef TESTS_E2E_CHAOS_COMMIT_FILE_H_
#define TESTS_E2E_CHAOS_COMMIT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"

namespace escapement::chaos {

class CommitFile {
 public:
  // A new file in `folder`, of a life that has found commits up to `found`.
  static absl::StatusOr<std::unique_ptr<CommitFile>> Begin(const std::string& folder,
                                                           kv::CommitSeq found);
  ~CommitFile();
  CommitFile(const CommitFile&) = delete;
  CommitFile& operator=(const CommitFile&) = delete;

  // With one write: whole, or of a process that is killed torn at its end. `now`: true time. Ends
  // the process if it cannot.
  void Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records, absl::Time now);

 private:
  explicit CommitFile(int fd) : fd_(fd) {}
  const int fd_;
};

struct LoggedCommit {
  kv::CommitRecord record;
  absl::Time time;  // when it was decided
};

struct CommitFiles {
  std::vector<LoggedCommit> commits;  // durable, 1, 2, 3 …
  uint64_t undone = 0;                // decided by a life that was killed before they were durable
  int lives = 0;
};

// All files of `folder`; `found`: the last commit that is durable in the end. DATA_LOSS if the
// files do not hold each commit up to it.
absl::StatusOr<CommitFiles> ReadCommitFiles(const std::string& folder, kv::CommitSeq found);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_COMMIT_FILE_H_
