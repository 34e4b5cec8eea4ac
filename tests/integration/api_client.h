// ApiClient: the public gRPC API as blocking calls, for tests and the demo.
//
// Every call waits until the server is reachable, at most `timeout`.
//
// Threads: any.

#ifndef TESTS_INTEGRATION_API_CLIENT_H_
#define TESTS_INTEGRATION_API_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "tests/fixtures/policy_client.h"

namespace escapement::integration {

class ApiClient {
 public:
  // `address` is a master's "host:port".
  explicit ApiClient(const std::string& address, absl::Duration timeout = absl::Seconds(20),
                     const fixtures::CallerProof& proof = {});
  ~ApiClient();

  // All names are in tenant "default". The id is the last part of the name.
  absl::StatusOr<v1::Schedule> CreateSchedule(const std::string& id, const v1::Schedule& schedule);
  absl::StatusOr<v1::Schedule> GetSchedule(const std::string& id);
  absl::StatusOr<v1::Schedule> PauseSchedule(const std::string& id);
  absl::StatusOr<v1::Schedule> ResumeSchedule(const std::string& id);
  // Backfills at most max_occurrences of [start, end).
  absl::StatusOr<v1::BackfillScheduleResponse> BackfillSchedule(const std::string& id,
                                                                absl::Time start, absl::Time end,
                                                                int max_occurrences);
  absl::StatusOr<v1::PreviewScheduleResponse> PreviewSchedule(
      const v1::PreviewScheduleRequest& request);
  absl::Status DeleteSchedule(const std::string& id);
  // A `request_id` makes the call safe to repeat.
  absl::StatusOr<v1::Run> TriggerSchedule(const std::string& id, int64_t event_count = 0,
                                          const std::string& request_id = "");
  // All runs of the schedule.
  absl::StatusOr<std::vector<v1::Run>> ListRuns(const std::string& id);
  absl::StatusOr<v1::Run> GetRun(const std::string& name);

  // Creates the events in batches. Returns the first error.
  absl::Status CreateEvents(const std::vector<v1::Event>& events);
  // An event with a client-chosen id.
  absl::StatusOr<v1::Event> CreateEvent(const std::string& event_id, const v1::Event& event);
  absl::StatusOr<v1::Event> GetEvent(const std::string& name);
  absl::StatusOr<v1::Event> CancelEvent(const std::string& name);
  // The first page of the events that have not ended.
  absl::StatusOr<std::vector<v1::Event>> ListPendingEvents();
  // All one-off events that fulfil ListEventsRequest.filter.
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const std::string& filter);

 private:
  struct Stubs;
  std::unique_ptr<Stubs> stubs_;
  const absl::Duration timeout_;
};

google::protobuf::Timestamp ToTimestamp(absl::Time time);

// Targets.
v1::Target HttpTo(const std::string& uri);
// Trusts the certificates `ca` (PEM).
v1::Target HttpsTo(const std::string& uri, const std::string& ca);
v1::Target GrpcTo(const std::string& uri);
v1::Target SqsTo(const std::string& queue_url, const std::string& credentials = "AKIDTEST:secret");
v1::Target KafkaTo(const std::string& brokers, const std::string& topic);
// Mail from one person to another, without TLS.
v1::Target EmailTo(const std::string& smtp_uri);

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_API_CLIENT_H_
