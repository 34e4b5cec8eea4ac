// ProducerTable: the producers of a KafkaTransport, one for each cluster configuration.
//
// A producer is made when it is first needed, and closed when it was not used for idle_timeout. At
// producers_max, the idle producer that was not used for longest is closed for a new one. If none
// is idle, the new one is refused. A producer with a fatal error is replaced; if it has never
// delivered a record, its configuration fails for broken_for first.
//
// Opening and closing run on threads of their own. While a producer opens, its attempts wait in
// Entry::waiting.
//
// Threads: one at a time, the transport's, except OnOpened's callback and wake.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_TABLE_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/handler/delivery/kafka/background_threads.h"
#include "services/handler/delivery/kafka/producer.h"

namespace escapement::handler {

class ProducerTable {
 public:
  struct Options {
    size_t producers_max = 64;
    // More that are being closed, which may take as long as a name is being resolved.
    size_t closing_max = 64;
    absl::Duration idle_timeout = absl::Minutes(5);
    absl::Duration broken_for = absl::Seconds(1);
    // Each topic of a producer takes some 10 KiB until the producer is closed.
    size_t topics_max = 1024;
  };

  enum class State : uint8_t { kOpening, kOpen, kBroken, kRetired };

  struct Entry {
    std::string key;  // has secrets
    std::unique_ptr<KafkaProducer> producer;
    State state = State::kOpening;
    MonotonicMicros used = 0;
    MonotonicMicros broken_until = 0;  // only for kBroken
    MonotonicMicros barred_since = 0;  // 0: is not barred
    absl::Status why;                  // only for kBroken
    std::vector<KafkaAttempt*> waiting;
  };

  explicit ProducerTable(const Options& options) : options_(options) {}

  // The entry of a key, if there is one that takes attempts or is broken.
  Entry* Find(const std::string& key);
  // The entry with this producer, also if it is retired.
  Entry* FindId(uint64_t id);
  // Makes room and starts to open a producer. Null if there is no room. `opened` is called with the
  // producer's id and its status, on another thread.
  Entry* Open(const std::string& key, KafkaProducer::Options options, MonotonicMicros now,
              std::function<void(uint64_t id, absl::Status status)> opened);
  // The producer takes no more attempts. It is closed when it has none.
  void Retire(Entry* entry);
  // The key fails with `why` until now + broken_for. Then its producer is closed.
  void Break(Entry* entry, absl::Status why, MonotonicMicros now);

  // Closes the producers that are idle, retired or broken for long enough. Call once a second.
  void CloseUnused(MonotonicMicros now);
  void ForEach(const std::function<void(Entry*)>& visit);
  size_t size() const { return by_id_.size(); }
  bool HasTooManyTopics(const Entry& entry) const {
    return entry.producer->topics() >= options_.topics_max;
  }

  // Waits for producers that are being opened.
  void AwaitOpening() { opening_.JoinAll(); }
  // Closes all producers, at once, and waits for that. AwaitOpening comes before.
  void CloseAll();

 private:
  bool MakeRoom();
  static bool IsIdle(const Entry& entry) {
    return entry.state != State::kOpening && entry.producer->attempts() == 0;
  }
  void Close(Entry* entry);

  const Options options_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Entry>> by_id_;
  absl::flat_hash_map<std::string, Entry*> by_key_;  // without the retired ones
  uint64_t last_id_ = 0;
  BackgroundThreads opening_;
  BackgroundThreads closing_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_PRODUCER_TABLE_H_
