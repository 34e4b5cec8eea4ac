// The rate at which one master makes durable events from Kafka messages, beside a bare consumer of
// librdkafka that reads the same topic. The mock brokers, the store and the master are processes of
// their own.
//
//   tools/dev bench kafka_ingest [and the flags of bench_run.h]

#include <poll.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "escapement/v1/resources.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::bench {
namespace {

constexpr char kRaw[] = "bare consumer of librdkafka";
constexpr size_t kPayloadBytes = 200;
// A mock broker keeps at most 5 MB of a partition.
constexpr int kPartitions = 32;
constexpr absl::Duration kPatience = absl::Minutes(5);

v1::Event Event() {
  v1::Event event;
  event.mutable_due_time()->set_seconds(3'786'912'000);  // 2090
  event.set_payload(std::string(kPayloadBytes, 'p'));
  event.mutable_target()->mutable_http()->set_uri("http://consumer.example.com/hook");
  return event;
}

fixtures::KafkaRecord Record(bool json) {
  fixtures::KafkaRecord record;
  record.partition = -1;
  record.value.emplace();
  if (json) {
    google::protobuf::util::MessageToJsonString(Event(), &*record.value);
  } else {
    record.value = Event().SerializeAsString();
    record.headers.emplace_back("content-type", "application/protobuf");
  }
  return record;
}

// From the first message that the master reads until all events are durable.
absl::StatusOr<double> MasterRate(const BenchSetting& setting, const std::string& brokers,
                                  const std::string& topic, const std::string& folder,
                                  uint64_t records) {
  integration::Platform platform(
      {.bin = setting.bin,
       .folder = folder,
       .extra_arguments = {
           {"master",
            {absl::StrCat("--kafka_ingest_brokers=", brokers),
             absl::StrCat("--kafka_ingest_topics=", topic),
             absl::StrCat("--kafka_ingest_group=", folder.substr(folder.rfind('/') + 1)),
             "--kafka_ingest_error_topic=errors"}}}});
  RETURN_IF_ERROR(platform.Start({"store", "master"}));
  const absl::Time deadline = absl::Now() + kPatience;
  absl::Time begin = absl::InfiniteFuture();
  while (absl::Now() < deadline) {
    const auto metric = [&](absl::string_view name) {
      return integration::MetricOf(platform.http_address("master"),
                                   absl::StrCat("escapement_master_kafka_", name, "_total"));
    };
    if (begin == absl::InfiniteFuture() && metric("messages") > 0) begin = absl::Now();
    if (metric("errors") > 0) return absl::InternalError("a message was refused");
    if (metric("events") >= static_cast<double>(records))
      return static_cast<double>(records) / absl::ToDoubleSeconds(absl::Now() - begin);
    poll(nullptr, 0, 5);
  }
  return absl::DeadlineExceededError("not all messages became events");
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  fixtures::KafkaCluster cluster(1, setting.bin);
  cluster.MakeTopic("errors", 1);
  const uint64_t records = setting.quick ? 20'000 : 200'000;
  for (const bool json : {true, false}) {
    const std::string stage = absl::StrCat("events from Kafka, ", json ? "JSON" : "protobuf");
    if (!setting.Wanted(stage)) continue;
    const std::string topic = json ? "json" : "protobuf";
    cluster.MakeTopic(topic, kPartitions);
    cluster.Produce(topic, Record(json), records);
    setting.Measure(stage, figures, [&]() -> absl::Status {
      for (int i = 0; i < setting.repetitions; ++i) {
        const std::string name = absl::StrCat(topic, "-", i);
        figures.AddRaw(stage, "/s", kRaw,
                       RawKafkaConsume(cluster.bootstraps(), topic, "bare-" + name, records));
        const std::string folder = absl::StrCat(setting.folder, "/", name);
        mkdir(folder.c_str(), 0700);
        ASSIGN_OR_RETURN(const auto rate,
                         MasterRate(setting, cluster.bootstraps(), topic, folder, records));
        figures.Add(stage, "/s", rate);
      }
      return absl::OkStatus();
    });
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "kafka_ingest",
       .usage = "measures the ingestion from Kafka beside a bare consumer",
       .repetitions = 3,
       .quick_repetitions = 1,
       .run = &escapement::bench::Run});
}
