// Short names for the conditions and mutations that most groups consist of.
//
// Pure.

#ifndef COMMON_KV_GROUP_PARTS_H_
#define COMMON_KV_GROUP_PARTS_H_

#include <optional>
#include <string>
#include <utility>

#include "common/kv/kv_store.h"

namespace escapement::kv {

inline Condition Absent(ColumnFamily cf, std::string key) {
  return {.cf = cf, .key = std::move(key), .kind = Condition::Kind::kAbsent};
}

inline Condition Present(ColumnFamily cf, std::string key) {
  return {.cf = cf, .key = std::move(key), .kind = Condition::Kind::kPresent};
}

// `since`: see Condition::since.
inline Condition ValueIs(ColumnFamily cf, std::string key, std::string value, CommitSeq since = 0) {
  return {.cf = cf,
          .key = std::move(key),
          .kind = Condition::Kind::kValueEquals,
          .value = std::move(value),
          .since = since};
}

// As it was read: it has this value, or, without one, it is absent.
inline Condition Unchanged(ColumnFamily cf, std::string key, std::optional<std::string> value) {
  if (!value.has_value()) return Absent(cf, std::move(key));
  return ValueIs(cf, std::move(key), *std::move(value));
}

inline Mutation Put(ColumnFamily cf, std::string key, std::string value) {
  return {.cf = cf, .key = std::move(key), .value = std::move(value)};
}

inline Mutation Delete(ColumnFamily cf, std::string key) {
  return {.cf = cf, .kind = Mutation::Kind::kDelete, .key = std::move(key)};
}

}  // namespace escapement::kv

#endif  // COMMON_KV_GROUP_PARTS_H_
