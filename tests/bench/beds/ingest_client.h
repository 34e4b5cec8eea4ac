// IngestClient: sends one-off events to EventService.Ingest as fast as it takes them.

#ifndef TESTS_BENCH_BEDS_INGEST_CLIENT_H_
#define TESTS_BENCH_BEDS_INGEST_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/platform_bed.h"

namespace escapement::bench {

struct IngestOptions {
  std::string master;  // "host:port"
  Caller caller = {};
  std::string parent = "tenants/default";
  v1::Target target;
  uint64_t events = 100'000;
  size_t payload_bytes = 500;
  size_t batch_events = 1000;
  int batches_unanswered_max = 8;
  // True: the first half of each payload is random bytes, the second half one letter, so it
  // compresses about as well as users' data. False: one letter throughout.
  bool half_random = false;
  // The client chooses event ids that begin with this. If empty, the server makes the ids.
  std::string client_id_prefix = {};
  v1::Event::IngestMode mode = v1::Event::CREATE;
  absl::Duration delivery_timeout = absl::Seconds(30);
  // No attempt begins later than this after the first one; zero: the platform's default.
  absl::Duration retry_age_max = absl::ZeroDuration();
  std::vector<std::string> policies = {};  // the limits of each event, one token of each
  v1::Completion completion = v1::COMPLETION_UNSPECIFIED;
  // The policy_key of the i-th event, with which its payload begins. If unset: no keys. Only with
  // one policy.
  std::function<std::string(uint64_t i)> policy_key = nullptr;
  // The due time of the i-th event.
  std::function<absl::Time(uint64_t i)> due_time;
};

// ZipfKeys: keys by Zipf's law with exponent 1: the k-th is drawn with a probability in proportion
// to 1 / k. The i-th draw is always the same.
//
// Threads: any.

class ZipfKeys {
 public:
  static constexpr size_t kKeyBytes = 8;  // length of every key

  explicit ZipfKeys(uint64_t keys);
  std::string Draw(uint64_t i) const;

 private:
  // 1 + 1/2 + … + 1/k, for each k.
  std::vector<double> sums_;
};

// Returns the time from the first written batch to the last acknowledged one. Returns an error if
// the stream broke or a batch was refused.
absl::StatusOr<absl::Duration> Ingest(const IngestOptions& options);

// The payload of the i-th event if `half_random`.
std::string HalfRandomPayload(size_t bytes, uint64_t i);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_INGEST_CLIENT_H_
