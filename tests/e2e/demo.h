// The demo: a platform of separate processes, a consumer, real schedules and events, kills; and a
// judge at the end. Half-way the platform is started again with TLS, client certificates between
// the services, and API keys.

#ifndef TESTS_E2E_DEMO_H_
#define TESTS_E2E_DEMO_H_

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/consumer.h"
#include "tests/e2e/judge.h"
#include "tests/fixtures/policy_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::e2e {

struct DemoOptions {
  std::string bin;     // holds services/… and tests/fixtures/receiver
  std::string folder;  // exists; receives data and logs
  int64_t one_off_events = 1000;
  int64_t batch_events = 100'000;
  int64_t throttled_events = 10'000;
  int kills = 3;
  absl::Duration kill_every = absl::Seconds(3);
  // Length of each phase; events that have not come by then are lost.
  absl::Duration phase_timeout = absl::Seconds(90);
};

// Shows progress on stderr and the table on stdout. Returns true if everything held.
absl::StatusOr<bool> RunDemo(const DemoOptions& options);

// Progress: what the demo is doing, as one line that a terminal overwrites. If the output is no
// terminal, a new line every few seconds.

class Progress {
 public:
  void Show(const std::string& words);
  void Clear();

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  absl::Time last_ = absl::InfinitePast();
};

// The demo's schedules over a downtime of the emitter. A cron expression fires the latest of its
// missed occurrences; an interval and a list of instants fire all of them; and one schedule's runs
// must not overlap. All begin and end at given times, so their occurrences are known.

struct TimePhase {
  absl::Duration length = absl::Seconds(20);  // from the schedules' start to their end
  absl::Duration kill_after = absl::Seconds(3);
  // Longer than emitters plan ahead (5 s), so that occurrences are missed.
  absl::Duration down = absl::Seconds(11);
  // Length of the phase; events that have not ended by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
  std::function<void(const std::string& words)> say = {};   // reports steps
};

// Returns one verdict for each schedule.
absl::StatusOr<std::vector<Verdict>> RunTime(const TimePhase& phase,
                                             integration::Platform& platform,
                                             integration::ApiClient& api, const Consumer& consumer);

// The demo's schedules that differ only in their targets: HTTP, gRPC, SQS and Kafka. All fire each
// second from a start to an end, so their occurrences are known.
//
// The queue is local-aws-sqs, the topic is on librdkafka's mock cluster. Both note arrivals in
// milliseconds; the end of the millisecond counts.

struct TransportPhase {
  std::string bin;                            // holds tests/fixtures/kafka/kafka_cluster_main
  absl::Duration length = absl::Seconds(10);  // from the schedules' start to their end
  // Length of the phase; events that have not come by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
};

// Returns one verdict for each target.
absl::StatusOr<std::vector<Verdict>> RunTransports(const TransportPhase& phase,
                                                   integration::ApiClient& api,
                                                   const Consumer& consumer);

// The demo's batches under a policy. The consumer works on each event and gives its token back. It
// counts itself how many distinct events are out.

struct ThrottledPhase {
  std::string what;         // "(e) …"
  std::string schedule_id;  // also the id of the policy
  int64_t events = 10'000;
  int64_t concurrent = 50;
  absl::Duration work = absl::Milliseconds(50);
  bool by_http = false;                       // false: by gRPC
  absl::Duration allowed = absl::Seconds(0);  // from the due time to the last end
  absl::Duration delivery_timeout = absl::Seconds(2);
  // Processes that are killed with -9 and started again, one after the other. The first kill is
  // `kill_every` after the first event has come.
  std::vector<std::string> victims = {};
  absl::Duration kill_every = absl::Seconds(3);

  std::string bin = {};              // as DemoOptions
  std::string folder = {};           // as DemoOptions
  fixtures::CallerProof proof = {};  // the demo and its consumer use it
  std::string key_file = {};         // holds the proof's key
  // Length of the phase; events that have not ended by then are lost.
  absl::Duration timeout = absl::Seconds(90);
  std::function<void(const std::string& words)> show = {};  // shows progress
  std::function<void(const std::string& words)> say = {};   // reports steps
};

// Runs the phase on a platform with a token manager.
absl::StatusOr<Verdict> RunThrottled(const ThrottledPhase& phase, integration::Platform& platform,
                                     integration::ApiClient& api);

// A platform that uses TLS on every port, client certificates between its services, and API keys.

// Files for one such platform, in a folder that exists: an authority, certificates for services and
// a client, and the first key.
struct SecureFiles {
  explicit SecureFiles(const std::string& folder);

  // Options for store, master, emitter, token manager and handler.
  integration::Platform::Options PlatformOptions(const std::string& bin,
                                                 const std::string& folder) const;

  fixtures::CallerProof proof;  // an admin's
  std::string key_file;

 private:
  std::string service_cert_;
  std::string service_key_;
};

}  // namespace escapement::e2e

#endif  // TESTS_E2E_DEMO_H_
