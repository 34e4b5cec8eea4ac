// NdjsonDoor: POST /v1/{parent}/events:ingest with newline-delimited JSON, the HTTP form of
// EventService.Ingest (proto/escapement/v1/event_service.proto has the contract).
//
// The body may be packed by gzip. A fault in it is the last line of the answer.
//
// Each request is one Ingest stream through the server's in-process channel. Lines become batches
// of up to 1,000 events. At most 8 batches are without an answer, and the body is read only as fast
// as they are answered.
//
// Threads: one executor for all requests.

#ifndef SERVICES_MASTER_INGEST_NDJSON_DOOR_H_
#define SERVICES_MASTER_INGEST_NDJSON_DOOR_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/http/http_server.h"
#include "common/rest/route_table.h"
#include "common/runtime/runtime.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::master {

class NdjsonDoor {
 public:
  // `admit` as in RestDoor::Options.
  NdjsonDoor(std::shared_ptr<grpc::Channel> in_process, Runtime& runtime,
             std::function<absl::Status(HttpRequest&)> admit);
  ~NdjsonDoor();
  NdjsonDoor(const NdjsonDoor&) = delete;
  NdjsonDoor& operator=(const NdjsonDoor&) = delete;

  // `route` must be of EventService.Ingest. The door must outlive the server's thread.
  void AddTo(HttpServer& http, const rest::RestRoute& route);

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<Executor> executor_;
  const std::function<absl::Status(HttpRequest&)> admit_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_NDJSON_DOOR_H_
