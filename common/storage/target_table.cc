#include "common/storage/target_table.h"

#include "common/base/key_codec.h"
#include "common/base/stable_hash.h"

namespace escapement {

Uid TargetIdOf(absl::string_view target_key) { return StableHash128(target_key); }

std::string EncodeTargetRowKey(const TargetRowName& name) {
  return KeyWriter(TargetRowPrefix(name.tenant, name.target)).Text(name.handler).Take();
}

std::optional<TargetRowName> DecodeTargetRowKey(absl::string_view key) {
  KeyReader reader(key);
  TargetRowName name;
  name.tenant = reader.Text();
  name.target = reader.Id();
  name.handler = reader.Text();
  if (!reader.done()) return std::nullopt;
  return name;
}

std::string TargetRowPrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string TargetRowPrefix(absl::string_view tenant, const Uid& target) {
  return KeyWriter().Text(tenant).Id(target).Take();
}

}  // namespace escapement
