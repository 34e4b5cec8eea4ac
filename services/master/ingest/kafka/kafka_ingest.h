// KafkaIngest: an IngestLoop on a thread of its own. The master hosts it if its flags say so.
//
// Threads: Start, and the destructor, come from one thread. Stop may be called from any, once,
// after Start.

#ifndef SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_H_
#define SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/metrics/metrics.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"
#include "common/tls/tls_files.h"
#include "services/master/api/master_apis.h"
#include "services/master/ingest/kafka/ingest_loop.h"
#include "services/master/ingest/kafka/options.h"

namespace escapement::master {

class KafkaIngest {
 public:
  // The parts of its master; all outlive it.
  struct Host {
    EventApi& events;
    CallGate& gate;
    Runtime& runtime;
    Metrics& metrics;
    // Any thread. The group is joined when it is true for the first time.
    std::function<bool()> ready;
  };

  KafkaIngest(KafkaIngestOptions options, Host host);
  // Without Stop: drops what is under way.
  ~KafkaIngest();
  KafkaIngest(const KafkaIngest&) = delete;
  KafkaIngest& operator=(const KafkaIngest&) = delete;

  // INVALID_ARGUMENT: librdkafka refuses an option. RESOURCE_EXHAUSTED: no memory or thread.
  absl::Status Start();

  // Takes no more messages, waits for answers, commits and leaves the group. Then `done` runs on
  // the thread. Bounded by twice stop_patience.
  void Stop(Closure done);

 private:
  void Run();
  // Waits until the master is ready. False: it is stopped first.
  bool AwaitReady();

  const KafkaIngestOptions options_;
  const Host host_;
  std::unique_ptr<IngestLoop> loop_;  // only the thread's, except Wake
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool orderly_ ABSL_GUARDED_BY(mutex_) = false;  // by Stop
  Closure done_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// The flags of the ingestion from Kafka, and the options that they describe.
//
// Threads: call after the flags are parsed, on one thread.

// Appends one sentence for each flag with an invalid value.
void ValidateKafkaIngestFlags(std::vector<std::string>& errors);

// The certificate files that they name.
std::vector<TlsPaths> KafkaIngestCertificates();

// nullopt: the ingestion is off. Reads the files that the flags name. An error names the file and
// never quotes its content.
absl::StatusOr<std::optional<KafkaIngestOptions>> KafkaIngestOptionsFromFlags();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_KAFKA_INGEST_H_
