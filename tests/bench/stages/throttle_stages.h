// Measures batches under policies through the public doors: real processes, RocksDB, and a consumer
// in a process of its own that gives tokens back over a stream.
//
// Threads: none of its own; the main thread only (it starts processes).

#ifndef TESTS_BENCH_STAGES_THROTTLE_STAGES_H_
#define TESTS_BENCH_STAGES_THROTTLE_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/fixtures/policy_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::bench {

struct BatchOptions {
  int64_t events = 0;
  int64_t concurrent = 0;  // the policy's limit; 0: no policy, as for ON_DELIVERY
  v1::Completion completion = v1::ON_RELEASE;
  absl::Duration work = absl::ZeroDuration();
  double completions_per_second = 0;  // 0: as fast as they come
  size_t key_bytes = 0;               // the payload begins with a key of this length; 0: no keys
  absl::Duration timeout = absl::Seconds(120);
  std::function<void()> when_due = nullptr;  // called once
};

struct BatchResult {
  WorkCounts work;
  double per_second = 0;          // from the first arrival to the last completion
  double durable_per_second = 0;  // the same, until the run's record says that all have succeeded
  // Used part of `concurrent`, from the first arrival to the last completion.
  double busy = 0;
  double took_seconds = 0;  // from the due time to the last completion
};

struct BigBatchResult {
  uint64_t rows = 0;  // rows that its emission left in the store
  double per_second = 0;
  // Resident bytes by service: before the batch, and the most during it.
  std::map<std::string, uint64_t> before;
  std::map<std::string, uint64_t> peak;
};

struct FairnessResult {
  double mean = 0;  // the small schedule's waits, divided by the wait under a fair share
  double max = 0;
};

struct KeysOptions {
  int64_t events = 0;
  int64_t keys = 0;
  int64_t concurrent = 0;          // the policy's limit
  int64_t concurrent_per_key = 0;  // the limit for each key
  absl::Duration work = absl::ZeroDuration();
};

// One policy's part of a KeysResult.
struct KeysRun {
  double per_second = 0;  // from the first arrival until 70 % of the events have ended
  int64_t out_max = 0;
  int64_t out_max_of_key = 0;
};

struct KeysResult {
  KeysRun bound;
  KeysRun unbound;  // the same events under a policy whose keys do not bind
  // Rows of these families that are left in the end. Separate processes only.
  std::map<std::string, uint64_t> rows_left;
  // Resident bytes by service: before and after the bound run.
  std::map<std::string, uint64_t> before;
  std::map<std::string, uint64_t> after;
};

// Events beside others that need a full limit, and without them.
struct BesideFullResult {
  ReceiverCounts alone;
  ReceiverCounts beside;
  WorkCounts others;
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

  // One run by gRPC, due at an instant that is known in advance.
  absl::StatusOr<BatchResult> Batch(const BatchOptions& options);

  // The batch waits under a paused policy while its rows are counted. Then it goes, without work,
  // `concurrent` at once. Separate processes only.
  absl::StatusOr<BigBatchResult> BigBatch(int64_t events, int64_t concurrent);

  // Triggers `small` events of one schedule while `large` events of another go out under the same
  // policy. The small schedule's fair share is half of concurrent / work.
  absl::StatusOr<FairnessResult> Fairness(int64_t large, int64_t small, int64_t concurrent,
                                          absl::Duration work);

  // One-off events with keys by Zipf's law (ZipfKeys), all stored before the first goes.
  absl::StatusOr<KeysResult> Keys(const KeysOptions& options);

  // The rate of one-off events that are each under so many policies, of which none binds: from the
  // first arrival to the last completion. All are stored before the first goes.
  absl::StatusOr<double> UnderPolicies(int64_t events, int policies);

  // One-off events under a policy that does not bind, `per_second` of them, alone; then beside
  // `others` of the same policy that also need another one, which has `concurrent` tokens and a
  // consumer of `work`.
  absl::StatusOr<BesideFullResult> BesideFull(double per_second, int64_t events, int64_t others,
                                              int64_t concurrent, absl::Duration work);

 private:
  const std::string& front(const std::string& service) const;
  absl::StatusOr<std::unique_ptr<ReceiverProcess>> StartReceiver(const BatchOptions& options,
                                                                 bool record) const;
  std::string NewId();
  absl::StatusOr<std::string> CreatePolicy(int64_t concurrent);
  // Without `due` it fires only when triggered.
  absl::Status CreateSchedule(const std::string& id, const ReceiverProcess& receiver,
                              const std::string& policy, const BatchOptions& options,
                              std::optional<absl::Time> due);
  // Calls `meanwhile` between its questions.
  absl::StatusOr<WorkCounts> AwaitEnded(const ReceiverProcess& receiver,
                                        const BatchOptions& options,
                                        const std::function<void()>& meanwhile = nullptr);
  // Waits until the run's record says so. Returns when that was.
  absl::StatusOr<absl::Time> AwaitSucceeded(const std::string& id, int64_t events);
  absl::StatusOr<uint64_t> AwaitRows(uint64_t before);
  // Counts of events of the policy that are due one after the other.
  absl::StatusOr<ReceiverCounts> Punctual(const std::string& policy, double per_second,
                                          int64_t events);
  absl::StatusOr<KeysRun> RunKeys(const KeysOptions& options, int64_t concurrent_per_key);
  // Waits until no event of the policy waits or holds a token.
  absl::Status AwaitUnused(const std::string& policy);
  // The rows that are left once their deletion has had time.
  absl::StatusOr<std::map<std::string, uint64_t>> RowsLeft();
  // Resident bytes by service once freed memory is given back.
  absl::StatusOr<std::map<std::string, uint64_t>> SettledBytes();

  const Options options_;
  integration::Platform platform_;
  std::unique_ptr<integration::ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
  int ids_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_THROTTLE_STAGES_H_
