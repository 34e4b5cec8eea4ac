// The flags of the Kafka transport, and the transport that they describe.
//
// Threads: call after the flags are parsed, on one thread.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Appends one sentence for each flag with an invalid value.
void ValidateKafkaFlags(std::vector<std::string>& errors);

std::unique_ptr<DeliveryTransport> NewKafkaTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses);

// KafkaTransport: delivers events as records of Kafka topics, by librdkafka.
//
// A record's value is the payload; without a payload it is empty. Its key is the target's key or
// the event's id. Its headers follow the Kafka binding of CloudEvents 1.0 in binary mode, and have
// the platform's own facts (facts.h). The broker's or librdkafka's clock gives its
// timestamp. Records with equal keys go to the partition that Kafka's Java client would choose.
//
// Producers are idempotent and wait for all in-sync replicas (acks=all), so librdkafka's own
// retries write a record once. A retry of the platform writes another record with the same ce_id.
//
// Targets with the same brokers, certificates, credentials and class of timeout
// (KafkaMessageTimeout) share a producer, which is made on first use and closed when it has been
// idle for a while. A producer costs 2 threads and one for each broker of the cluster, some 300
// KiB, and a connection to each broker that it needs. A bootstrap address that no broker has counts
// as a broker. The producer keeps at most 20,000 records or 32 MiB of them.
//
//   delivered                                                kAccepted
//   unknown topic, no permission, policy violation,
//   authentication failed, address not allowed               kFailed
//   the record is too large or invalid                       kRejected; kFailed if other records of
//                                                            its batch may be the cause
//   timed out, and the record may have been written          kUnknown
//   timed out, no broker could be reached                    kFailed, not_sent
//   timed out behind other records, nothing was written      kUnsent
//   the producer's queue is full, or all producers are used  kUnsent
//   certificates or settings that librdkafka refuses         kRejected
//
// If a broker's address is not allowed, or authentication fails, and no record gets through for
// barred_grace, the records that wait fail with that reason. Records for one refused broker of a
// cluster that otherwise works may wait for their timeouts.
//
// Threads: Send may be called from any thread. Results come on the transport's thread and from the
// destructor, which ends outstanding attempts as kUnknown. The destructor waits for librdkafka,
// which may take as long as the resolver of names.

class KafkaTransport final : public DeliveryTransport {
 public:
  struct Options {
    std::shared_ptr<const AddressRule> addresses;  // required
    // Producers, idle ones included. At most 64 more may be closing.
    size_t producers_max = 64;
    absl::Duration idle_timeout = absl::Minutes(5);
    // How long a record waits for others of its batch.
    absl::Duration linger = absl::Milliseconds(1);
    // A topic that the cluster does not know may be new: its records fail after this time.
    absl::Duration unknown_topic_after = absl::Seconds(2);
    // A topic that is unknown, or that the platform may not write to, is looked up again after
    // this time. Until then its records fail at once.
    absl::Duration metadata_refresh = absl::Seconds(30);
    absl::Duration barred_grace = absl::Milliseconds(500);
    absl::Duration connect_timeout = absl::Seconds(10);  // at least 1 s
  };

  explicit KafkaTransport(const Options& options);
  ~KafkaTransport() override;
  KafkaTransport(const KafkaTransport&) = delete;
  KafkaTransport& operator=(const KafkaTransport&) = delete;

  // The target of the definition must be a Kafka target.
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_KAFKA_TRANSPORT_H_
