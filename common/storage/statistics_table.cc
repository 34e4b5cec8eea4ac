#include "common/storage/statistics_table.h"

#include <utility>

#include "common/base/key_codec.h"

namespace escapement {
namespace {

constexpr uint8_t kStatistics = 6;
// Kinds of subjects.
constexpr uint8_t kOfTenant = 0;
constexpr uint8_t kOfPolicy = 1;
constexpr uint8_t kOfTarget = 2;

KeyWriter SubjectOf(absl::string_view tenant, uint8_t kind) {
  KeyWriter writer;
  writer.U8(kStatistics).Text(tenant).U8(kind);
  return writer;
}

}  // namespace

std::string TenantStatistics(absl::string_view tenant) {
  return SubjectOf(tenant, kOfTenant).Take();
}

std::string PolicyStatistics(absl::string_view tenant, absl::string_view policy_id) {
  return SubjectOf(tenant, kOfPolicy).Text(policy_id).Take();
}

std::string TargetStatistics(absl::string_view tenant, const Uid& target) {
  return SubjectOf(tenant, kOfTarget).Id(target).Take();
}

std::string StatisticsPrefix() { return KeyWriter().U8(kStatistics).Take(); }

std::string StatisticsKeyFrom(absl::string_view subject, uint32_t hour) {
  return KeyWriter(std::string(subject)).U32(hour).Take();
}

std::string StatisticsKey(absl::string_view subject, uint32_t hour, absl::string_view writer) {
  return KeyWriter(StatisticsKeyFrom(subject, hour)).Text(writer).Take();
}

std::optional<StatisticsRowName> DecodeStatisticsKey(absl::string_view key) {
  KeyReader reader(key);
  if (reader.U8() != kStatistics) return std::nullopt;
  reader.Text();  // the tenant
  switch (reader.U8()) {
    case kOfTenant:
      break;
    case kOfPolicy:
      reader.Text();
      break;
    case kOfTarget:
      reader.Id();
      break;
    default:
      return std::nullopt;
  }
  if (!reader.ok()) return std::nullopt;
  StatisticsRowName name;
  name.subject = std::string(key.substr(0, key.size() - reader.Rest().size()));
  name.hour = reader.U32();
  name.writer = reader.Text();
  if (!reader.done()) return std::nullopt;
  return name;
}

}  // namespace escapement
