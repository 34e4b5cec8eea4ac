#include "common/storage/interned_delivery.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/base/stable_bytes.h"
#include "common/base/stable_hash.h"
#include "common/storage/schedule_table.h"

namespace escapement {
namespace {

constexpr int64_t kPeriodMicros = int64_t{28} * 24 * 3'600'000'000;
constexpr size_t kPeriodBytes = sizeof(DeliveryPeriod);

}  // namespace

DeliveryPeriod DeliveryPeriodOf(absl::Time due) {
  constexpr int64_t kLast = std::numeric_limits<DeliveryPeriod>::max();
  return static_cast<DeliveryPeriod>(std::clamp<int64_t>(ToMicros(due) / kPeriodMicros, 0, kLast));
}

InternedDelivery Intern(const storage::v1::DeliveryRecord& delivery, absl::Time due) {
  const DeliveryPeriod period = DeliveryPeriodOf(due);
  InternedDelivery interned;
  const Uid content = StableHash128(SerializeDeterministically(delivery));
  interned.hash = Uid::FromBytes(
      absl::StrCat(DeliveryPeriodBegin(period), content.bytes().substr(kPeriodBytes)));
  storage::v1::DefinitionRecord definition;
  *definition.mutable_delivery() = delivery;
  definition.set_create_time_micros(period * kPeriodMicros);
  interned.definition = SerializeDeterministically(definition);
  return interned;
}

DeliveryPeriod DeliveryPeriodOf(const Uid& hash) {
  const absl::string_view bytes = hash.bytes();
  return static_cast<DeliveryPeriod>(static_cast<unsigned char>(bytes[0]) << 8 |
                                     static_cast<unsigned char>(bytes[1]));
}

std::optional<Uid> DeliveryHashOf(const storage::v1::EventRecord& event) {
  if (event.definition_hash().size() != Uid::kBytes) return std::nullopt;
  return Uid::FromBytes(event.definition_hash());
}

kv::Group InternGroup(const InternedDelivery& interned) {
  const std::string key = InternKey(interned.hash);
  kv::Group group;
  group.conditions.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .value = interned.definition});
  return group;
}

std::string InternKey(const Uid& hash) { return DefinitionKey(hash, 0); }

std::string DeliveryPeriodBegin(DeliveryPeriod period) {
  KeyWriter key;
  key.U16(period);
  return key.Take();
}

bool IsDeliveryOfPeriod(absl::string_view key, absl::string_view value) {
  if (key.size() < Uid::kBytes || key != InternKey(Uid::FromBytes(key))) return false;
  storage::v1::DefinitionRecord definition;
  return definition.ParseFromArray(value.data(), static_cast<int>(value.size())) &&
         definition.create_time_micros() != 0;
}

}  // namespace escapement
