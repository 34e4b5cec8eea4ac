// HostClocks: the wall clocks of other machines, as their clients reported them lately. They are
// evidence for or against a step of the store's own wall clock.
//
// The boot id identifies a machine. Reports from the store's own machine are ignored, because its
// clients read the clock in question. A report counts as read when it arrives. So a report that was
// delayed makes its machine seem behind until the next report.
//
// Pure. Threads: one at a time.

#ifndef COMMON_KV_ENGINE_HOST_CLOCKS_H_
#define COMMON_KV_ENGINE_HOST_CLOCKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

class HostClocks {
 public:
  // A machine counts as connected for this long after its last report; clients report once a
  // second.
  static constexpr absl::Duration kConnectedFor = absl::Seconds(10);
  // Two wall clocks disagree if they differ by more than this.
  static constexpr absl::Duration kAgreeMax = absl::Seconds(1);
  // Reports of further machines are ignored.
  static constexpr size_t kHostsMax = 1024;

  explicit HostClocks(std::string own_boot_id) : own_boot_id_(std::move(own_boot_id)) {}

  // `boottime` is the store's monotonic clock at the arrival of the report.
  void Note(const HostClock& host, absl::Duration boottime);

  struct Count {
    uint32_t connected = 0;
    uint32_t disagree = 0;
  };
  // Counts the machines that are connected at `boottime`. `wall` is the store's wall clock then.
  Count At(absl::Duration boottime, absl::Time wall) const;

 private:
  struct Report {
    absl::Time wall;
    absl::Duration boottime;
  };

  const std::string own_boot_id_;
  std::map<std::string, Report> reports_;  // by boot id
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_HOST_CLOCKS_H_
