#include "common/kv/engine/host_clocks.h"

namespace escapement::kv {

void HostClocks::Note(const HostClock& host, absl::Duration boottime) {
  if (host.boot_id.empty() || host.boot_id == own_boot_id_) return;
  if (!reports_.contains(host.boot_id)) {
    std::erase_if(reports_, [&](const auto& report) {
      return boottime - report.second.boottime > kConnectedFor;
    });
    if (reports_.size() >= kHostsMax) return;
  }
  reports_[host.boot_id] = {host.wall, boottime};
}

HostClocks::Count HostClocks::CountAt(absl::Duration boottime, absl::Time wall) const {
  Count count;
  for (const auto& [boot_id, report] : reports_) {
    const absl::Duration since = boottime - report.boottime;
    if (since > kConnectedFor) continue;
    ++count.connected;
    if (absl::AbsDuration(report.wall + since - wall) > kAgreeMax) ++count.disagree;
  }
  return count;
}

}  // namespace escapement::kv
