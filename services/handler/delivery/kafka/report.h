// ResultOfReport: the result of an attempt, from librdkafka's report about its record.
//
// Pure.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_REPORT_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_REPORT_H_

#include <librdkafka/rdkafka.h>

#include <string>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

struct KafkaReport {
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  bool possibly_persisted = false;  // the record may be in the topic's log
  // No other record can have been in the same batch, so an error of the batch is the record's own.
  bool alone = false;
  // The producer has delivered other records since it took this one.
  bool delivering = false;
  // The reason why the producer does not reach its brokers: a refused address, an authentication
  // that failed, or the last error of a connection. Empty if none is known.
  std::string trouble = {};
};

// Follows the table in kafka_transport.h.
DeliveryResult ResultOfReport(const KafkaReport& report);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_REPORT_H_
