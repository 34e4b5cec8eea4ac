// CrashLife: one life of a RocksKvStore, from what a crash has left to its end, under a recorder.
//
// It opens the disk it is given, checks what was recovered (the rules are at RecoveryProblem), and
// runs a workload over it. The commits of a burst are queued together from the answer of the burst
// before, so that the same seed decides and answers the same, batch for batch; when flushes,
// compactions and the witness come between is up to the machine's threads.
//
// Threads: one at a time; the workload itself runs on the store's.

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

// What is known of a store's data from outside.
struct Known {
  StoreHistory history;
  uint64_t answers = 0;      // entries of the history that were answered
  uint64_t incarnation = 0;  // 0: nobody has been told
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

// A folder in memory, if the machine has one, that is removed at the end.
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

// Small buffers, so that little work makes many flushes.
kv::RocksKvStore::Options StoreOptions(const std::string& folder);

// The whole state as its scans show it, without what the store keeps for itself. An error of a scan
// is that.
absl::StatusOr<State> ReadState(kv::KvStore& store);

// What RecoveryProblem begins with if a read was answered with an error.
inline constexpr absl::string_view kUnreadable = "cannot be read";

// "" if what an opened store holds is right:
//  - it ends with a commit at or after the last one that was answered, and is exactly the state
//    after that commit: nothing of later ones, nothing of half a one;
//  - the incarnation is the one that clients know;
//  - an answered commit that is sent again is answered as the first time;
//  - a client that has seen all answers may open a session.
// *seq is the commit it ends with.
std::string RecoveryProblem(kv::RocksKvStore& store, const Known& known, kv::CommitSeq* seq);

struct LifeOptions {
  uint64_t seed = 1;
  int bursts = 60;
  DiskFaults faults;  // may be null
};

struct LifeResult {
  absl::Status opened;
  std::string problem;  // what was wrong, "" if nothing
  absl::Status fatal;   // the store has ended its process
  DiskContent base;
  std::vector<DiskOperation> operations;
  Known before;  // what was known at the begin: holds for the images of the recovery
  Known after;   // what the store has answered and been sent
  // Operations of the recovery: images of these are judged by `before`.
  size_t recovery = 0;
};

LifeResult RunLife(const DiskContent& base, const Known& known, const LifeOptions& options);

// What was known of the store at the instant of an image of this life.
Known KnownAt(const LifeResult& life, const CrashImage& image);

// Opens the image in a folder of its own and checks it, new commits included.
struct ImageVerdict {
  absl::Status opened;
  absl::Status ended;   // not OK: the store has ended its process
  std::string problem;  // "" if all is right
  kv::CommitSeq seq = 0;
  kv::CommitSeq answered = 0;
};
ImageVerdict JudgeContent(const DiskContent& content, const Known& known, bool reopen);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_CRASH_LIFE_H_
