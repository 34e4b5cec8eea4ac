// Bare libcurl: one thread, one multi handle, no more than that.

#ifndef TESTS_BENCH_RAW_RAW_LIMITS_H_
#define TESTS_BENCH_RAW_RAW_LIMITS_H_

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/bench/figures/figures.h"
#include "tests/fixtures/latency_histogram.h"
#include "tests/fixtures/process/child_process.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

struct pg_conn;  // libpq's PGconn

namespace escapement::bench {

struct CurlEnd {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlHandle = std::unique_ptr<CURL, CurlEnd>;

// A handle that drops the answer's body. It uses no signals and no proxy of the environment.
CurlHandle NewCurlHandle();

// Makes `transfers` transfers in all with these handles, each again as soon as it has ended.
// Returns transfers per second; 0 if one did not end with status 200.
double CurlRate(const std::vector<CurlHandle>& handles, uint64_t transfers);

// The rates of a bare producer and a bare consumer of librdkafka: the raw limits of deliveries to
// Kafka, and of events from it.

// Produces `records` with as many headers as a delivery has, with the transport's configuration. At
// most `outstanding` are not reported at any time. One thread produces and takes the reports.
// Returns records per second, 0 if one was not delivered.
double RawKafka(const std::string& brokers, const std::string& topic, uint64_t records,
                size_t payload_bytes, uint64_t outstanding);

// Reads `records` of a topic from its beginning, as a member of this group, with the ingestion's
// configuration. Returns records per second from the first one on, 0 if they do not come.
double RawKafkaConsume(const std::string& brokers, const std::string& topic,
                       const std::string& group, uint64_t records);

// The raw limit of e-mails: bare libcurl.

// Sends `mails` without TLS over `connections` connections. Each has a thread, because libcurl's
// SMTP waits within a transfer. Returns mails per second; 0 if one was refused.
double RawMail(const std::string& smtp_uri, uint64_t mails, size_t text_bytes, int connections);

// Rates of bare clients against the same receiver: the raw limits of delivery.

// One bidirectional gRPC stream with 4,096 unanswered deliveries. Returns deliveries per second.
double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes);

// Libcurl multi on one thread, with `in_flight` requests that have a delivery's headers. Returns
// requests per second; 0 if one was not answered by 200. `ca`: PEM of the authority of an https
// origin.
double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight,
               const std::string& ca = "");

// The raw limit of SQS deliveries: bare SendMessageBatch requests, signed by libcurl.

// Sends `messages`, ten in a request, with the attributes of a delivery. Libcurl multi on one
// thread, with `in_flight` requests whose bodies are made before the time begins. Returns messages
// per second; 0 if a request was not answered by 200.
double RawSqs(const std::string& origin, const std::string& queue_url,
              const std::string& credentials, uint64_t messages, size_t payload_bytes,
              int in_flight);

// Rates of RocksDB alone with the platform's rows: the raw limit of durable work on this machine.

class RawStore {
 public:
  // `folder` is empty.
  explicit RawStore(const std::string& folder);
  ~RawStore();

  // Puts rows of one-off events with payloads of this size, in synced batches of 1,000. Returns
  // rows per second.
  double PutRows(uint64_t rows, size_t payload_bytes);
  // Puts each row in a synced batch; a later batch deletes it and puts its Done record. Returns
  // rows per second.
  double ChurnRows(uint64_t rows, size_t payload_bytes);

 private:
  rocksdb::DB* db_ = nullptr;
  uint64_t next_ = 0;
};

// Small synchronous writes to the disk: the raw limit of everything that is durable.

// For `duration`, 50 times a second, overwrites 4 KiB of a file of its own in `folder` and syncs
// it. Returns how long each took, in microseconds. Empty if the file cannot be written.
fixtures::LatencyHistogram RawSyncs(const std::string& folder, absl::Duration duration);

// How late a sleeping thread wakes at given instants: the raw limit of everything that must happen
// in time.

// The calling thread sleeps until `count` instants, `per_second` of them each second. Returns by
// how many microseconds it woke late.
fixtures::LatencyHistogram RawTimer(uint64_t count, double per_second);

// The same on each processor, by a thread that runs before all threads that are not real-time
// (SCHED_FIFO); all in one histogram. It is late when a processor stood still. That happens to a
// virtual one whose host gives it less. Empty where real-time threads are not permitted.
fixtures::LatencyHistogram RawRealTimeTimer(uint64_t count, double per_second);

// Bare inserts into PostgreSQL by libpq: the raw limit of the shared log.
//
// The table has a sequence as its key and bytes that are stored as they come. Each insert is one
// synced transaction.
//
// Threads: one at a time.

class RawPostgres {
 public:
  static absl::StatusOr<std::unique_ptr<RawPostgres>> Open(const std::string& url);

  // Inserts with `in_flight` of them unanswered; returns inserts per second.
  absl::StatusOr<double> InsertRate(uint64_t inserts, size_t bytes, uint64_t in_flight);
  // One after the other; in microseconds.
  absl::StatusOr<fixtures::LatencyHistogram> InsertLatencies(uint64_t inserts, size_t bytes);

 private:
  explicit RawPostgres(pg_conn* connection);
  absl::Status Send(const std::string& data);
  absl::Status Take();

  const std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_;
  uint64_t last_seq_ = 0;
};

// The machine's own limits at the time of a load: those of its disk and of its processors.

struct MachineLimits {
  fixtures::LatencyHistogram syncs;      // RawSyncs
  fixtures::LatencyHistogram real_time;  // RawRealTimeTimer, 1,000 instants a second
};

// Measures from now on for `duration`, on threads of its own. Syncs are made in `folder`.
std::future<MachineLimits> MeasureMachineLimits(const std::string& folder, absl::Duration duration);

// Adds p99 and maximum of both, in milliseconds. Leaves real-time timers out where they are not
// permitted.
void AddMachineLimits(const std::string& name, const MachineLimits& limits, Figures& figures);

// The raw limit of a call that one process answers with the help of another: two bare gRPC servers,
// one behind the other. The first sends each request on; the second answers it with given bytes.
//
// Threads: the main thread only (it starts processes).

class RawHops {
 public:
  // `bin` holds tests/bench/raw/unary_hop_main. The answer is written to a file in `folder`.
  static absl::StatusOr<RawHops> Start(const std::string& bin, const std::string& folder,
                                       const std::string& answer);

  // "host:port" of the first. It answers unary calls of every method.
  const std::string& front() const { return front_; }

 private:
  std::unique_ptr<integration::ChildProcess> back_process_;
  std::unique_ptr<integration::ChildProcess> front_process_;
  std::string front_;
};

// Rates of the handler's transports alone, without store and services, in deliveries per second.

// Keeps `outstanding` attempts with the transport, sent in batches as the handler does, until
// `deliveries` have been accepted. Returns 0 if one was not.
double TransportRate(handler::DeliveryTransport& transport, const std::string& uri,
                     uint64_t deliveries, size_t payload_bytes, uint64_t outstanding);

// The same with these attempts.
double TransportRate(handler::DeliveryTransport& transport,
                     std::vector<handler::DeliveryAttempt> attempts, uint64_t outstanding);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_LIMITS_H_
