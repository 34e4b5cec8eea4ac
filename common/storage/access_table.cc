#include "common/storage/access_table.h"

#include "common/base/key_codec.h"

namespace escapement {
namespace {

constexpr uint8_t kApiKey = 0;
constexpr uint8_t kUse = 1;

}  // namespace

std::string TenantKey(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::optional<std::string> DecodeTenantKey(absl::string_view key) {
  KeyReader reader(key);
  std::string tenant = reader.Text();
  if (!reader.done()) return std::nullopt;
  return tenant;
}

std::string ApiKeyKey(absl::string_view tenant, absl::string_view key_id) {
  return KeyWriter(ApiKeyPrefix(tenant)).Text(key_id).Take();
}

std::string ApiKeyPrefix() { return KeyWriter().U8(kApiKey).Take(); }

std::string ApiKeyPrefix(absl::string_view tenant) {
  return KeyWriter().U8(kApiKey).Text(tenant).Take();
}

std::optional<std::string> DecodeApiKeyKey(absl::string_view key) {
  KeyReader reader(key);
  const bool of_key = reader.U8() == kApiKey;
  reader.Text();
  std::string key_id = reader.Text();
  if (!of_key || !reader.done()) return std::nullopt;
  return key_id;
}

std::string ApiKeyUseKey(absl::string_view key_id) {
  return KeyWriter().U8(kUse).Text(key_id).Take();
}

std::string EncodeApiKeyUse(absl::Time time) { return KeyWriter().Time(time).Take(); }

absl::Time DecodeApiKeyUse(absl::string_view value) {
  KeyReader reader(value);
  const absl::Time time = reader.Time();
  return reader.done() ? time : absl::InfinitePast();
}

std::string AuditKey(absl::string_view tenant, const AuditPlace& place) {
  return KeyWriter(AuditKeyFrom(tenant, place.time)).Id(place.hash).Take();
}

std::string AuditPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string AuditKeyFrom(absl::string_view tenant, absl::Time time) {
  return KeyWriter().Text(tenant).Time(time).Take();
}

std::optional<AuditName> DecodeAuditKey(absl::string_view key) {
  KeyReader reader(key);
  AuditName name;
  name.tenant = reader.Text();
  name.place.time = reader.Time();
  name.place.hash = reader.Id();
  if (!reader.done()) return std::nullopt;
  return name;
}

}  // namespace escapement
