// Retentions: how long the outcomes of each tenant are kept.
//
// Pure.

#ifndef SERVICES_HANDLER_RETENTION_RETENTIONS_H_
#define SERVICES_HANDLER_RETENTION_RETENTIONS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace escapement::handler {

class Retentions {
 public:
  // `platform`: of tenants that have none of their own.
  explicit Retentions(absl::Duration platform) : platform_(platform), shortest_(platform) {}

  // Takes a row of `tenants`. A row that cannot be read changes nothing.
  void Add(const std::string& value);

  absl::Duration Of(const std::string& tenant) const {
    const auto found = of_tenant_.find(tenant);
    return found == of_tenant_.end() ? platform_ : found->second;
  }
  absl::Duration shortest() const { return shortest_; }

  friend bool operator==(const Retentions&, const Retentions&) = default;

 private:
  absl::Duration platform_;
  absl::Duration shortest_;
  std::map<std::string, absl::Duration> of_tenant_;  // tenants with one of their own
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_RETENTION_RETENTIONS_H_
