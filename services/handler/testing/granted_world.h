// A scripted token manager for tests of a handler: it writes claims of granted events into queue
// shards, and reads the handler's reports.

#ifndef SERVICES_HANDLER_TESTING_GRANTED_WORLD_H_
#define SERVICES_HANDLER_TESTING_GRANTED_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {

using GrantReport = storage::v1::GrantReportRecord::Entry;

struct Granted {
  uint64_t first = 0;
  uint64_t count = 1;
  bool on_release = true;
  std::optional<absl::Time> due = std::nullopt;  // nullopt: now
  absl::Duration send_within = absl::Seconds(10);
  uint32_t attempts = 0;
  uint32_t lost_claims = 0;
  uint64_t claimed_version = 1;
  std::string occurrence = "o";
};

class TestTokenManager {
 public:
  static constexpr uint16_t kPolicyShard = 3;
  static constexpr uint64_t kEpoch = 7;

  explicit TestTokenManager(HandlerWorld& world) : world_(world) {}

  // Writes one claim with a grant for each of `grants`, all of the schedule. Returns the number of
  // the first grant; the others have the next numbers.
  uint64_t Grant(const Uid& uid, const std::vector<Granted>& grants, uint16_t queue_shard = 0);
  // The group that writes it, for tests that add to it.
  kv::Group GrantGroup(const Uid& uid, const std::vector<Granted>& grants, uint16_t queue_shard);

  GrantId Id(uint64_t number) const;

  // The reports since the last call, in the order of the rows.
  std::vector<GrantReport> TakeReports();
  size_t report_rows() const { return report_rows_; }  // read by all TakeReports

 private:
  HandlerWorld& world_;
  uint64_t last_grant_ = 0;
  uint64_t last_claim_ = 0;
  size_t report_rows_ = 0;
};

// The number of events in reports of that kind.
uint64_t EventsOf(const std::vector<GrantReport>& reports,
                  storage::v1::GrantReportRecord::Kind kind);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_TESTING_GRANTED_WORLD_H_
