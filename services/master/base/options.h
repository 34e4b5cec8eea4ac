// The options of a master that an operator may set.

#ifndef SERVICES_MASTER_BASE_OPTIONS_H_
#define SERVICES_MASTER_BASE_OPTIONS_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/secrets/sealed_value.h"

namespace escapement {
class Metrics;
}

namespace escapement::master {

struct MasterOptions {
  std::string instance = "master";  // in logs and traces
  // How far back ListRuns looks for runs of one event: the retention of Done records.
  int run_list_days = 31;
  // Dead letters are collected this long after their events have failed.
  absl::Duration dead_letter_retention = absl::Hours(24 * 30);
  // The tokens' key if the store has none yet: kTokenKeyBytes bytes. Empty: fresh randomness.
  std::string fresh_token_key = {};
  // A file with the first key (key_service.h); empty: none.
  std::string bootstrap_key_file = {};
  // Interval of the platform's own schedule; zero: none (heartbeat_loop.h).
  absl::Duration heartbeat_every = absl::ZeroDuration();
  // Pause between two steps of the watch of occurrences; zero: none (account_loop.h).
  absl::Duration account_every = absl::ZeroDuration();
  // Pause between two rounds of checks of subscriptions; zero: none (notification_loop.h).
  absl::Duration notify_every = absl::ZeroDuration();
  // Seals the secrets of targets. Null: targets can have no secrets.
  std::shared_ptr<const Sealer> sealer = nullptr;
  // Where the counters are; null: the service keeps its own. Outlives the service.
  Metrics* metrics = nullptr;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_OPTIONS_H_
