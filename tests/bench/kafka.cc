// The rate of the handler's Kafka transport, beside a bare producer of librdkafka with the same
// configuration. Both write to mock brokers in a process of their own.
//
//   tools/dev bench kafka [and the flags of bench_run.h]

#include <memory>
#include <string>

#include "common/net/address_rule.h"
#include "services/handler/delivery/kafka/kafka_transport.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/kafka/kafka_attempts.h"
#include "tests/fixtures/kafka/kafka_cluster.h"

namespace escapement::bench {
namespace {

constexpr char kRate[] = "transport alone: Kafka";
constexpr char kLatency[] = "transport alone: Kafka, one at a time";
constexpr char kRaw[] = "bare producer of librdkafka";
constexpr size_t kPayloadBytes = 500;
// As for the other transports (path.cc).
constexpr uint64_t kOutstanding = 4096;

struct Case {
  const char* name;
  uint64_t records;
  uint64_t outstanding;
};

double TransportRateTo(const std::string& brokers, const Case& measured) {
  handler::KafkaTransport transport(
      {.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback())});
  return TransportRate(transport,
                       fixtures::MakeKafkaAttempts(fixtures::KafkaTargetOf(brokers, "bench"),
                                                   {.payload = std::string(kPayloadBytes, 'r')}, 1,
                                                   measured.records),
                       measured.outstanding);
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  fixtures::KafkaCluster cluster(1, setting.bin);
  cluster.MakeTopic("bench", 4);
  const Case cases[] = {{kRate, setting.quick ? 20'000u : 400'000u, kOutstanding},
                        {kLatency, setting.quick ? 100u : 1000u, 1}};
  for (const Case& measured : cases) {
    if (!setting.Wanted(measured.name)) continue;
    for (int i = 0; i < setting.repetitions; ++i) {
      figures.AddRaw(measured.name, "/s", kRaw,
                     RawKafka(cluster.bootstraps(), "bench", measured.records, kPayloadBytes,
                              measured.outstanding));
      const double rate = TransportRateTo(cluster.bootstraps(), measured);
      if (rate == 0) return absl::InternalError("a record was not delivered");
      figures.Add(measured.name, "/s", rate);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "kafka",
       .usage = "measures the Kafka transport beside a bare producer",
       .repetitions = 5,
       .quick_repetitions = 1,
       .run = &escapement::bench::Run});
}
