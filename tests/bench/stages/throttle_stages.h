// Batches under policies through the public doors, to be measured: real processes, RocksDB, a
// consumer in a process of its own that gives tokens back over a stream.
//
// Threads: none of its own; the main thread only (it starts processes).

#ifndef TESTS_BENCH_STAGES_THROTTLE_STAGES_H_
#define TESTS_BENCH_STAGES_THROTTLE_STAGES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/receiver_process.h"
#include "tests/fixtures/policy_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::bench {

struct BatchOptions {
  int64_t events = 0;
  int64_t concurrent = 0;  // the policy's limit; 0: no policy, as for ON_DELIVERY
  v1::Completion completion = v1::ON_RELEASE;
  absl::Duration work = absl::ZeroDuration();
  double completions_per_second = 0;  // 0: as they come
  absl::Duration timeout = absl::Seconds(120);
  std::function<void()> when_due = nullptr;  // called once
};

struct BatchResult {
  WorkCounts work;
  double per_second = 0;          // from the first arrival to the last completion
  double durable_per_second = 0;  // … until the run's record says that all have succeeded
  double busy = 0;          // part of `concurrent` that was out, first arrival to last completion
  double took_seconds = 0;  // from the due time to the last completion
};

struct BigBatchResult {
  uint64_t rows = 0;  // that its emission left in the store
  double per_second = 0;
  // Resident bytes before it, and the most while it went, by service.
  std::map<std::string, uint64_t> before;
  std::map<std::string, uint64_t> peak;
};

struct FairnessResult {
  double mean = 0;  // waits of the small schedule's events, divided by what its fair share gives
  double max = 0;
};

class ThrottleStages {
 public:
  struct Options {
    std::string bin;     // holds services/… and tests/fixtures/receiver
    std::string folder;  // exists, empty
    bool separate = false;
    size_t payload_bytes = 500;
  };

  explicit ThrottleStages(const Options& options);

  absl::Status Start();

  // One run by gRPC, due at an instant that is known before.
  absl::StatusOr<BatchResult> Batch(const BatchOptions& options);

  // A batch that waits under a paused policy while its rows are counted, and then goes, no work,
  // `concurrent` at once. Separate processes only.
  absl::StatusOr<BigBatchResult> BigBatch(int64_t events, int64_t concurrent);

  // `small` events of one schedule, set off while `large` events of another go out under the same
  // policy. The fair share of the small one is half of concurrent / work.
  absl::StatusOr<FairnessResult> Fairness(int64_t large, int64_t small, int64_t concurrent,
                                          absl::Duration work);

 private:
  const std::string& front(const std::string& service) const;
  absl::StatusOr<std::unique_ptr<ReceiverProcess>> StartReceiver(const BatchOptions& options,
                                                                 bool record) const;
  std::string NewId();
  absl::StatusOr<std::string> CreatePolicy(int64_t concurrent);
  // Without `due` it fires when it is told to.
  absl::Status CreateSchedule(const std::string& id, const ReceiverProcess& receiver,
                              const std::string& policy, const BatchOptions& options,
                              std::optional<absl::Time> due);
  // Calls `meanwhile` between looks.
  absl::StatusOr<WorkCounts> AwaitEnded(const ReceiverProcess& receiver,
                                        const BatchOptions& options,
                                        const std::function<void()>& meanwhile = nullptr);
  // Waits until the run's record says so; when that was.
  absl::StatusOr<absl::Time> AwaitSucceeded(const std::string& id, int64_t events);
  absl::StatusOr<uint64_t> AwaitRows(uint64_t before);

  const Options options_;
  integration::Platform platform_;
  std::unique_ptr<integration::ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
  int ids_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_THROTTLE_STAGES_H_
