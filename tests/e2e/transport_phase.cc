#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/demo.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/sqs/sqs_server.h"

namespace escapement::e2e {
namespace {

using integration::ApiClient;
using integration::ToTimestamp;
using nlohmann::json;

constexpr char kQueue[] = "demo";
constexpr char kTopic[] = "demo";

std::string IdOf(const std::string& transport) { return absl::StrCat("transport-", transport); }
std::string TransportSourceOf(const std::string& transport) {
  return absl::StrCat("/tenants/default/schedules/", IdOf(transport));
}

// Without jitter, events launch at their nominal time.
Arrival ArrivalOf(const std::string& id, const std::string& time, const std::string& body,
                  int64_t millis) {
  return {.event_id = id,
          .launch_micros = fixtures::ParseUtcMicros(time),
          .wall_micros = millis * 1000 + 999,
          .body_hash = body};
}

class TransportRun {
 public:
  TransportRun(const TransportPhase& options, ApiClient& api, const Consumer& consumer)
      : options_(options),
        api_(api),
        consumer_(consumer),
        sqs_(fixtures::SqsServer::StartLocal()),
        kafka_(/*brokers=*/1, options.bin) {
    sqs_->Call("AmazonSQS.CreateQueue", {{"QueueName", kQueue}});
    kafka_.MakeTopic(kTopic, /*partitions=*/2);
  }

  absl::StatusOr<std::vector<Verdict>> Run() {
    RETURN_IF_ERROR(Create());
    RETURN_IF_ERROR(Await());
    std::vector<Verdict> verdicts;
    for (const auto& [transport, name] : {std::pair("http", "HTTP"), std::pair("grpc", "gRPC"),
                                          std::pair("sqs", "SQS"), std::pair("kafka", "Kafka")}) {
      ASSIGN_OR_RETURN(auto arrivals, ArrivalsBy(transport));
      verdicts.push_back(JudgeInstants(absl::StrCat("(h) each second, ", name), arrivals, due_,
                                       /*again_allowed=*/false));
    }
    return verdicts;
  }

 private:
  v1::Target SqsTarget() const { return integration::SqsTo(sqs_->QueueUrl(kQueue), "demo:demo"); }

  v1::Target KafkaTarget() const { return integration::KafkaTo(kafka_.bootstraps(), kTopic); }

  absl::Status Create() {
    const int64_t start = absl::ToUnixSeconds(absl::Now()) + 4;
    end_ = absl::FromUnixSeconds(start) + options_.length;
    v1::Schedule schedule;
    schedule.set_cron("* * * * * *");
    *schedule.mutable_start_time() = ToTimestamp(absl::FromUnixSeconds(start));
    *schedule.mutable_end_time() = ToTimestamp(end_);
    schedule.set_payload("{\"of\":\"transports\"}");
    for (absl::Time time = absl::FromUnixSeconds(start); time < end_; time += absl::Seconds(1))
      due_.insert(absl::ToUnixMicros(time));
    for (const auto& [transport, target] :
         {std::pair("http", integration::HttpTo(consumer_.http_uri("/transports"))),
          std::pair("grpc", integration::GrpcTo(consumer_.grpc_uri())),
          std::pair("sqs", SqsTarget()), std::pair("kafka", KafkaTarget())}) {
      *schedule.mutable_target() = target;
      if (auto created = api_.CreateSchedule(IdOf(transport), schedule); !created.ok())
        return created.status();
    }
    return absl::OkStatus();
  }

  // Waits for the end of the schedules and for as many events as they have.
  absl::Status Await() {
    const absl::Time deadline = end_ + options_.timeout;
    while (absl::Now() < deadline) {
      size_t least = due_.size();
      for (const char* transport : {"http", "grpc", "sqs", "kafka"}) {
        ASSIGN_OR_RETURN(auto arrivals, ArrivalsBy(transport));
        least = std::min(least, arrivals.size());
      }
      options_.show(
          absl::StrFormat("demo: %-36s %7d of %d", "four transports", least, due_.size()));
      if (least == due_.size() && absl::Now() > end_) break;
      poll(nullptr, 0, 200);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Arrival>> ArrivalsBy(const std::string& transport) {
    if (transport == "sqs") return FromQueue();
    if (transport == "kafka") return FromTopic();
    return consumer_.ListArrivals(TransportSourceOf(transport));
  }

  // All messages so far. Received ones are deleted from the queue.
  std::vector<Arrival> FromQueue() {
    while (true) {
      const json answer =
          sqs_->Call("AmazonSQS.ReceiveMessage", {{"QueueUrl", sqs_->QueueUrl(kQueue)},
                                                  {"MaxNumberOfMessages", 10},
                                                  {"AttributeNames", {"All"}},
                                                  {"MessageAttributeNames", {"All"}}});
      const json messages = answer.value("Messages", json::array());
      if (messages.empty()) return from_queue_;
      for (const json& message : messages) {
        const json& attributes = message["MessageAttributes"];
        from_queue_.push_back(
            ArrivalOf(attributes["ce_id"]["StringValue"], attributes["ce_time"]["StringValue"],
                      message["Body"],
                      std::stoll(message["Attributes"]["SentTimestamp"].get<std::string>())));
        sqs_->Call("AmazonSQS.DeleteMessage", {{"QueueUrl", sqs_->QueueUrl(kQueue)},
                                               {"ReceiptHandle", message["ReceiptHandle"]}});
      }
    }
  }

  std::vector<Arrival> FromTopic() {
    std::vector<Arrival> arrivals;
    for (const fixtures::KafkaRecord& record : kafka_.Read(kTopic)) {
      arrivals.push_back(ArrivalOf(record.Header("ce_id"), record.Header("ce_time"),
                                   record.value.value_or(""), record.timestamp));
    }
    return arrivals;
  }

  const TransportPhase& options_;
  ApiClient& api_;
  const Consumer& consumer_;
  const std::unique_ptr<fixtures::SqsServer> sqs_;
  fixtures::KafkaCluster kafka_;
  absl::Time end_;
  std::set<int64_t> due_;  // microseconds
  std::vector<Arrival> from_queue_;
};

}  // namespace

absl::StatusOr<std::vector<Verdict>> RunTransports(const TransportPhase& phase, ApiClient& api,
                                                   const Consumer& consumer) {
  return TransportRun(phase, api, consumer).Run();
}

}  // namespace escapement::e2e
