// The options of a master that an operator may set.

#ifndef SERVICES_MASTER_BASE_OPTIONS_H_
#define SERVICES_MASTER_BASE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/secrets/sealed_value.h"

namespace escapement {
class Metrics;
}

namespace escapement::master {

// A client of a cell's store.
struct OpenedStore {
  std::unique_ptr<kv::KvStore> store;
  kv::StoreAdmin* admin = nullptr;  // its part for operators, a part of `store`; null: none
  // Why nothing can be sent to it; empty: nothing keeps it (StoreConnection::TooOld).
  std::function<std::string()> too_old = [] { return std::string(); };
};
// INVALID_ARGUMENT: these are not addresses of a store (ParseStoreAddresses).
using OpenStore = std::function<absl::StatusOr<OpenedStore>(const std::string& store_address)>;

struct MasterOptions {
  std::string instance = "master";  // in logs and traces
  // The cell of the store (docs/design/cells.md).
  uint32_t cell = 0;
  // Makes clients of the stores of other cells. Null: there are none.
  OpenStore open_store = nullptr;
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
