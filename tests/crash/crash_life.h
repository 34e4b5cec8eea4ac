// CrashLife: one life of a RocksKvStore under a recorder, from a crash's image to the life's end.
//
// It opens the given disk, checks what was recovered (RecoveryProblem has the rules), and runs a
// workload. A burst's commits are queued together once the burst before is answered. So the same
// seed gives the same decisions and answers, batch for batch. The machine's threads decide when
// flushes, compactions and the witness run.
//
// Threads: one at a time; the workload itself runs on the store's threads.

#ifndef TESTS_CRASH_CRASH_LIFE_H_
#define TESTS_CRASH_CRASH_LIFE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"
#include "tests/crash/crash_image.h"
#include "tests/crash/disk_record.h"
#include "tests/crash/recording_file_system.h"
#include "tests/crash/store_history.h"

namespace escapement::crash {

// An outside observer's knowledge of a store's data.
struct Known {
  StoreHistory history;
  uint64_t answers = 0;      // entries of the history that were answered
  uint64_t incarnation = 0;  // 0: no client knows it
};

class ManualClock final : public Clock {
 public:
  absl::Duration Elapsed() const override { return absl::Microseconds(micros_.load()); }
  absl::Time WallNow() const override {
    return absl::FromUnixMicros(1'750'000'000'000'000 + micros_.load());
  }
  void Advance(absl::Duration by) { micros_ += absl::ToInt64Microseconds(by); }

 private:
  std::atomic<int64_t> micros_{1'000'000};
};

// A folder that is removed at the end; in memory, if the machine has such a file system.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Small buffers, so that little work causes many flushes.
kv::RocksKvStore::Options StoreOptions(const std::string& folder);

// The whole state as scans show it, without the store's own rows. Returns an error if a scan does.
absl::StatusOr<State> ReadState(kv::KvStore& store);

// RecoveryProblem begins with this if a read was answered with an error.
inline constexpr absl::string_view kUnreadable = "cannot be read";

// Checks the content of an opened store. Returns "" if all of this is true:
// - it ends with a commit at or after the last answered one, and is exactly the state after that
// commit: it holds nothing of later commits, nor half a commit;
// - the incarnation is the one that clients know;
// - an answered commit that is sent again gets its first answer;
// - a client that has seen all answers may open a session.
// *seq is the commit it ends with.
std::string RecoveryProblem(kv::RocksKvStore& store, const Known& known, kv::CommitSeq* seq);

struct LifeOptions {
  uint64_t seed = 1;
  int bursts = 60;
  DiskFaults faults;  // may be null
};

struct LifeResult {
  absl::Status opened;
  std::string problem;  // "" if nothing was wrong
  absl::Status fatal;   // why the store ended its process
  DiskContent base;
  std::vector<DiskOperation> operations;
  Known before;  // knowledge at the begin; judges images of the recovery
  Known after;   // knowledge at the end, with the answers of this life
  // Number of the recovery's operations. Their images are judged by `before`.
  size_t recovery = 0;
};

LifeResult RunLife(const DiskContent& base, const Known& known, const LifeOptions& options);

// The knowledge of the store at the instant of an image of this life.
Known KnownAt(const LifeResult& life, const CrashImage& image);

// Opens the image in a folder of its own and checks it, also with new commits.
struct ImageVerdict {
  absl::Status opened;
  absl::Status ended;   // not OK if the store has ended its process
  std::string problem;  // "" if all is right
  kv::CommitSeq seq = 0;
  kv::CommitSeq answered = 0;
};
ImageVerdict JudgeContent(const DiskContent& content, const Known& known, bool reopen);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_CRASH_LIFE_H_
