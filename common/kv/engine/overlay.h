// Overlay: the effects of the commits that are being decided, over the synced state beneath them.
//
// The commits of one sync are decided one after the other before any of them is written; each must
// see the effects of those before it. The overlay lists effects as they come and indexes a column
// family only when somebody first looks into it, because most commits ask only questions that
// RecentWrites answers.
//
// Threads: one at a time. Keys and values are views: their owner keeps them until Clear().

#ifndef COMMON_KV_ENGINE_OVERLAY_H_
#define COMMON_KV_ENGINE_OVERLAY_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/kv/column_family.h"

namespace escapement::kv {

// The synced state. Reading it cannot fail: an implementation whose disk fails ends the process.
class BaseState {
 public:
  // Return false to stop.
  using Visitor = absl::FunctionRef<bool(absl::string_view key, absl::string_view value)>;

  virtual ~BaseState() = default;
  // False if the key is absent; else its value is in *value.
  virtual bool Get(ColumnFamily cf, absl::string_view key, std::string* value) = 0;
  // Visits [begin, end) upwards; an empty end means to the end of the column family.
  virtual void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                       Visitor visit) = 0;
};

// Receives what is to be written, in order; copies what it is given.
class WriteSink {
 public:
  virtual ~WriteSink() = default;
  virtual void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) = 0;
  virtual void Delete(ColumnFamily cf, absl::string_view key) = 0;
  virtual void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) = 0;
};

class Overlay {
 public:
  // `base` outlives the overlay and does not change between two calls of Clear.
  explicit Overlay(BaseState& base) : base_(base) {}

  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value);
  void Delete(ColumnFamily cf, absl::string_view key);
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end);
  void Clear();

  // The value with all effects so far; false if absent. *value stays valid until the next call.
  bool Get(ColumnFamily cf, absl::string_view key, absl::string_view* value);
  // Visits the keys of [begin, end) upwards; return false to stop.
  void ForEachKey(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                  absl::FunctionRef<bool(absl::string_view)> visit);

 private:
  struct Effect {
    enum class Kind : uint8_t { kPut, kDelete, kDeleteRange } kind;
    absl::string_view key;
    absl::string_view value;  // of a range its end
  };
  struct Point {
    bool present;
    absl::string_view value;
  };
  struct Family {
    std::vector<Effect> effects;
    size_t indexed = 0;  // effects[0, indexed) are in `points` and `ranges`
    absl::btree_map<absl::string_view, Point> points;
    // Deleted ranges; a point in one of them was set after it.
    std::vector<std::pair<absl::string_view, absl::string_view>> ranges;
  };
  Family& Indexed(ColumnFamily cf);
  static bool InRanges(const Family& family, absl::string_view key);

  BaseState& base_;
  std::array<Family, kColumnFamilyCount> families_;
  std::string scratch_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_OVERLAY_H_
