// IngestTest: ingestions from a mock cluster in a process of its own into FakeEvents.
//
// A test's ingestions end before its cluster.

#ifndef SERVICES_MASTER_INGEST_KAFKA_TESTING_INGEST_TEST_H_
#define SERVICES_MASTER_INGEST_KAFKA_TESTING_INGEST_TEST_H_

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/metrics/metrics.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"
#include "services/master/ingest/kafka/kafka_ingest.h"
#include "services/master/ingest/kafka/metrics.h"
#include "services/master/ingest/kafka/testing/fake_events.h"
#include "tests/fixtures/kafka/kafka_cluster.h"

namespace escapement::master {

inline constexpr char kGroup[] = "masters";
inline constexpr char kErrors[] = "errors";

class IngestTest : public ::testing::Test {
 protected:
  // One ingestion with its own counters: a master.
  struct Member {
    Metrics registry;
    KafkaIngestMetrics metrics{registry};
    std::unique_ptr<KafkaIngest> ingest;
  };

  IngestTest() { cluster_.MakeTopic(kErrors, 1); }
  ~IngestTest() override { members_.clear(); }

  // An ingestion of these topics (TOPIC=TENANT|…).
  KafkaIngestOptions OptionsOf(const std::vector<std::string>& topics) {
    KafkaIngestOptions options;
    options.access.brokers = cluster_.bootstraps();
    options.topics = *TopicRules::Parse(topics, "default");
    options.group = kGroup;
    options.error_topic = kErrors;
    options.backoff_max = absl::Milliseconds(200);
    options.session_timeout = absl::Seconds(3);
    options.stop_patience = absl::Seconds(3);
    return options;
  }
  Member& Start(KafkaIngestOptions options) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    member.ingest = std::make_unique<KafkaIngest>(std::move(options),
                                                  KafkaIngest::Host{.events = events_,
                                                                    .gate = gate_,
                                                                    .runtime = runtime_,
                                                                    .metrics = member.registry,
                                                                    .ready = [] { return true; }});
    const absl::Status started = member.ingest->Start();
    EXPECT_TRUE(started.ok()) << started;
    return member;
  }
  void Stop(Member& member) {
    absl::Notification stopped;
    member.ingest->Stop([&] { stopped.Notify(); });
    EXPECT_TRUE(stopped.WaitForNotificationWithTimeout(absl::Seconds(30)));
    member.ingest.reset();
  }

  // An event in JSON with this id.
  static std::string EventJson(const std::string& id) {
    return absl::StrCat(
        R"({"eventId":")", id,
        R"(","dueTime":"2090-01-01T00:00:00Z","target":{"ping":{"uri":"http://h/"}}})");
  }
  // Writes events "PREFIX-0", "PREFIX-1", ... to a partition.
  void ProduceEvents(const std::string& topic, int partition, const std::string& prefix,
                     int count) {
    for (int i = 0; i < count; ++i) {
      cluster_.Produce(topic,
                       {.partition = partition, .value = EventJson(absl::StrCat(prefix, "-", i))});
    }
  }
  // Makes a topic whose partitions have events "PREFIX<partition>-<i>".
  void MakeTopic(const std::string& topic, int partitions, const std::string& prefix, int count) {
    cluster_.MakeTopic(topic, partitions);
    for (int p = 0; p < partitions; ++p) ProduceEvents(topic, p, absl::StrCat(prefix, p), count);
  }
  void AwaitCommitted(const std::string& topic, int partition, int64_t offset) {
    cluster_.AwaitCommitted(kGroup, topic, partition, offset);
  }

  // Waits until it is true. False: it is not within half a minute.
  static bool Await(const std::function<bool()>& done) {
    for (int tries = 0; tries < 3000; ++tries) {
      if (done()) return true;
      poll(nullptr, 0, 10);
    }
    return false;
  }

  fixtures::KafkaCluster cluster_{2};
  SystemRuntime runtime_;
  FakeEvents events_{runtime_};
  OpenGate gate_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_TESTING_INGEST_TEST_H_
